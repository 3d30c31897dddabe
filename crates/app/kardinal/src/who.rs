//! Who is asking: for records that people read later.

use std::process::Command;

use crate::args::Who;

/// The name that was given, else that of the user of this machine, else Git's.
pub(crate) fn name(who: &Who) -> String {
    let given = who.name.clone();
    let user = || std::env::var("USER").ok().filter(|user| !user.is_empty());
    given.or_else(user).or_else(git_user).unwrap_or_else(|| "somebody".to_owned())
}

fn git_user() -> Option<String> {
    let output = Command::new("git").args(["config", "user.name"]).output().ok()?;
    let name = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !name.is_empty()).then_some(name)
}
