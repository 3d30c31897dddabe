//! What a step asks for, one thing at a time.

use jiff::{SignedDuration, Timestamp};
use kardinal_manifest::Image;
use kardinal_vcs::{CommitState, NewPullRequest};
use serde_json::Value;

/// One thing to do in the world.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// On the step itself.
    Step(StepEffect),
    /// In the repository.
    Git(GitEffect),
    /// On the forge.
    Forge(ForgeEffect),
    /// Call a custom task. Answered by `Outcome::TaskAnswer`.
    CallTask(TaskCall),
}

/// What is done to the step itself. Answered by `Outcome::Done`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepEffect {
    /// Take away a status that the controller did not write.
    ForgetStatus,
    /// Add `FINALIZER` to the step.
    AddFinalizer,
    /// Remove `FINALIZER` from the step.
    RemoveFinalizer,
}

/// What is done in the repository.
#[derive(Clone, Debug, PartialEq)]
pub enum GitEffect {
    /// Write the change to the repository. Answered by `Outcome::Committed`.
    Commit(CommitOrder),
    /// Delete the promotion branch. Gone already is `Outcome::Done`, too.
    DeleteBranch {
        /// The branch.
        branch: String,
        /// The commit that it must still hold. `None`: the push was never written down, so whatever it holds.
        commit: Option<String>,
    },
}

/// What is asked of the forge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForgeEffect {
    /// Open the pull request, or find the one that carries the marker. Answered by `Outcome::PullRequest`.
    OpenPullRequest(NewPullRequest),
    /// Read the pull request. Answered by `Outcome::PullRequest`.
    ReadPullRequest {
        /// Its number.
        number: u64,
    },
    /// Bring title, body and labels up to date. Answered by `Outcome::Done`.
    UpdatePullRequest {
        /// Its number.
        number: u64,
        /// The title.
        title: String,
        /// The body, in Markdown.
        body: String,
        /// All of its labels.
        labels: Vec<String>,
    },
    /// Merge it, if its head still is this commit and it still goes into this branch. Answered by
    /// `Outcome::PullRequest`.
    MergePullRequest {
        /// Its number.
        number: u64,
        /// The commit that may be merged.
        head_sha: String,
        /// The branch that it may be merged into.
        base: String,
    },
    /// Say something on it. Answered by `Outcome::Done`.
    CommentPullRequest {
        /// Its number.
        number: u64,
        /// What, in Markdown.
        comment: String,
    },
    /// Say why, and close it. Answered by `Outcome::Done`.
    ClosePullRequest {
        /// Its number.
        number: u64,
        /// Why, in Markdown.
        comment: String,
    },
    /// Look for a pull request of the step's own whose number was never written down, or of which the record got lost.
    /// Answered by `Outcome::PullRequest` or `Outcome::NoPullRequest`.
    FindPullRequest {
        /// The branch that it comes from.
        head: String,
        /// The branch that it goes into.
        base: String,
        /// What its body must contain.
        marker: String,
        /// One that ended before does not count: a Bundle of the same name may have been there.
        since: Option<Timestamp>,
    },
    /// Look for a merge between two branches, whoever opened its pull request: perhaps a step of the same Bundle that was
    /// deleted. Answered by `Outcome::PullRequest` or `Outcome::NoPullRequest`.
    FindMerge {
        /// The branch that it comes from.
        head: String,
        /// The branch that it goes into.
        base: String,
        /// What was merged before does not count: a Bundle of the same name may have been there.
        since: Option<Timestamp>,
    },
    /// Show on a commit whether the gates are open. Answered by `Outcome::Shown`.
    SetCommitStatus {
        /// The commit.
        sha: String,
        /// Under which name.
        context: String,
        /// What to show.
        state: CommitState,
        /// The same in a few words.
        description: String,
    },
}

/// What is shown on a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The commit.
    pub sha: String,
    /// What people see there.
    pub state: CommitState,
    /// Since when without a break.
    pub since: Timestamp,
}

/// A change to write to a repository as one commit.
#[derive(Clone, Debug, PartialEq)]
pub struct CommitOrder {
    /// The branch to build on.
    pub base: String,
    /// The branch to write; the same as `base` for a direct push.
    pub branch: String,
    /// The whole commit message, the identity line at its end included.
    pub message: String,
    /// The line by which a commit is known as this step's own.
    pub identity: String,
    /// The step's own commit on `branch` that this one shall take the place of, because `base` has moved on.
    pub replaces: Option<String>,
    /// The time of the commit. It is fixed, so that the same parent gives the same commit id.
    pub time: Timestamp,
    /// The directory of the environment; `.` is the root.
    pub directory: String,
    /// What to edit, in order.
    pub edits: Vec<Edit>,
}

/// One edit of the files of an environment. `task` is the index of the task that asks for it.
#[derive(Clone, Debug, PartialEq)]
pub enum Edit {
    /// Set images in the kustomization of the directory.
    KustomizeImages {
        /// The task.
        task: usize,
        /// The images to set.
        images: Vec<Image>,
    },
    /// Set image tags in a Helm values file.
    HelmImages {
        /// The task.
        task: usize,
        /// The values file, relative to the directory.
        file: String,
        /// The path of the tag; may contain `{name}`.
        path: String,
        /// The images to set.
        images: Vec<Image>,
    },
    /// Replace text by a regular expression.
    ReplaceText {
        /// The task.
        task: usize,
        /// The file, relative to the directory. `None`: every YAML file in the directory and below it, of which
        /// at least one must match.
        file: Option<String>,
        /// The regular expression.
        pattern: String,
        /// What to put in its place; `${1}` stands for the first group.
        with: String,
    },
    /// Set one value in a YAML file.
    YamlSet {
        /// The task.
        task: usize,
        /// The file, relative to the directory.
        file: String,
        /// The dotted path of the value.
        path: String,
        /// The value.
        value: Value,
    },
    /// Bring the changes of a commit of a configuration repository into the directory.
    ConfigMerge {
        /// The task.
        task: usize,
        /// The URL of the configuration repository.
        repository: String,
        /// The commit.
        sha: String,
        /// The commit that is taken back: what differs from it is applied. `None`: what the commit itself changed.
        instead_of: Option<String>,
        /// How.
        strategy: MergeStrategy,
        /// The directory in the configuration repository to take from. `None`: all of it.
        source_path: Option<String>,
    },
    /// Render the kustomization of the directory into one file.
    KustomizeBuild {
        /// The task.
        task: usize,
        /// The file to write, relative to the directory.
        output: String,
    },
}

/// How a configuration commit is brought in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeStrategy {
    /// Apply what the commit changed.
    CherryPick,
    /// Copy the files that the commit changed.
    Overlay,
}

/// A call of a custom task.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskCall {
    /// The index of the task.
    pub index: usize,
    /// Where to post to.
    pub url: String,
    /// How long to wait for the answer.
    pub timeout: SignedDuration,
    /// The Secret whose value proves who calls, in the step's namespace.
    pub secret: Option<SecretKey>,
    /// The header that carries it, as `Bearer <value>`.
    pub header: String,
    /// The request.
    pub body: Value,
    /// Which attempt this is, counted from 1.
    pub attempt: u32,
}

/// One value of a Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretKey {
    /// The name of the Secret.
    pub name: String,
    /// The key in it.
    pub key: String,
}
