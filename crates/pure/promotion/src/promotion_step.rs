//! The PromotionStep's part of the sentence: one Bundle on its way into one environment.
//!
//! A step does one [`Effect`] at a time and writes down what came of it before the next. Every effect may be done
//! again: a commit carries the step's identity and a pull request its marker, so that a step that was interrupted
//! between the deed and the record finds its own work and goes on.

mod body;
mod change;
mod check;
mod closing;
mod commit_check;
mod draft;
mod facts;
mod gates;
pub(crate) mod lane;
mod late;
mod organisation;
mod pending;
mod promoting;
mod pull_request;
mod removal;
mod reopening;
mod report;
mod target;
mod tasks;
#[cfg(test)]
mod tests;
mod verifying;
mod waiting;
pub mod why;

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use kardinal_api::kardinal::{Bundle, PolicyGate, PromotionState, PromotionStep, PromotionStepStatus};
use kardinal_manifest::Image;
use serde_json::Value;

use crate::health::HealthFacts;
use crate::seal::Key;
pub(crate) use change::{base_branch, directory};
pub use change::{promotion_branch, rollback_of, undone};
pub(crate) use check::TYPES;
pub use check::{CheckedStep, Problem, check};
pub use facts::{Hold, gate_texts, hold, image_moves};
pub use kardinal_planner::condition::Note;
use kardinal_planner::why::Wait;
use kardinal_vcs::{CommitState, NewPullRequest, PullRequest, PullRequestState};
pub(crate) use lane::has_begun;
pub use lane::is_outside;
pub use late::concerns;
pub(crate) use organisation::is_behind;
pub use organisation::{Ground, Organisation};
pub use report::{KNOCKS, Report, in_time, report};
pub use target::target;
pub(crate) use target::written_to;
pub use tasks::{Call, Task, TaskKind};
pub(crate) use verifying::{Ending, ending};
pub use verifying::{awaits_look, looks_before_push};

/// Keeps a step that may have a promotion branch until its pull request is closed and the branch is gone.
pub const FINALIZER: &str = "kardinal.io/promotion";
/// The field manager of a step's status and finalizer.
pub const MANAGER: &str = "kardinal-promotion-controller";
/// What the context of the commit status of a pull request begins with; the branch that it goes into follows.
const STATUS_CONTEXT: &str = "kardinal/gates";

/// Everything a decision about one step is made from.
pub struct Snapshot<'a> {
    /// The step as last seen.
    pub step: &'a PromotionStep,
    /// The Bundle to promote; `None` when it does not exist.
    pub bundle: Option<&'a Bundle>,
    /// The other steps of the same Pipeline and environment.
    pub others: Vec<&'a PromotionStep>,
    /// The other steps of the same Bundle, while the step has a pull request to fill.
    pub siblings: Vec<&'a PromotionStep>,
    /// Why everything is held, such as a paused Pipeline.
    pub hold: Option<Hold>,
    /// What the organisation's gates say; else why that is not known, which holds the step as a closed gate does.
    pub organisation: Result<&'a Organisation, &'a str>,
    /// What the controller seals its verifications with.
    pub key: Option<&'a Key>,
    /// The required gates that exist, by name.
    pub gates: BTreeMap<String, &'a PolicyGate>,
    /// What to say about each gate in the pull request, by name.
    pub gate_texts: BTreeMap<String, String>,
    /// The pull request as last read; `None` when it was not read since the process started, or since an effect on
    /// it was left without an answer.
    pub pull_request: Option<&'a PullRequest>,
    /// Whether a pull request was looked for in vain since the process started, or since something was heard of one.
    pub has_no_pull_request: bool,
    /// Whether this process has heard of a pull request of the step.
    pub heard_of_pull_request: bool,
    /// The commit whose check this process has set to pending, if it has shown nothing else there since.
    pub withdrawn: Option<&'a str>,
    /// Whether this process has asked the forge to show something on the newest commit of the pull request.
    pub has_shown: bool,
    /// What this process has shown last on a commit. Unlike the status, nobody else can put an older one in its place.
    pub shown: Option<&'a Shown>,
    /// What was seen of the environment, while the step checks health.
    pub health: Option<&'a HealthFacts>,
    /// The Bundle that was verified last in the environment.
    pub previous: Option<&'a Bundle>,
    /// The Bundle whose configuration this one undoes in the environment, when it takes another one back: see [`undone`].
    pub reverted: Option<&'a Bundle>,
    /// Whether the Bundle brings back what was verified before, and not only says so.
    pub takes_back: bool,
    /// The one `now` of this pass.
    pub now: Timestamp,
}

