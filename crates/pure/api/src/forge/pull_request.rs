//! PullRequest: a wish to bring one branch into another, with what people and checks say about it.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Wait;

/// How somebody is called: on one line, since names stand in tables and messages.
const PERSON: &str = r"^[^\x00-\x1f\x7f]+$";

/// Which branch goes where, why, what reviewers say, and what shall become of it.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "forge.kardinal.io",
    version = "v1alpha1",
    kind = "PullRequest",
    namespaced,
    doc = "A PullRequest asks to bring one branch of a Repository into another.",
    status = "PullRequestStatus",
    derive = "PartialEq",
    shortname = "pr",
    category = "kardinal",
    selectable = ".spec.repository",
    selectable = ".status.state",
    printcolumn(name = "Repository", type_ = "string", json_path = ".spec.repository"),
    printcolumn(name = "Number", type_ = "integer", json_path = ".status.number"),
    printcolumn(name = "State", type_ = "string", json_path = ".status.state"),
    printcolumn(name = "Title", type_ = "string", json_path = ".spec.title"),
    printcolumn(name = "Base", type_ = "string", json_path = ".spec.base"),
    printcolumn(name = "Head", type_ = "string", json_path = ".spec.head", priority = 1),
    printcolumn(name = "Author", type_ = "string", json_path = ".spec.author", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "self.repository == oldSelf.repository && self.head == oldSelf.head && self.base == oldSelf.base",
        "message": "`repository`, `head` and `base` cannot be changed: open another pull request instead",
        "reason": "FieldValueForbidden",
    },
    {
        "rule": "self.head != self.base",
        "message": "`head` and `base` must be two different branches",
        "fieldPath": ".head",
    },
    {
        "rule": "!has(self.closedBy) || self.desired != 'open'",
        "message": "an open pull request was closed by nobody: leave `closedBy` out",
        "fieldPath": ".closedBy",
    },
]))]
pub struct PullRequestSpec {
    /// The Repository, in the same namespace.
    #[schemars(length(min = 1, max = 253))]
    pub repository: String,
    /// The branch with the change.
    #[schemars(length(min = 1, max = 244), regex(pattern = r"^[^\s~^:?*\[\\]+$"))]
    pub head: String,
    /// The branch that shall receive it.
    #[schemars(length(min = 1, max = 244), regex(pattern = r"^[^\s~^:?*\[\\]+$"))]
    pub base: String,
    /// The change in one line.
    #[schemars(length(min = 1, max = 1024))]
    pub title: String,
    /// The change in full, in Markdown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 262_144))]
    pub body: String,
    /// Who opened it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256), regex(pattern = PERSON))]
    pub author: Option<String>,
    /// Words to find it by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 100),
        inner(length(min = 1, max = 100)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub labels: Vec<String>,
    /// What each reviewer says now; a later verdict of the same person takes the place of the earlier one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 100),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["author"])
    )]
    pub reviews: Vec<Review>,
    /// What was said, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000))]
    pub comments: Vec<Comment>,
    /// What machines say about the change, one entry per context.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 100),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["context"])
    )]
    pub checks: Vec<Check>,
    /// What shall become of it: `open` (default) waits, `merged` merges as soon as it can be, `closed` gives it up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Desired", extend("default" = "open"))]
    pub desired: Option<Desired>,
    /// Who asked for the merge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256), regex(pattern = PERSON))]
    pub merged_by: Option<String>,
    /// Who gave it up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256), regex(pattern = PERSON))]
    pub closed_by: Option<String>,
    /// The commit of `head` that the merge was asked for; no other is merged. Absent: whatever is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 40, max = 64), regex(pattern = r"^[0-9a-f]+$"))]
    pub expected_head: Option<String>,
}

impl PullRequestSpec {
    /// What shall become of it, the default included.
    pub fn desired(&self) -> Desired {
        self.desired.unwrap_or_default()
    }
}

