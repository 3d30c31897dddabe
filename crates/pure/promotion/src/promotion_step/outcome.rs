//! What comes of what a step has asked for.

use jiff::{SignedDuration, Timestamp};
use kardinal_planner::why::Wait;
use kardinal_vcs::{Barrier, PullRequest};

/// How a change came to be in the repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Push {
    /// It was pushed just now.
    Made,
    /// A commit of ours from an earlier life was found.
    Found,
    /// The branch says all of it already, by no commit of ours: the commit is its tip.
    NotNeeded,
}

impl Push {
    /// Whether there is a commit of ours.
    pub fn has_commit(self) -> bool {
        self != Push::NotNeeded
    }
}

/// What came of an effect.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It is done, or was done before.
    Done,
    /// People can see it.
    Shown {
        /// Since when at the latest.
        at: Timestamp,
    },
    /// The change is in the repository.
    Committed {
        /// The commit that holds the change.
        commit: String,
        /// The commit that it was built on.
        base: Option<String>,
        /// How it came to be there.
        push: Push,
        /// The files that changed.
        files: Vec<String>,
        /// The images that changed.
        moves: Vec<ImageMove>,
        /// The commit of the configuration repository that was brought in, by its whole id.
        source: Option<String>,
    },
    /// The pull request as it is now.
    PullRequest(PullRequest),
    /// There is none.
    NoPullRequest,
    /// The forge answers, and does not know the pull request or the commit (yet).
    Absent {
        /// What it does not know.
        message: String,
    },
    /// What a custom task answered.
    TaskAnswer {
        /// Whether the promotion may go on.
        success: bool,
        /// Why.
        message: String,
    },
    /// What allowed it does not hold any more; nothing was done.
    Held {
        /// What holds it now.
        why: Vec<Wait>,
    },
    /// Others have written to the step's own branch, and what they wrote stays.
    Overtaken {
        /// What to do about it.
        message: String,
    },
    /// A pull request cannot be merged because it is in conflict with its base, or may be.
    Conflict {
        /// What the forge said.
        message: String,
        /// Whether that is known; otherwise the forge may still be comparing.
        certain: bool,
    },
    /// It cannot be done as asked, however often it is tried: the files or the order are wrong.
    Refused {
        /// The task whose edit was refused.
        task: Option<usize>,
        /// What stands in the way.
        barrier: Barrier,
        /// Why, and what to change.
        message: String,
    },
    /// It is not permitted as things are, and goes on by itself once somebody mends that: credentials, protection.
    Blocked {
        /// What stands in the way.
        barrier: Barrier,
        /// Why, and what to change.
        message: String,
    },
    /// The world failed.
    Fault {
        /// What failed.
        message: String,
        /// When it makes sense to try again.
        retry: Retry,
    },
}

/// When it makes sense to try again what the world has failed to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// As soon as the other side may be back: it cannot be reached, or answers with an error.
    Soon,
    /// The other side wants to be asked again after this time.
    After(SignedDuration),
    /// The other side limits how often it may be asked. It may say how long it wants to be left alone.
    Limited(Option<SignedDuration>),
    /// Later and later: each try costs much.
    Later,
}

/// An image that went from one version to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageMove {
    /// The repository of the image.
    pub repository: String,
    /// The version before, if there was one.
    pub from: Option<String>,
    /// The version now.
    pub to: String,
}
