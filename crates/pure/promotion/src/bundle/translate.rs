//! From a Pipeline to the Graph of one Bundle: a node for each environment and for each gate in front of it.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kardinal_api::GoDuration;
use kardinal_api::graph::{Graph, GraphSpec, Node};
use kardinal_api::kardinal::{
    Approval, BUNDLE_LABEL, Bundle, ENVIRONMENT_LABEL, Environment, GROUP, GateStage, GitLayout,
    PIPELINE_LABEL, Pipeline, PolicyGate, PolicyGateSpec, PromotionStepGit, PromotionStepSpec, SCOPE_LABEL,
    SHARD_LABEL, VERSION,
};
use kardinal_object::name_of;
use kardinal_policy::{freshness, recheck_interval};
use serde_json::{Map, Value, json};

use super::escape::escaped;
use super::gates::{Template, Templates};
use super::route::{Route, Stop};
use super::{
    APPROVAL_ANNOTATION, GATE_TEMPLATE_LABEL, GATE_TEMPLATE_NAMESPACE_LABEL, UPSTREAMS_ANNOTATION, carries,
    is_automatic_rollback,
};
use kardinal_planner::names::{Ids, ObjectNames, base, label_value, object_name, short_hash};
use kardinal_planner::problem::Problem;

/// The id of the node that stands for the Bundle.
const BUNDLE_ID: &str = "bundle";

/// The Graph that promotes a Bundle through a Pipeline. Whether the Bundle may skip what it skips is not asked here.
///
/// `graphs` are the Graphs whose names are taken; those of other Bundles are kept clear of.
pub fn translate(
    bundle: &Bundle,
    pipeline: &Pipeline,
    gates: &[&PolicyGate],
    policy_namespaces: &[String],
    graphs: &[&Graph],
) -> Result<Graph, Problem> {
    check_name(name_of(&bundle.metadata))?;
    let route = Route::intended(&pipeline.spec, bundle.spec.intent.as_ref())?;
    let templates = Templates::collect(pipeline, bundle, gates, policy_namespaces);
    let foreign: Vec<&Graph> = graphs.iter().copied().filter(|graph| !carries(graph, bundle)).collect();
    let mut graph = Graph::new("", GraphSpec::default());
    for prefix in prefixes(bundle) {
        graph = Draft::new(bundle, pipeline, &route, &templates, &prefix).graph();
        if is_free(&graph, &foreign) {
            break;
        }
    }
    Ok(graph)
}

/// Steps and gates find their Bundle by a label, and a label holds less than a name.
fn check_name(name: &str) -> Result<(), Problem> {
    if name == label_value(name) {
        return Ok(());
    }
    Err(Problem::new("metadata.name", format!("`{name}` has {} characters", name.len()))
        .hint("the name of a Bundle can have at most 63: create it again with a shorter one"))
}

/// The names that a Bundle's Graph may get, best first.
pub fn graph_names(bundle: &Bundle) -> Vec<String> {
    prefixes(bundle).iter().map(|prefix| object_name(&[prefix])).collect()
}

/// What the names of all objects of a promotion begin with: the Bundle's name without its time stamp; with it; and with
/// what nobody else can have.
fn prefixes(bundle: &Bundle) -> Vec<String> {
    let full = name_of(&bundle.metadata);
    let own = short_hash(bundle.metadata.uid.as_deref().unwrap_or(full));
    let mut prefixes = vec![base(full).to_owned(), full.to_owned(), format!("{full}-{own}")];
    prefixes.dedup();
    prefixes
}

/// The Graph of a Pipeline for people who want to go on by hand; `bundle_name` stands for the Bundle to promote.
pub fn export_graph(
    pipeline: &Pipeline,
    gates: &[&PolicyGate],
    policy_namespaces: &[String],
    bundle_name: &str,
) -> Result<Graph, Problem> {
    let mut bundle = Bundle::new(bundle_name, kardinal_api::kardinal::BundleSpec::default());
    bundle.metadata.namespace.clone_from(&pipeline.metadata.namespace);
    let mut graph = translate(&bundle, pipeline, gates, policy_namespaces, &[])?;
    graph.metadata.owner_references = None;
    Ok(graph)
}

/// Whether no other Graph has the name, or an object of the same kind and name.
fn is_free(graph: &Graph, foreign: &[&Graph]) -> bool {
    let ours: BTreeSet<(&str, &str)> = templates_of(graph).collect();
    !foreign.iter().any(|other| {
        other.metadata.name == graph.metadata.name || templates_of(other).any(|object| ours.contains(&object))
    })
}

