//! What a PolicyGate is for: read from its labels and from its spec.

use kardinal_api::PolicyGate;
use kardinal_api::kardinal::{APPLIES_TO_LABEL, SCOPE_LABEL, TYPE_LABEL};
use kardinal_object::label_of;

use kardinal_vcs::{Written, means_branch};

/// Names the template that a gate instance was made from. A gate with it is never a template.
pub const GATE_TEMPLATE_LABEL: &str = "kardinal.io/gate-template";
/// Names the namespace of that template.
pub const GATE_TEMPLATE_NAMESPACE_LABEL: &str = "kardinal.io/gate-template-namespace";
/// Marks the gate that pauses a Pipeline when it is `"true"`.
pub const FREEZE_LABEL: &str = "kardinal.io/freeze";

/// Who a gate speaks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// The organisation: teams cannot remove the gate.
    Org,
    /// A team.
    Team,
}

impl Scope {
    /// The word that labels and tables use.
    pub fn as_str(self) -> &'static str {
        match self {
            Scope::Org => "org",
            Scope::Team => "team",
        }
    }
}

/// What a gate may guard: an environment by its name, and the places that a promotion to it writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// The name of the environment.
    pub environment: String,
    /// What is written in the repository.
    pub paths: Vec<Written>,
    /// The branches that are written, that of the environment itself first.
    pub branches: Vec<String>,
}

impl Target {
    /// Whether a file is among what is written.
    pub fn covers(&self, file: &str) -> bool {
        self.paths.iter().any(|path| path.covers(file))
    }
}

/// Whether the gate guards a promotion: the environment by its name, or what is written there.
pub fn guards(gate: &PolicyGate, target: &Target) -> bool {
    let path = |pattern: &String| target.paths.iter().any(|path| path.is_meant_by(pattern));
    let branch = |pattern: &String| target.branches.iter().any(|branch| means_branch(pattern, branch));
    applies_to(gate, &target.environment)
        || gate.spec.applies_to_paths.iter().any(path)
        || gate.spec.applies_to_branches.iter().any(branch)
}

/// Whether the gate says anywhere what it guards.
pub fn names_something(gate: &PolicyGate) -> bool {
    let spec = &gate.spec;
    label_of(&gate.metadata, APPLIES_TO_LABEL).is_some()
        || !spec.applies_to.is_empty()
        || !spec.applies_to_paths.is_empty()
        || !spec.applies_to_branches.is_empty()
}

/// Whether the gate guards this environment, by its label or by `spec.appliesTo`.
pub fn applies_to(gate: &PolicyGate, environment: &str) -> bool {
    label_of(&gate.metadata, APPLIES_TO_LABEL) == Some(environment)
        || gate.spec.applies_to.iter().any(|named| named == environment)
}

/// Whether people wrote the gate for Bundles to come: it is neither an instance nor a pause.
pub fn is_template(gate: &PolicyGate) -> bool {
    label_of(&gate.metadata, GATE_TEMPLATE_LABEL).is_none() && !is_freeze(gate)
}

/// Whether the gate permits skipping an environment instead of guarding it.
pub fn is_skip_permission(gate: &PolicyGate) -> bool {
    label_of(&gate.metadata, TYPE_LABEL) == Some("skip-permission") || gate.spec.skip_permission == Some(true)
}

/// Whether the gate pauses a Pipeline.
pub fn is_freeze(gate: &PolicyGate) -> bool {
    label_of(&gate.metadata, FREEZE_LABEL) == Some("true")
}

/// Who the gate speaks for. Only `org` is the organisation; where such a gate may live is for the caller to check.
pub fn scope(gate: &PolicyGate) -> Scope {
    match label_of(&gate.metadata, SCOPE_LABEL) {
        Some("org") => Scope::Org,
        _ => Scope::Team,
    }
}