/// One thing to do in the world.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// On the step itself.
    Step(StepEffect),
    /// In the repository.
    Git(GitEffect),
    /// On the forge.
    Forge(ForgeEffect),
    /// Call a custom task. Answered by [`Outcome::TaskAnswer`].
    CallTask(TaskCall),
}

/// What is done to the step itself. Answered by [`Outcome::Done`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepEffect {
    /// Take away a status that the controller did not write.
    ForgetStatus,
    /// Add [`FINALIZER`] to the step.
    AddFinalizer,
    /// Remove [`FINALIZER`] from the step.
    RemoveFinalizer,
}

/// What is done in the repository.
#[derive(Clone, Debug, PartialEq)]
pub enum GitEffect {
    /// Write the change to the repository. Answered by [`Outcome::Committed`].
    Commit(CommitOrder),
    /// Delete the promotion branch. Gone already is [`Outcome::Done`], too.
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
    /// Open the pull request, or find the one that carries the marker. Answered by [`Outcome::PullRequest`].
    OpenPullRequest(NewPullRequest),
    /// Read the pull request. Answered by [`Outcome::PullRequest`].
    ReadPullRequest {
        /// Its number.
        number: u64,
    },
    /// Bring title, body and labels up to date. Answered by [`Outcome::Done`].
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
    /// [`Outcome::PullRequest`].
    MergePullRequest {
        /// Its number.
        number: u64,
        /// The commit that may be merged.
        head_sha: String,
        /// The branch that it may be merged into.
        base: String,
    },
    /// Say something on it. Answered by [`Outcome::Done`].
    CommentPullRequest {
        /// Its number.
        number: u64,
        /// What, in Markdown.
        comment: String,
    },
    /// Say why, and close it. Answered by [`Outcome::Done`].
    ClosePullRequest {
        /// Its number.
        number: u64,
        /// Why, in Markdown.
        comment: String,
    },
    /// Look for a pull request of the step's own whose number was never written down, or of which the record got lost.
    /// Answered by [`Outcome::PullRequest`] or [`Outcome::NoPullRequest`].
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
    /// deleted. Answered by [`Outcome::PullRequest`] or [`Outcome::NoPullRequest`].
    FindMerge {
        /// The branch that it comes from.
        head: String,
        /// The branch that it goes into.
        base: String,
        /// What was merged before does not count: a Bundle of the same name may have been there.
        since: Option<Timestamp>,
    },
    /// Show on a commit whether the gates are open. Answered by [`Outcome::Shown`].
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
        /// Why, and what to change.
        message: String,
    },
    /// It is not permitted as things are, and goes on by itself once somebody mends that: credentials, protection.
    Blocked {
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

/// What to do next.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// What to do; one thing at a time.
    pub effect: Option<Effect>,
    /// The status to write when there is nothing to do, and it differs from the observed.
    pub status: Option<PromotionStepStatus>,
    /// When to look again if nothing else happens.
    pub wake: Option<Timestamp>,
    /// Transitions.
    pub notes: Vec<Note>,
}

impl Plan {
    /// Whether it changes what is in Git: what is known of the gates must not be old then.
    pub fn changes_git(&self) -> bool {
        self.effect.as_ref().is_some_and(organisation::changes_git)
    }