/// Kind and name of every object that a Graph makes, the Bundle it reads excluded.
fn templates_of(graph: &Graph) -> impl Iterator<Item = (&str, &str)> {
    graph.spec.nodes.iter().filter_map(|node| {
        let template = node.template.as_ref()?;
        let kind = template.get("kind")?.as_str()?;
        let name = template.pointer("/metadata/name")?.as_str()?;
        (kind != "Bundle").then_some((kind, name))
    })
}

/// A gate in front of an environment, or behind it, with its names.
struct Guard<'a> {
    template: Template<'a>,
    id: String,
    name: String,
}

/// The gates of one environment with their names.
#[derive(Default)]
struct Guards<'a> {
    before: Vec<Guard<'a>>,
    after: Vec<Guard<'a>>,
}

/// Everything that is settled before the first node is written.
struct Draft<'a> {
    bundle: &'a Bundle,
    pipeline: &'a Pipeline,
    route: &'a Route<'a>,
    prefix: String,
    steps: BTreeMap<&'a str, String>,
    guards: BTreeMap<&'a str, Guards<'a>>,
}

impl<'a> Draft<'a> {
    fn new(
        bundle: &'a Bundle,
        pipeline: &'a Pipeline,
        route: &'a Route<'a>,
        templates: &Templates<'a>,
        prefix: &str,
    ) -> Draft<'a> {
        let mut ids = Ids::default();
        ids.take(BUNDLE_ID, "bundle");
        let steps: BTreeMap<&str, String> =
            route.names().map(|name| (name, ids.take(name, &format!("environment/{name}")))).collect();
        let guarding: Vec<(&str, Vec<Template<'a>>)> =
            route.names().map(|name| (name, templates.guarding(name))).collect();
        let mut uses: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for template in guarding.iter().flat_map(|(_, templates)| templates) {
            *uses.entry((template.namespace(), template.name())).or_default() += 1;
        }
        let mut names = ObjectNames::default();
        let mut guards: BTreeMap<&str, Guards<'a>> = BTreeMap::new();
        for (environment, templates) in guarding {
            let entry = guards.entry(environment).or_default();
            for template in templates {
                let key = (template.namespace(), template.name());
                let identity = format!("gate/{}/{}/{environment}", key.0, key.1);
                let shared = uses.get(&key).is_some_and(|count| *count > 1);
                let mut parts = vec![prefix, template.name()];
                parts.extend(shared.then_some(environment));
                let label = parts.get(1..).unwrap_or_default().join("-");
                let guard =
                    Guard { template, id: ids.take(&label, &identity), name: names.take(&parts, &identity) };
                match template.stage() {
                    GateStage::PreDeploy => entry.before.push(guard),
                    GateStage::PostDeploy => entry.after.push(guard),
                }
            }
        }
        Draft { bundle, pipeline, route, prefix: prefix.to_owned(), steps, guards }
    }

    fn graph(&self) -> Graph {
        let mut nodes = vec![self.bundle_node()];
        for stop in self.route.stops() {
            let guards = self.guards_of(&stop.environment.name);
            nodes.extend(guards.before.iter().map(|guard| self.gate_before(stop, guard)));
            nodes.push(self.step(stop));
            nodes.extend(guards.after.iter().map(|guard| self.gate_after(stop, guard)));
        }
        let mut graph =
            Graph::new(&object_name(&[&self.prefix]), GraphSpec { nodes, ..GraphSpec::default() });
        graph.metadata.namespace.clone_from(&self.bundle.metadata.namespace);
        graph.metadata.owner_references = Some(vec![owner_reference(self.bundle)]);
        graph.metadata.labels = Some(self.labels());
        graph
    }

    /// The Bundle is there already: a template with nothing but its name adopts it, and the end of the Graph releases it.
    fn bundle_node(&self) -> Node {
        let template = json!({
            "apiVersion": format!("{GROUP}/{VERSION}"),
            "kind": "Bundle",
            "metadata": { "name": name_of(&self.bundle.metadata) },
        });
        Node { id: BUNDLE_ID.to_owned(), template: Some(template), ..Node::default() }
    }

