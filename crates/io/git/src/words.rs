//! What git, `ssh` and the hooks of Git servers say when they do not let us in: they have no code for it, only words.

use kardinal_vcs::Barrier;

/// What they say, in lower case. Each has a space in it, which the name of a branch never has, so that no name is taken for
/// one of them.
const REFUSALS: [&str; 19] = [
    // ssh: "Permission denied (publickey)". Without the bracket it may be about a file of this machine.
    "permission denied (",
    // git: what a server answers to what it was given, and that nothing was given.
    "authentication failed",
    "could not read username",
    "could not read password",
    "returned error: 401",
    "returned error: 403",
    // GitHub, Bitbucket over SSH: "Repository not found", also to those who may not see it. Over HTTP that is a 404.
    "repository not found",
    // Gitea, Forgejo over SSH: "Cannot find repository: acme/app".
    "cannot find repository: ",
    // GitHub: "You're not authorized to push to this branch".
    "not authorized to",
    // Gitea, Forgejo: "Not allowed to push to protected branch". GitLab: "You are not allowed to push code to this project".
    "not allowed to push",
    "not allowed to force",
    "not allowed to create",
    "not allowed to delete",
    "not allowed to merge",
    // Gitea: "User permission denied for writing".
    "permission denied for",
    // Bitbucket: "Permission denied to update branch", "You do not have permission to push".
    "permission denied to",
    "not have permission",
    "n't have permission",
    // Azure DevOps: "You need the Git 'GenericContribute' permission to perform this action".
    "permission to perform",
];

/// What stands in the way, by what the git program or a server's hook has printed. Whoever prints it may be a stranger, so
/// nothing follows from it but whom people are sent to: that there is a refusal was known before.
pub(crate) fn barrier(printed: &str) -> Barrier {
    let printed = printed.to_lowercase();
    match REFUSALS.iter().any(|refusal| printed.contains(refusal)) {
        true => Barrier::NotLetIn,
        false => Barrier::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_not_let_in_is_told_from_whoever_meets_another_obstacle() {
        let cases = [
            ("git@git.example: Permission denied (publickey,password).", Barrier::NotLetIn),
            ("fatal: Authentication failed for 'https://git.example/a.git/'", Barrier::NotLetIn),
            (
                "fatal: could not read Username for 'https://git.example': terminal prompts disabled",
                Barrier::NotLetIn,
            ),
            (
                "fatal: unable to access 'https://git.example/a/': The requested URL returned error: 403",
                Barrier::NotLetIn,
            ),
            (
                "pre-receive hook declined\n Gitea: Not allowed to push to protected branch main",
                Barrier::NotLetIn,
            ),
            (
                "pre-receive hook declined\n GitLab: You are not allowed to push code to this project.",
                Barrier::NotLetIn,
            ),
            (
                "protected branch hook declined\n - You're not authorized to push to this branch.",
                Barrier::NotLetIn,
            ),
            ("pre-receive hook declined\n Permission denied to update branch main.", Barrier::NotLetIn),
            ("pre-receive hook declined\n Gitea: User permission denied for writing.", Barrier::NotLetIn),
            (
                "TF401027: You need the Git 'GenericContribute' permission to perform this action.",
                Barrier::NotLetIn,
            ),
            (
                "ERROR: Repository not found.\nfatal: Could not read from remote repository.",
                Barrier::NotLetIn,
            ),
            (
                "Forgejo: Cannot find repository: acme/app\nfatal: Could not read from remote repository.",
                Barrier::NotLetIn,
            ),
            // A rule that holds for everybody.
            (
                "protected branch hook declined\n GH006: Protected branch update failed for refs/heads/main",
                Barrier::Other,
            ),
            (
                "protected branch hook declined\n - Changes must be made through a pull request.",
                Barrier::Other,
            ),
            ("pre-receive hook declined\n the commit message has no ticket", Barrier::Other),
            ("deletion prohibited", Barrier::Other),
            ("fatal: repository 'https://git.example/a.git/' not found", Barrier::Other),
            ("Host key verification failed.", Barrier::Other),
            ("error: cannot run ssh: Permission denied", Barrier::Other),
            // Names.
            ("fatal: 'a/token-service' does not appear to be a git repository", Barrier::Other),
            (
                "pre-receive hook declined\n permissions/forbidden.yaml has two credentials: token, password",
                Barrier::Other,
            ),
            (
                "pre-receive hook declined\n wrong name: not-allowed-to-push/authentication-failed",
                Barrier::Other,
            ),
            ("", Barrier::Other),
        ];
        for (printed, expected) in cases {
            assert_eq!(barrier(printed), expected, "{printed}");
        }
    }

    #[test]
    fn no_name_of_a_branch_can_be_a_refusal() {
        for refusal in REFUSALS {
            assert!(refusal.contains(' ') && refusal == refusal.to_lowercase(), "{refusal}");
        }
    }
}
