//! Worlds to run scenarios in, and the real programs that tests build and start.
//!
//! A scenario is written once, through `kube::Client` only, and runs in three worlds:
//! in memory with virtual time, on `kardinal up` over HTTPS, and on a real kube-apiserver.

pub mod apply;
pub mod child;
pub mod clock;
pub mod gitea;
pub mod installed;
pub mod kustomize;
pub mod outside;
pub mod process;
pub mod real;
pub mod requests;
pub mod shop;
pub mod story;
pub mod up;
pub mod world;

pub use apply::apply;
pub use shop::Shop;
pub use story::Story;
pub use world::{World, WorldKind};

/// Tests and benchmarks allocate as the program does.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Makes one test per world out of a scenario `async fn(&World) -> anyhow::Result<()>`: of Graphs only, or, as
/// `in_three_worlds!(promotions: name)`, of the whole product.
#[macro_export]
macro_rules! in_three_worlds {
    ($name:ident) => {
        $crate::in_three_worlds!(graphs: $name);
    };
    ($settings:ident: $name:ident) => {
        mod $name {
            use $crate::world;

            #[test]
            fn in_memory() -> anyhow::Result<()> {
                world::in_memory(world::$settings(), async |world| super::$name(world).await)
            }

            #[test]
            fn on_kardinal_up() -> anyhow::Result<()> {
                world::on_kardinal_up(world::$settings(), async |world| super::$name(world).await)
            }

            #[test]
            fn on_real_kubernetes() -> anyhow::Result<()> {
                world::on_real_kubernetes(world::$settings(), async |world| super::$name(world).await)
            }
        }
    };
}