    fn step(&self, stop: &Stop<'a>) -> Node {
        let environment = stop.environment;
        let id = self.step_id(&environment.name);
        let mut spec = escaped(&step_spec(self.pipeline, environment, self.is_recorded(environment)));
        spec.insert("bundleRef".to_owned(), reference(BUNDLE_ID, "metadata.name"));
        let guards = self.guards_of(&environment.name);
        let required: Vec<&Guard<'a>> = guards.before.iter().chain(self.behind(stop)).collect();
        let mut depends_on = Vec::new();
        if guards.before.is_empty() {
            depends_on = self.upstream_reference(stop, &mut spec, "upstreamVerified");
        }
        if !required.is_empty() {
            let names = required.iter().map(|guard| reference(&guard.id, "metadata.name")).collect();
            spec.insert("requiredGates".to_owned(), Value::Array(names));
        }
        let mut labels = self.environment_labels(environment);
        labels.extend(environment.shard.iter().map(|shard| (SHARD_LABEL.to_owned(), shard.clone())));
        let mut metadata =
            json!({ "name": object_name(&[&self.prefix, &environment.name]), "labels": labels });
        annotate(&mut metadata, upstreams_annotation(&stop.upstreams));
        let verified = vec![format!("${{{id}.status.state == \"Verified\"}}")];
        Node {
            template: Some(object("PromotionStep", &metadata, spec)),
            ready_when: verified.clone(),
            propagate_when: verified,
            depends_on,
            id,
            ..Node::default()
        }
    }

    /// Tasks of its own say for themselves whether there is a pull request.
    fn is_recorded(&self, environment: &Environment) -> bool {
        environment.approval() == Approval::Auto
            && environment.steps.is_none()
            && is_automatic_rollback(self.bundle)
    }

    /// A gate that is asked once everything before the environment is verified.
    fn gate_before(&self, stop: &Stop<'a>, guard: &Guard<'a>) -> Node {
        let mut spec = escaped(&gate_spec(&guard.template.gate.spec));
        let mut depends_on = self.upstream_reference(stop, &mut spec, "upstreamEnvironment");
        depends_on.extend(self.behind(stop).map(|guard| guard.id.clone()));
        self.gate(stop.environment, guard, spec, &stop.upstreams, depends_on)
    }

    /// A gate that is asked once the environment itself is verified; what comes after the environment waits for it.
    fn gate_after(&self, stop: &Stop<'a>, guard: &Guard<'a>) -> Node {
        let name = stop.environment.name.as_str();
        let mut spec = escaped(&gate_spec(&guard.template.gate.spec));
        spec.insert("upstreamEnvironment".to_owned(), reference(&self.step_id(name), "status.state"));
        self.gate(stop.environment, guard, spec, &[name], Vec::new())
    }

    fn gate(
        &self,
        environment: &Environment,
        guard: &Guard<'a>,
        spec: Map<String, Value>,
        upstreams: &[&str],
        mut depends_on: Vec<String>,
    ) -> Node {
        let template = guard.template;
        depends_on.push(BUNDLE_ID.to_owned());
        let mut labels = self.environment_labels(environment);
        labels.extend([
            (GATE_TEMPLATE_LABEL.to_owned(), label_value(template.name())),
            (GATE_TEMPLATE_NAMESPACE_LABEL.to_owned(), template.namespace().to_owned()),
            (SCOPE_LABEL.to_owned(), template.scope.as_str().to_owned()),
        ]);
        let mut metadata = json!({ "name": guard.name, "labels": labels });
        let approval = match environment.approval() {
            Approval::Auto => "auto",
            Approval::PrReview => "pr-review",
        };
        annotate(&mut metadata, upstreams_annotation(upstreams));
        annotate(&mut metadata, Some((APPROVAL_ANNOTATION, approval.to_owned())));
        let id = &guard.id;
        let arrived = format!("{BUNDLE_ID}.?status.?phase.orValue(\"\") == \"Verified\"");
        let conditions = vec![
            format!("${{{id}.status.ready == true}}"),
            format!(
                "${{timestamp({id}.status.lastEvaluatedAt) > now() - duration(\"{}\")}}",
                GoDuration::from(freshness(&template.gate.spec))
            ),
        ];
        Node {
            id: id.clone(),
            template: Some(object("PolicyGate", &metadata, spec)),
            // What a gate says, and how old its answer is, matters only while somebody waits for it: a Bundle that has
            // arrived, even by a merge that was forced, leaves a Graph behind that stays ready.
            ready_when: vec![format!("${{{id}.status.ready == true || {arrived}}}")],
            propagate_when: conditions,
            depends_on,
            ..Node::default()
        }
    }

