//! What to try next, as commands that work when they are typed as they are printed.

use std::path::{Path, PathBuf};

use kardinal_promotion::explain::shell_word;
use kardinal_promotion::view::Next;

use super::sample::{APP, IMAGE, REPOSITORY};
use crate::args::ServerArguments;
use crate::commands::up::Place;
use crate::connect;

/// How commands are written on this machine, in this directory.
pub(super) struct Commands {
    program: String,
    /// Flags that lead to this server, with a blank before them.
    server: String,
}

impl Commands {
    pub(super) fn new(place: &Place) -> Commands {
        let found =
            connect::kubeconfig(&ServerArguments { kubeconfig: None, context: None, namespace: None });
        let server = match found.as_deref() == Some(&*place.kubeconfig()) {
            true => String::new(),
            false => format!(" --kubeconfig {}", quoted(&place.kubeconfig())),
        };
        Commands { program: program(), server }
    }

    /// What can be typed now, each with what it is for.
    pub(super) fn offers(&self, next: Next) -> Vec<(String, &'static str)> {
        let Commands { program, server } = self;
        let mut offers =
            vec![(format!("{program} explain {APP} --watch{server}"), "why it waits, and until when")];
        match next {
            Next::Merge(number) => offers.extend([
                (
                    format!("{program} pr open {number} --repo {REPOSITORY}{server}"),
                    "the pull request in a browser, which is signed in by it",
                ),
                (
                    format!("{program} pr merge {number} --repo {REPOSITORY}{server}"),
                    "approve: the version goes to prod",
                ),
            ]),
            Next::Release => offers.push((
                format!("{program} create bundle {APP} --image {IMAGE}:1.3.0{server}"),
                "the next version",
            )),
        }
        offers.push((
            format!("{program} create bundle {APP} --image {IMAGE}:1.2.0-broken{server}"),
            "a version that never gets healthy: it is taken back by itself",
        ));
        offers
    }
}

/// Commands as text; none when there are none.
pub(super) fn offered(commands: &[(String, &'static str)]) -> String {
    if commands.is_empty() {
        return String::new();
    }
    let mut text = "\nNext, in another terminal in this directory:\n".to_owned();
    for (command, what) in commands {
        text.push_str(&format!("\n  # {what}\n  {command}\n"));
    }
    text.push('\n');
    text
}

/// `kardinal` where that is this very program, else the way to it.
fn program() -> String {
    let Ok(this) = std::env::current_exe() else { return "kardinal".to_owned() };
    let same = |found: PathBuf| found.canonicalize().ok() == this.canonicalize().ok();
    if crate::outside::find("kardinal").is_some_and(same) {
        return "kardinal".to_owned();
    }
    let here = std::env::current_dir().ok();
    quoted(&here.map_or_else(|| this.clone(), |here| typed_in(&here, &this)))
}

/// How people who are in a directory call a program: a shell looks for a bare name elsewhere.
fn typed_in(here: &Path, program: &Path) -> PathBuf {
    match program.strip_prefix(here) {
        Ok(short) if short.components().count() == 1 => Path::new(".").join(short),
        Ok(short) => short.to_owned(),
        Err(_) => program.to_owned(),
    }
}

/// A path as a shell takes it.
fn quoted(path: &Path) -> String {
    shell_word(&path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_finds_what_is_printed() {
        let typed = |program: &str| typed_in(Path::new("/srv"), Path::new(program));
        assert_eq!(typed("/srv/target/release/kardinal"), Path::new("target/release/kardinal"));
        assert_eq!(typed("/srv/kardinal").display().to_string(), "./kardinal");
        assert_eq!(typed("/bin/kardinal"), Path::new("/bin/kardinal"));
    }

    #[test]
    fn a_shell_takes_what_is_printed() {
        assert_eq!(quoted(Path::new("target/release/kardinal")), "target/release/kardinal");
        assert_eq!(quoted(Path::new("/a b/it's")), r"'/a b/it'\''s'");
    }

    #[test]
    fn each_situation_has_its_commands() {
        let commands = Commands { program: "kardinal".to_owned(), server: " --kubeconfig x".to_owned() };
        let merge = offered(&commands.offers(Next::Merge(7)));
        let typed: Vec<&str> = merge.lines().filter_map(|line| line.strip_prefix("  kardinal ")).collect();
        assert_eq!(
            typed,
            [
                "explain my-app --watch --kubeconfig x",
                "pr open 7 --repo demo --kubeconfig x",
                "pr merge 7 --repo demo --kubeconfig x",
                "create bundle my-app --image ghcr.io/myorg/my-app:1.2.0-broken --kubeconfig x",
            ]
        );
        let release = offered(&commands.offers(Next::Release));
        assert_eq!(release.matches("\n  kardinal ").count(), 3);
        assert_eq!(offered(&[]), "");
    }
}
