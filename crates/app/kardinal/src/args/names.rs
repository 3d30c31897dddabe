//! Names that become part of objects: what cannot be one is told before anything is tried with it.

use kardinal_planner::problem::Problem;
use kardinal_promotion::intent::{check_namespace, check_shard};

/// A shard: the label of steps, and a part of a Lease's name.
pub(super) fn shard(text: &str) -> Result<String, String> {
    check_shard("shard", text).map_err(render).map(|()| text.to_owned())
}

/// A namespace.
pub(super) fn namespace(text: &str) -> Result<String, String> {
    check_namespace("namespace", text).map_err(render).map(|()| text.to_owned())
}

/// A namespace, or `*`.
pub(super) fn namespace_or_all(text: &str) -> Result<String, String> {
    if text == "*" { Ok(text.to_owned()) } else { namespace(text) }
}

fn render(problem: Problem) -> String {
    match problem.hint {
        Some(hint) => format!("{}: {hint}", problem.message),
        None => problem.message,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use crate::args::Arguments;

    fn parsed(line: &str, value: &str) -> Result<Arguments, String> {
        let words = std::iter::once("kardinal").chain(line.split_whitespace()).chain([value]);
        Arguments::try_parse_from(words).map_err(|error| {
            assert_eq!(error.exit_code(), 2);
            error.to_string()
        })
    }

    #[test]
    fn a_shard_that_no_step_can_have_is_refused_with_its_flag_and_the_rule() {
        for command in ["agent --control-plane-kubeconfig f --shard", "controller --shard", "up --shard"] {
            let long = "x".repeat(64);
            for bad in ["Bad Name", "", "a/b", "_a", "a-", "a.", "é", &long] {
                let Err(error) = parsed(command, bad) else { panic!("{command} {bad:?}") };
                let said = ["--shard", bad, "letters, digits, `-`, `_` and `.`", "63"];
                assert!(said.iter().all(|part| error.contains(part)), "{command}: {error}");
            }
            for good in ["eu-cluster", "EU", "eu_west.1", "7", &"x".repeat(63)] {
                parsed(command, good).unwrap_or_else(|error| panic!("{command} {good}: {error}"));
            }
        }
    }

    #[test]
    fn a_namespace_that_cannot_exist_is_refused_with_its_flag_and_the_rule() {
        for flag in ["--policy-namespaces", "--health-namespaces"] {
            for command in ["agent --control-plane-kubeconfig f --shard eu", "controller", "up"] {
                let line = format!("{command} {flag}");
                for bad in ["Bad Name", "a,b_c", "a.b", "a/b"] {
                    let Err(error) = parsed(&line, bad) else { panic!("{line} {bad}") };
                    let said = [flag, "lower case letters, digits and `-`"];
                    assert!(said.iter().all(|part| error.contains(part)), "{line}: {error}");
                }
                parsed(&line, "team-a,team-b").unwrap();
            }
        }
        parsed("controller --health-namespaces", "*").unwrap();
        parsed("explain my-app --policy-namespaces", "Policies").unwrap_err();
    }
}
