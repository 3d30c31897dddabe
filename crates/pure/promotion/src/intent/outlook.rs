//! What a Bundle will do before it exists: for people who want to know first.

use std::fmt::Write as _;

use kardinal_api::kardinal::{Approval, Bundle, GateStage, Pipeline, PolicyGate};
use kardinal_object::name_of;
use serde::Serialize;

use super::content::parts;
use super::gate::freezes_of;
use super::history::History;
use super::present::gone;
use crate::bundle::{Route, Templates, gives_way};
use crate::explain::display_version;
use crate::promotion_step::hold;
use kardinal_planner::problem::{Problem, listed};

/// The way of a Bundle that is about to be created.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outlook {
    /// The environments on its way, each after those before it.
    pub legs: Vec<Leg>,
    /// Bundles that are on their way now and will give way to it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub supersedes: Vec<String>,
    /// What holds all of it for now: the Pipeline is paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<String>,
}

/// What happens in one environment.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Leg {
    /// The environment.
    pub environment: String,
    /// The version that it has now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The version that it will have.
    pub to: String,
    /// Whether somebody has to merge a pull request.
    pub pull_request: bool,
    /// The gates that have to be open.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gates: Vec<String>,
}

/// Tells the way of a Bundle from the Pipeline as it stands. `gates` are those of the Pipeline's namespace and of the
/// policy namespaces.
pub fn outlook(
    pipeline: &Pipeline,
    bundle: &Bundle,
    bundles: &[&Bundle],
    gates: &[&PolicyGate],
    policy_namespaces: &[String],
) -> Result<Outlook, Problem> {
    let route = Route::intended(&pipeline.spec, bundle.spec.intent.as_ref())?;
    let templates = Templates::collect(pipeline, bundle, gates, policy_namespaces);
    let legs = route.stops().iter().map(|stop| {
        let environment = stop.environment.name.as_str();
        let kind = bundle.spec.kind();
        let lost = gone(pipeline, bundles, environment, kind);
        let present = History::of(bundles, environment, kind).present().filter(|_| lost.is_none());
        let (from, to) = present.map_or_else(
            || (lost.map(|one| one.version.clone()), crate::gate_context::version(&bundle.spec)),
            |present| {
                let (from, to) = labels(present, bundle);
                (Some(from), to)
            },
        );
        Leg {
            environment: environment.to_owned(),
            from,
            to,
            pull_request: stop.environment.approval() == Approval::PrReview,
            gates: in_front(&templates, environment, &stop.upstreams),
        }
    });
    let legs = legs.collect();
    let supersedes = bundles.iter().filter(|other| gives_way(pipeline, other, bundle));
    let supersedes = supersedes.map(|other| name_of(&other.metadata).to_owned());
    let freezes: Vec<PolicyGate> = freezes_of(pipeline, gates).cloned().collect();
    let held = hold(Some(pipeline), &freezes).map(|hold| hold.why);
    Ok(Outlook { legs, supersedes: supersedes.collect(), held })
}

/// The versions of two Bundles: with their digests, where only these tell that they carry something else.
fn labels(from: &Bundle, to: &Bundle) -> (String, String) {
    let kind = to.spec.kind();
    let (old, new) = (crate::gate_context::version(&from.spec), crate::gate_context::version(&to.spec));
    if old != new || parts(from, kind) == parts(to, kind) {
        return (old, new);
    }
    let digest = |bundle: &Bundle, version: String| {
        let images = bundle.spec.artifacts.images.iter();
        let digest = images.filter_map(|image| image.digest.as_deref()).next().unwrap_or("another digest");
        format!("{version} ({})", digest.get(..DIGEST).unwrap_or(digest))
    };
    (digest(from, old), digest(to, new))
}

/// How much of a digest is shown.
const DIGEST: usize = "sha256:".len() + 12;

/// The gates that hold an environment: those before it, and those behind the environments directly before it.
fn in_front(templates: &Templates<'_>, environment: &str, upstreams: &[&str]) -> Vec<String> {
    let at = |environment: &str, stage: GateStage| {
        let gates = templates.guarding(environment).into_iter();
        gates.filter(move |gate| gate.stage() == stage).map(|gate| gate.name().to_owned())
    };
    let behind = upstreams.iter().flat_map(|upstream| at(upstream, GateStage::PostDeploy));
    let mut names: Vec<String> = Vec::new();
    for name in at(environment, GateStage::PreDeploy).chain(behind) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

impl Outlook {
    /// The same as text for people.
    pub fn render(&self) -> String {
        let names = self.legs.iter().map(|leg| leg.environment.len()).max().unwrap_or_default();
        let mut text = String::new();
        for leg in &self.legs {
            let to = display_version(&leg.to);
            let change = match leg.from.as_deref().map(display_version) {
                Some(from) if from == to => format!("{to} stays"),
                Some(from) => format!("{from} → {to}"),
                None => format!("gets {to}"),
            };
            let how = match (leg.from.as_deref().map(display_version) == Some(to.clone()), leg.pull_request) {
                (true, _) => "nothing to change",
                (false, true) => "by a pull request that somebody merges",
                (false, false) => "by itself",
            };
            let gates = match leg.gates.as_slice() {
                [] => String::new(),
                gates => format!(", through {}", listed(gates.iter().map(String::as_str))),
            };
            let _ = writeln!(text, "  {:names$}  {change}, {how}{gates}", leg.environment);
        }
        if let Some(held) = &self.held {
            let _ = writeln!(text, "  all of it is held for now: {held}");
        }
        if !self.supersedes.is_empty() {
            let names = listed(self.supersedes.iter().map(String::as_str));
            let _ = writeln!(text, "  {names} on its way now gives way to it");
        }
        text
    }
}
