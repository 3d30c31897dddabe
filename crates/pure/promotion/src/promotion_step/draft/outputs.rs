//! The names under which a step keeps what its tasks have handed on.

/// The uid of the Bundle that the step began with: another one may get the same name.
pub(in crate::promotion_step) const BUNDLE_UID: &str = "bundleUid";
/// The commit that holds the change.
pub(in crate::promotion_step) const COMMIT: &str = "commit";
/// The commit that it was built on.
pub(in crate::promotion_step) const BASE_COMMIT: &str = "baseCommit";
/// The whole id of the commit of the configuration repository.
pub(in crate::promotion_step) const CONFIG_COMMIT: &str = "configCommit";
/// The branch that it was pushed to.
pub(in crate::promotion_step) const BRANCH: &str = "branch";
/// Whether there was something to change.
pub(in crate::promotion_step) const CHANGED: &str = "changed";
/// What changed, a line for each image or file.
pub(in crate::promotion_step) const CHANGES: &str = "changes";
/// The number of the pull request.
pub(in crate::promotion_step) const PR_NUMBER: &str = "prNumber";
/// The newest commit of the pull request.
pub(in crate::promotion_step) const PR_HEAD: &str = "prHead";
/// Where the pull request stands: [`OPEN`], [`MERGED`], [`CLOSED`], [`LEFT`] or [`NONE`].
pub(in crate::promotion_step) const PR_STATE: &str = "prState";
/// What [`PR_STATE`] says of one that waits.
pub(in crate::promotion_step) const OPEN: &str = "open";
/// What [`PR_STATE`] says of one that was closed without merging.
pub(in crate::promotion_step) const CLOSED: &str = "closed";
/// What [`PR_STATE`] says where there is none, or a step that is being deleted cannot find out.
pub(in crate::promotion_step) const NONE: &str = "none";
/// What [`PR_STATE`] says of one that a failed step could not close, or look at.
pub(in crate::promotion_step) const LEFT: &str = "left";
/// What [`PR_STATE`] says of one whose change is in.
pub(in crate::promotion_step) const MERGED: &str = "merged";
/// The commit that the merge left on the base branch.
pub(in crate::promotion_step) const MERGE_COMMIT: &str = "mergeCommit";
/// Whether somebody closed the pull request without merging it.
pub(in crate::promotion_step) const REJECTED: &str = "rejected";
/// The commit that the pull request was rebuilt on, until people have been told; `none`: there was nothing left to change.
pub(in crate::promotion_step) const REBUILT_ON: &str = "rebuiltOn";
/// Stands for no commit at all.
pub(in crate::promotion_step) const NOTHING: &str = "none";
/// The newest commit of the pull request, when it was found not to be the step's own.
pub(in crate::promotion_step) const FOREIGN_HEAD: &str = "foreignHead";
/// Set when a forge refuses to merge because of a conflict.
pub(in crate::promotion_step) const CONFLICT: &str = "conflict";
/// The fingerprint of the facts that the body of the pull request tells.
pub(in crate::promotion_step) const EVIDENCE_KEY: &str = "evidenceKey";
/// What the commit status was last asked to say, and of which commit. A forge that refuses to show it is not asked for the
/// same again; what it really shows is [`GREEN_HEAD`].
pub(in crate::promotion_step) const STATUS_KEY: &str = "statusKey";
/// The commit that shows a green check.
pub(in crate::promotion_step) const GREEN_HEAD: &str = "greenHead";
/// Since when it does.
pub(in crate::promotion_step) const GREEN_SINCE: &str = "greenSince";
/// Which commit showed a green check last that it shows no more, from when and until when.
pub(in crate::promotion_step) const WAS_GREEN: &str = "wasGreen";
/// The commits whose checks a step that is over cannot take back, with spaces between them.
pub(in crate::promotion_step) const CHECK_LEFT: &str = "checkLeft";
/// How often the running custom task was called in vain.
pub(in crate::promotion_step) const TASK_ATTEMPTS: &str = "taskAttempts";
/// Why another object than the first choice tells the health.
pub(in crate::promotion_step) const HEALTH_FALLBACK: &str = "healthFallback";
/// What the workloads looked like right before the push.
pub(in crate::promotion_step) const HEALTH_BEFORE: &str = "healthBefore";
/// What they looked like at the first look after the change, where [`HEALTH_BEFORE`] is not known.
pub(in crate::promotion_step) const HEALTH_BASELINE: &str = "healthBaseline";
/// Set while nothing is known of the environment's health.
pub(in crate::promotion_step) const HEALTH_UNKNOWN: &str = "healthUnknown";
/// Since when its health is known again, after a time in which it was not.
pub(in crate::promotion_step) const HEALTH_SINCE: &str = "healthKnownSince";
/// Whether the promotion branch was cleared away.
pub(in crate::promotion_step) const BRANCH_DELETED: &str = "branchDeleted";
