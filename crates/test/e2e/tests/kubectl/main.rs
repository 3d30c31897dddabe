//! The real `kubectl` against `kardinal up` and, with the same lines, against a real kube-apiserver: what a step expects
//! here is what Kubernetes does.
//!
//! A scenario is a list of lines as a user types them. It must not depend on the server that it runs on.

mod applying;
mod creating;
mod deleting;
mod editing;
mod explaining;
mod extending;
mod listing;
mod readme;
mod shell;
mod strictness;
mod waiting;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use anyhow::Context as _;
use kardinal_testkit::up::Up;
use kardinal_testkit::world::real_kubeconfig;

use shell::Shell;

/// Makes one test per server out of every scenario `fn(&Shell) -> anyhow::Result<()>`.
macro_rules! on_both_servers {
    ($($module:ident: $($scenario:ident),+;)+) => {
        mod on_kardinal_up {
            $(mod $module { $(
                #[test]
                fn $scenario() -> anyhow::Result<()> {
                    crate::on_kardinal_up(stringify!($scenario), crate::$module::$scenario)
                }
            )+ })+
        }

        mod on_real_kubernetes {
            $(mod $module { $(
                #[test]
                fn $scenario() -> anyhow::Result<()> {
                    crate::on_real_kubernetes(stringify!($scenario), crate::$module::$scenario)
                }
            )+ })+
        }
    };
}

on_both_servers! {
    applying: client_side_apply, client_side_apply_of_our_kinds, server_side_apply, server_side_conflicts, migration_to_server_side, diff;
    creating: creating_things, scaling, dry_runs, replacing;
    deleting: cascade_background, cascade_foreground, cascade_orphan, deleting_by_selection, deleting_a_namespace;
    editing: edit, patches, status_patches, labels_and_annotations;
    explaining: api_resources, explain, describe, questions_to_the_server;
    extending: a_plain_definition;
    listing: output_formats, selectors, watching, tables_of_our_kinds, events;
    strictness: misspelt_fields, wrong_values, unknown_things, bad_queries_delete_nothing;
    waiting: wait_for_a_condition, wait_for_a_value, wait_for_deletion;
}

fn on_kardinal_up(scenario: &str, run: fn(&Shell) -> anyhow::Result<()>) -> anyhow::Result<()> {
    if !has_kubectl() {
        return Ok(());
    }
    // Nothing but kubectl changes objects here: with Graphs running, a step could meet their controller's writes.
    let up = Up::start(&["--no-controllers"])?;
    in_new_namespace(&up.kubeconfig, scenario, run)
        .with_context(|| format!("kardinal up said:\n{}", up.log()))?;
    let log = up.log();
    anyhow::ensure!(!log.contains("panicked"), "kardinal up panicked:\n{log}");
    Ok(())
}

fn on_real_kubernetes(scenario: &str, run: fn(&Shell) -> anyhow::Result<()>) -> anyhow::Result<()> {
    static INSTALLED: Mutex<bool> = Mutex::new(false);
    if !has_kubectl() {
        return Ok(());
    }
    let Some(kubeconfig) = real_kubeconfig()? else { return Ok(()) };
    let mut installed = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
    if !*installed {
        let shell = Shell::new(&kubeconfig, &repository())?;
        shell.ok("kubectl apply --server-side -f deploy/crds")?;
        shell.ok("kubectl wait --for=condition=Established --timeout=60s -f deploy/crds")?;
        *installed = true;
    }
    drop(installed);
    in_new_namespace(&kubeconfig, scenario, run)
}

fn in_new_namespace(
    kubeconfig: &Path,
    scenario: &str,
    run: fn(&Shell) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut shell = Shell::new(kubeconfig, &Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures"))?;
    shell.enter_new_namespace(&scenario.replace('_', "-"))?;
    run(&shell)
}

/// The folder with the README.
fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

#[expect(clippy::print_stderr, reason = "a skipped test should be seen")]
fn has_kubectl() -> bool {
    let found =
        Command::new("kubectl").args(["version", "--client"]).output().is_ok_and(|out| out.status.success());
    if !found {
        eprintln!("skipped: there is no `kubectl` on this machine");
    }
    found
}