/// What shall become of a pull request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Desired {
    /// It waits for people.
    #[default]
    Open,
    /// It is merged as soon as it can be.
    Merged,
    /// It is given up.
    Closed,
}

/// What one reviewer says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Review {
    /// Who.
    #[schemars(length(min = 1, max = 256), regex(pattern = PERSON))]
    pub author: String,
    /// Whether the change is good: `approved` or `changes-requested`.
    #[schemars(with = "Verdict")]
    pub verdict: Verdict,
    /// When.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::timestamp")]
    pub at: Option<Timestamp>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 65_536))]
    pub body: Option<String>,
    /// The commit of `head` that was looked at. An approval of another commit than the one that is merged, or of one that
    /// is not named, does not count as an approval of what is merged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 40, max = 64), regex(pattern = r"^[0-9a-f]+$"))]
    pub commit: Option<String>,
}

/// Whether a change is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It is.
    Approved,
    /// It is not yet.
    ChangesRequested,
}

/// A remark.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Comment {
    /// Who.
    #[schemars(length(min = 1, max = 256), regex(pattern = PERSON))]
    pub author: String,
    /// What, in Markdown.
    #[schemars(length(min = 1, max = 65_536))]
    pub body: String,
    /// When.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::timestamp")]
    pub at: Option<Timestamp>,
}

/// What a machine says about a commit of the change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Check {
    /// Which check it is.
    #[schemars(length(min = 1, max = 256))]
    pub context: String,
    /// How it went: `pending`, `success` or `failure`.
    #[schemars(with = "CheckState")]
    pub state: CheckState,
    /// How it went, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub description: Option<String>,
    /// Where to read more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub url: Option<String>,
    /// The commit that it speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 40, max = 64), regex(pattern = r"^[0-9a-f]+$"))]
    pub commit: Option<String>,
}

/// How a check went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CheckState {
    /// It has not ended.
    Pending,
    /// It is content.
    Success,
    /// It is not.
    Failure,
}

/// Where a pull request stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PullRequestState {
    /// It can still be merged or closed.
    #[default]
    Open,
    /// Its change is in the base branch. This is final.
    Merged,
    /// It was given up; `desired: open` opens it again.
    Closed,
}

impl PullRequestState {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            PullRequestState::Open => "Open",
            PullRequestState::Merged => "Merged",
            PullRequestState::Closed => "Closed",
        }
    }
}

/// What the forge made of a pull request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PullRequestStatus {
    /// The generation that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Its number in its repository, counted from 1. It never changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
    /// Where it stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "PullRequestState")]
    pub state: Option<PullRequestState>,
    /// Where to look at it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The newest commit of the head branch; after a merge the one that was merged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head_commit: Option<String>,
    /// The newest commit of the base branch; after a merge the one before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_commit: Option<String>,
    /// Whether the two branches fit together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mergeable: Option<bool>,
    /// The commit that brought the change into the base branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge_commit: Option<String>,
    /// When it was merged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::timestamp")]
    pub merged_at: Option<Timestamp>,
    /// Who asked for the merge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merged_by: Option<String>,
    /// When it was given up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::timestamp")]
    pub closed_at: Option<Timestamp>,
    /// Who gave it up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_by: Option<String>,
    /// The files that differ, in the order of their paths; at most 1000.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub files: Vec<PullRequestFile>,
    /// How many lines it adds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub additions: Option<u64>,
    /// How many lines it removes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletions: Option<u64>,
    /// What holds and what does not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// What it waits for, the most important first. Empty when nothing is waited for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub waits: Vec<Wait>,
}

/// A file that a pull request changes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PullRequestFile {
    /// Its path.
    pub path: String,
    /// What happens to it: `added`, `modified` or `removed`.
    #[schemars(with = "FileStatus")]
    pub status: FileStatus,
}

/// What happens to a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FileStatus {
    /// It is new.
    Added,
    /// Its content or mode changes.
    #[default]
    Modified,
    /// It goes away.
    Removed,
}