    /// Writes the reference to the first upstream into `field`; the ids of the others come back.
    fn upstream_reference(&self, stop: &Stop<'a>, spec: &mut Map<String, Value>, field: &str) -> Vec<String> {
        let mut ids = stop.upstreams.iter().map(|name| self.step_id(name));
        if let Some(first) = ids.next() {
            spec.insert(field.to_owned(), reference(&first, "status.state"));
        }
        ids.collect()
    }

    /// The gates behind the upstreams of an environment.
    fn behind(&self, stop: &Stop<'a>) -> impl Iterator<Item = &Guard<'a>> {
        stop.upstreams.iter().filter_map(|name| self.guards.get(name)).flat_map(|guards| &guards.after)
    }

    fn guards_of(&self, environment: &str) -> &Guards<'a> {
        const NONE: &Guards<'static> = &Guards { before: Vec::new(), after: Vec::new() };
        self.guards.get(environment).unwrap_or(NONE)
    }

    fn step_id(&self, environment: &str) -> String {
        self.steps.get(environment).cloned().unwrap_or_default()
    }

    fn labels(&self) -> BTreeMap<String, String> {
        BTreeMap::from([
            (PIPELINE_LABEL.to_owned(), label_value(name_of(&self.pipeline.metadata))),
            (BUNDLE_LABEL.to_owned(), label_value(name_of(&self.bundle.metadata))),
        ])
    }

    fn environment_labels(&self, environment: &Environment) -> BTreeMap<String, String> {
        let mut labels = self.labels();
        labels.insert(ENVIRONMENT_LABEL.to_owned(), environment.name.clone());
        labels
    }
}

/// What a step of an environment is told. `recorded` leaves a pull request behind where nobody has to approve.
pub(crate) fn step_spec(pipeline: &Pipeline, environment: &Environment, recorded: bool) -> PromotionStepSpec {
    let git = &pipeline.spec.git;
    PromotionStepSpec {
        pipeline: name_of(&pipeline.metadata).to_owned(),
        environment: environment.name.clone(),
        path: Some(environment.path()),
        git: Some(PromotionStepGit {
            url: git.url.clone(),
            // What is the default anyway is left out, as the specification has it.
            branch: git.branch.clone().filter(|branch| branch != "main"),
            layout: git.layout.filter(|layout| *layout != GitLayout::Directory),
            provider: git.provider,
            secret_ref: git.secret_ref.as_ref().map(|secret| secret.name.clone()),
        }),
        update: environment.update.clone(),
        approval: Some(environment.approval()),
        pr: if recorded { Some(true) } else { environment.pr },
        health: environment.health.clone(),
        delivery: environment.delivery.clone(),
        steps: environment.steps.clone(),
        ..PromotionStepSpec::default()
    }
}

/// What an instance takes over from its template: what it asks and when, not which environments it is for.
fn gate_spec(template: &PolicyGateSpec) -> PolicyGateSpec {
    PolicyGateSpec {
        applies_to: Vec::new(),
        applies_to_paths: Vec::new(),
        applies_to_branches: Vec::new(),
        // What was stored before the schema refused it must not keep the instance from being created.
        recheck_interval: template.recheck_interval.as_ref().map(|written| {
            let used = recheck_interval(template);
            if written.parse() == Ok(used) { written.clone() } else { GoDuration::from(used) }
        }),
        skip_permission: None,
        upstream_environment: None,
        // Whoever asks the gate reads the template's overrides there; here the Graph would undo those of the instance.
        overrides: Vec::new(),
        ..template.clone()
    }
}

fn reference(id: &str, path: &str) -> Value {
    Value::String(format!("${{{id}.{path}}}"))
}

fn object(kind: &str, metadata: &Value, spec: Map<String, Value>) -> Value {
    json!({ "apiVersion": format!("{GROUP}/{VERSION}"), "kind": kind, "metadata": metadata, "spec": spec })
}

fn annotate(metadata: &mut Value, annotation: Option<(&str, String)>) {
    let (Some((key, value)), Some(metadata)) = (annotation, metadata.as_object_mut()) else { return };
    let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
    if let Some(annotations) = annotations.as_object_mut() {
        annotations.insert(key.to_owned(), value.into());
    }
}

fn upstreams_annotation(upstreams: &[&str]) -> Option<(&'static str, String)> {
    (!upstreams.is_empty()).then(|| (UPSTREAMS_ANNOTATION, upstreams.join(",")))
}

fn owner_reference(bundle: &Bundle) -> OwnerReference {
    OwnerReference {
        api_version: format!("{GROUP}/{VERSION}"),
        kind: "Bundle".to_owned(),
        name: name_of(&bundle.metadata).to_owned(),
        uid: bundle.metadata.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}