    fn act(effect: Effect) -> Plan {
        Plan { effect: Some(effect), ..Plan::default() }
    }
}

/// Decides what to do next. Whatever led there, nothing changes in Git that the organisation's gates hold.
///
/// A status that the controller did not write is nobody's word: the step begins again, and finds what it really has done.
/// One that is over stays as it is; only a pull request of the step's own that is still open is closed.
pub fn plan(snapshot: &Snapshot<'_>) -> Plan {
    let step = snapshot.step;
    if let Some(effect) = commit_check::left_green(snapshot) {
        return Plan::act(effect);
    }
    let checked = check::check_current(snapshot);
    let unknown = snapshot.organisation.err().filter(|_| !is_over(step));
    match (snapshot.key, unknown) {
        // Nobody knows whose the record is, so nothing is done or cleared up by it. Why may be said: a message is no claim.
        (None, Some(why)) => return organisation::unknown(snapshot, &checked, why),
        (None, None) => return Plan { wake: Some(organisation::ask_again(snapshot)), ..Plan::default() },
        (Some(_), _) if !is_proven(snapshot) => return unproven(snapshot),
        (Some(_), Some(why)) => return organisation::unknown(snapshot, &checked, why),
        (Some(_), None) => {}
    }
    let mut plan = decide(snapshot, &checked);
    if plan.changes_git()
        && let Some(why) = organisation::blocker(snapshot)
    {
        plan = organisation::hold(snapshot, &checked, why);
    }
    if plan.effect.is_none() && is_before_the_change(snapshot.step) {
        let again = snapshot.organisation.ok().and_then(Organisation::wake);
        plan.wake = plan.wake.into_iter().chain(again).min();
    }
    plan
}

/// What is done about a status that the controller did not write.
fn unproven(snapshot: &Snapshot<'_>) -> Plan {
    let step = snapshot.step;
    match is_over(step) && step.metadata.deletion_timestamp.is_none() {
        true => closing::orphan(snapshot),
        // A step that begins again may be held before it comes to its pull request: until then nothing must be green there.
        false => {
            Plan::act(commit_check::withdraw(snapshot).unwrap_or(Effect::Step(StepEffect::ForgetStatus)))
        }
    }
}

/// Whether the controller itself wrote the status, for the step and the Bundle as they are now.
fn is_proven(snapshot: &Snapshot<'_>) -> bool {
    let same = snapshot.bundle.is_none_or(|bundle| !is_of_another(snapshot.step, bundle));
    same && snapshot.key.is_some_and(|key| key.proves_progress(snapshot.step))
}

/// Whether a step was begun for another Bundle, which had the name of this one: what it did says nothing of this one.
pub fn is_of_another(step: &PromotionStep, bundle: &Bundle) -> bool {
    let begun_with = step.status.as_ref().and_then(|status| draft::output(status, draft::BUNDLE_UID));
    begun_with.is_some() && bundle.metadata.uid.is_some() && begun_with != bundle.metadata.uid.as_deref()
}

/// What speaks against an effect that was planned a while ago, when nothing but the push is left to do. `files` are those
/// that really change: a gate that guards a place must not depend on how a step describes what it writes.
pub fn objection(snapshot: &Snapshot<'_>, effect: &Effect, files: &[String]) -> Option<Outcome> {
    let again = plan(snapshot);
    if again.effect.as_ref() != Some(effect) {
        let mut waits = again.status.map(|status| status.waits).unwrap_or_default();
        if waits.is_empty() {
            waits.push(why::next("what is to be done has changed in the meantime"));
        }
        return Some(Outcome::Held { why: waits });
    }
    let Some(bundle) = snapshot.bundle else {
        return Some(Outcome::Held { why: vec![why::next("the Bundle is gone")] });
    };
    let target = target(snapshot.step, bundle.spec.kind());
    let strange = files.iter().find(|file| !target.covers(file))?;
    let message =
        format!("the change would write `{strange}`, which is not where this step says that it writes");
    Some(Outcome::Refused { task: None, message })
}

