//! Which gate templates guard which environments.

use kardinal_api::kardinal::{self, Bundle, BundleType, GateStage, Pipeline, PolicyGate, PromotionStep};
use kardinal_object::{Gvk, created_at};
use kardinal_policy::{
    GATE_TEMPLATE_LABEL, GATE_TEMPLATE_NAMESPACE_LABEL, Scope, Target, applies_to, guards, is_organisations,
    is_skip_permission, is_template, speaks_for_organisation,
};

use super::translate::step_spec;
use crate::promotion_step::target;
use kardinal_planner::names::label_value;

/// The gate templates that count for one Bundle of a Pipeline, each once, in the order of namespace and name.
/// Nothing in a Pipeline can take one away.
#[derive(Clone, Debug)]
pub struct Templates<'a> {
    pipeline: &'a Pipeline,
    kind: BundleType,
    gates: Vec<Template<'a>>,
    permissions: Vec<&'a PolicyGate>,
}

/// A gate template and whom it speaks for.
#[derive(Clone, Copy, Debug)]
pub struct Template<'a> {
    /// The gate as written.
    pub gate: &'a PolicyGate,
    /// The organisation only in its own namespaces: a team cannot speak for it.
    pub scope: Scope,
}

impl<'a> Template<'a> {
    /// The name of the template.
    pub fn name(&self) -> &'a str {
        self.gate.metadata.name.as_deref().unwrap_or_default()
    }

    /// The namespace of the template.
    pub fn namespace(&self) -> &'a str {
        namespace(self.gate)
    }

    /// Whether it is asked before the environment changes or after.
    pub fn stage(&self) -> GateStage {
        self.gate.spec.when.unwrap_or_default()
    }
}

impl<'a> Templates<'a> {
    /// Picks the templates out of everything that was seen: those in the organisation's namespaces, in the Pipeline's
    /// own and in those that the Pipeline adds. Instances and freezes are none, and of the organisation's only those that
    /// were there before the Bundle hold it. What the Bundle carries decides where it writes.
    pub fn collect(
        pipeline: &'a Pipeline,
        bundle: &Bundle,
        gates: &[&'a PolicyGate],
        policy_namespaces: &[String],
    ) -> Templates<'a> {
        let mut seen: Vec<&PolicyGate> = gates
            .iter()
            .copied()
            .filter(|gate| is_template(gate) && searches(pipeline, namespace(gate), policy_namespaces))
            .collect();
        seen.sort_by_key(|gate| (namespace(gate), gate.metadata.name.as_deref().unwrap_or_default()));
        seen.dedup_by_key(|gate| (namespace(gate), gate.metadata.name.as_deref().unwrap_or_default()));
        let is_org = |gate: &PolicyGate| is_organisations(gate, policy_namespaces);
        let created = created_at(&bundle.metadata);
        let holds =
            |gate: &PolicyGate| !is_org(gate) || speaks_for_organisation(gate, policy_namespaces, created);
        let (permissions, guards): (Vec<&PolicyGate>, Vec<&PolicyGate>) =
            seen.into_iter().partition(|gate| is_skip_permission(gate));
        Templates {
            pipeline,
            kind: bundle.spec.kind(),
            permissions: permissions.into_iter().filter(|gate| is_org(gate)).collect(),
            gates: guards
                .into_iter()
                .filter(|gate| holds(gate))
                .map(|gate| Template { gate, scope: if is_org(gate) { Scope::Org } else { Scope::Team } })
                .collect(),
        }
    }

    /// The gates of an environment, the organisation's first.
    pub fn guarding(&self, environment: &str) -> Vec<Template<'a>> {
        let target = self.target(environment);
        let mut found: Vec<Template<'a>> =
            self.gates.iter().copied().filter(|template| guards(template.gate, &target)).collect();
        found.sort_by_key(|template| template.scope == Scope::Team);
        found
    }

    fn target(&self, environment: &str) -> Target {
        match self.pipeline.spec.environments.iter().find(|one| one.name == environment) {
            Some(found) => target(&PromotionStep::new("", step_spec(self.pipeline, found, false)), self.kind),
            None => Target { environment: environment.to_owned(), ..Target::default() },
        }
    }

    /// The organisation's permissions to skip an environment.
    pub fn permissions(&self, environment: &str) -> Vec<&'a PolicyGate> {
        self.permissions.iter().copied().filter(|gate| applies_to(gate, environment)).collect()
    }
}

/// The kind of gates.
pub(crate) fn kind() -> Gvk {
    Gvk { group: kardinal::GROUP.into(), version: kardinal::VERSION.into(), kind: "PolicyGate".into() }
}

/// The namespaces whose templates count for the Bundles of a namespace: everybody looks where the organisation writes,
/// besides that in the own namespace and in those that the Pipeline adds. One may be named more than once.
pub fn searched<'a>(
    pipeline: Option<&'a Pipeline>,
    namespace: &'a str,
    policy_namespaces: &'a [String],
) -> impl Iterator<Item = &'a str> {
    let added = pipeline.into_iter().flat_map(|pipeline| &pipeline.spec.policy_namespaces);
    policy_namespaces.iter().chain(added).map(String::as_str).chain([namespace])
}

/// Whether the templates of a namespace count for a Pipeline.
pub fn searches(pipeline: &Pipeline, namespace: &str, policy_namespaces: &[String]) -> bool {
    let own = pipeline.metadata.namespace.as_deref().unwrap_or_default();
    searched(Some(pipeline), own, policy_namespaces).any(|name| name == namespace)
}

/// Whether a gate instance was made from the template of this namespace and name. A label holds less than a name, so names
/// are compared as labels hold them.
pub fn is_made_from(instance: &PolicyGate, namespace: &str, name: &str) -> bool {
    let labels = instance.metadata.labels.as_ref();
    let label = |key: &str| labels.and_then(|labels| labels.get(key)).map(String::as_str);
    label(GATE_TEMPLATE_NAMESPACE_LABEL) == Some(namespace)
        && label(GATE_TEMPLATE_LABEL) == Some(label_value(name).as_str())
}

/// The template that a gate instance was made from, where it is among these gates.
pub fn template_of<'g>(
    instance: &PolicyGate,
    gates: impl IntoIterator<Item = &'g PolicyGate>,
) -> Option<&'g PolicyGate> {
    let mut gates = gates.into_iter();
    gates.find(|gate| {
        is_made_from(instance, namespace(gate), gate.metadata.name.as_deref().unwrap_or_default())
    })
}

fn namespace(gate: &PolicyGate) -> &str {
    gate.metadata.namespace.as_deref().unwrap_or_default()
}
