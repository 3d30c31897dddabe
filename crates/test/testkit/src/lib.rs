//! Worlds to run scenarios in, and the real programs that tests build and start.
//!
//! A scenario is written once, through `kube::Client` only, and runs in three worlds:
//! in memory with virtual time, on `kardinal up` over HTTPS, and on a real kube-apiserver.

pub mod child;
pub mod clock;
pub mod real;
pub mod requests;
pub mod story;
pub mod up;
pub mod world;

pub use story::Story;
pub use world::{World, WorldKind};

/// Makes one test per world out of a scenario `async fn(&World) -> anyhow::Result<()>`.
#[macro_export]
macro_rules! in_three_worlds {
    ($name:ident) => {
        mod $name {
            #[test]
            fn in_memory() -> anyhow::Result<()> {
                $crate::world::in_memory(async |world| super::$name(world).await)
            }

            #[test]
            fn on_kardinal_up() -> anyhow::Result<()> {
                $crate::world::on_kardinal_up(async |world| super::$name(world).await)
            }

            #[test]
            fn on_real_kubernetes() -> anyhow::Result<()> {
                $crate::world::on_real_kubernetes(async |world| super::$name(world).await)
            }
        }
    };
}