/// Whether a step may still have to ask gates.
pub fn is_before_the_change(step: &PromotionStep) -> bool {
    let state = step.status.as_ref().and_then(|status| status.state);
    state != Some(PromotionState::HealthChecking) && !is_over(step)
}

/// Whether what the gates say may still have to be told: while they can hold the step, and as long as somebody can merge
/// the pull request of a promotion that has failed or is being deleted.
pub fn asks_gates(step: &PromotionStep) -> bool {
    let status = step.status.as_ref();
    let has_failed = status.and_then(|status| status.state) == Some(PromotionState::Failed);
    let is_merged = status.and_then(|status| draft::output(status, draft::PR_STATE)) == Some(draft::MERGED);
    let is_leaving = step.metadata.deletion_timestamp.is_some();
    is_before_the_change(step) || ((has_failed || is_leaving) && !is_merged)
}

/// Whether nothing but clearing up is left to do.
fn is_over(step: &PromotionStep) -> bool {
    let state = step.status.as_ref().and_then(|status| status.state);
    matches!(state, Some(PromotionState::Verified | PromotionState::Failed))
        || step.metadata.deletion_timestamp.is_some()
}

/// Whether a step has begun and not ended.
fn is_under_way(step: &PromotionStep) -> bool {
    let state = step.status.as_ref().and_then(|status| status.state);
    !is_over(step) && !matches!(state, None | Some(PromotionState::Pending))
}

fn decide(snapshot: &Snapshot<'_>, checked: &check::Checked) -> Plan {
    if snapshot.step.metadata.deletion_timestamp.is_some() {
        return removal::plan(snapshot, checked);
    }
    let state = snapshot.step.status.as_ref().and_then(|status| status.state);
    if is_under_way(snapshot.step) && pending::was_verified(snapshot, checked) {
        // An older status was put back: what was verified is not done once more, and its evidence is not rewritten.
        return Plan::act(Effect::Step(StepEffect::ForgetStatus));
    }
    match state {
        None | Some(PromotionState::Pending) => pending::plan(snapshot, checked),
        Some(PromotionState::Promoting) => promoting::plan(snapshot, checked),
        Some(PromotionState::WaitingForMerge) => waiting::plan(snapshot, checked),
        Some(PromotionState::HealthChecking) => verifying::plan(snapshot, checked),
        Some(PromotionState::Failed) => closing::abandon(snapshot, checked),
        Some(PromotionState::Verified) => Plan::default(),
    }
}

/// Whether somebody closed the step's pull request without merging it: a no to the Bundle here, and no word about the
/// environments before.
pub fn is_rejected(step: &PromotionStep) -> bool {
    let status = step.status.as_ref().filter(|status| status.state == Some(PromotionState::Failed));
    status.is_some_and(|status| draft::output(status, draft::REJECTED).is_some())
}

/// Whether the step may have to tell people what was verified before it.
pub fn tells_people(step: &PromotionStep, bundle: &Bundle) -> bool {
    let state = step.status.as_ref().and_then(|status| status.state);
    match state {
        Some(PromotionState::WaitingForMerge) => true,
        Some(PromotionState::Promoting) => {
            check(step, bundle.spec.kind()).is_ok_and(|checked| checked.opens_pull_request())
        }
        _ => false,
    }
}

/// The number of the step's pull request.
pub(crate) fn pull_request_number(status: &PromotionStepStatus) -> Option<&str> {
    draft::output(status, draft::PR_NUMBER)
}

/// The commit whose arrival in the environment is waited for.
pub fn promoted_commit(status: &PromotionStepStatus) -> Option<&str> {
    draft::output(status, draft::MERGE_COMMIT).or_else(|| draft::output(status, draft::COMMIT))
}
