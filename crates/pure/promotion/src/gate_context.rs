//! What the gates of a promotion are told: the Bundle, the environment that it wants into, and what was verified there last.
//!
//! Each variable has a file with its attributes and their values. A new attribute is written there, and whoever asks a gate
//! has it: all of them make a [`Candidate`].

mod bundle;
mod candidate;
mod environment;
mod previous;
#[cfg(test)]
mod tests;
mod version;

use jiff::Timestamp;
use kardinal_api::kardinal::{Approval, Bundle, GateOverride, PIPELINE_LABEL};
use kardinal_cel::Scope;
use kardinal_object::{created_at, label_of};
use kardinal_policy::{Context, Elapsed, Need, Promotion, Reads, SCHEDULE, Shape, Unit};
use serde_json::Value;

pub use candidate::{Candidate, Surroundings};
pub use version::version;

const BUNDLE: &str = "bundle";
const ENVIRONMENT: &str = "environment";
const PREVIOUS: &str = "previousBundle";

/// All that the gates of promotions may read.
static SHAPE: Shape = Shape {
    variables: &[
        (BUNDLE, bundle::ATTRIBUTES),
        (ENVIRONMENT, environment::ATTRIBUTES),
        (PREVIOUS, previous::ATTRIBUTES),
    ],
    later: &[
        ("metrics", "metrics"),
        ("delegation", "the state of progressive delivery"),
        ("externalApproval", "approvals from elsewhere"),
        ("contracts", "contracts with other Pipelines"),
        ("targetDrift", "drift of the target"),
    ],
    example: "bundle.version == \"1.29.0\"",
};

/// The environment behind a gate.
#[derive(Clone, Copy, Debug)]
pub struct EnvironmentFacts<'a> {
    /// Its name.
    pub name: &'a str,
    /// Who lets a change in.
    pub approval: Approval,
    /// The environments directly before it.
    pub upstreams: &'a [String],
}

/// Everything that a gate may look at. The soak time is 0 until every direct upstream is verified, and stays 0 in an
/// environment that has no upstream.
#[derive(Clone, Debug)]
pub struct GateContext {
    bundle: Value,
    environment: Value,
    previous: Value,
    soak_minutes: Elapsed,
    soak_seconds: Elapsed,
    subject: Subject,
    now: Timestamp,
}

/// The promotion that overrides may be meant for.
#[derive(Clone, Debug)]
struct Subject {
    environment: String,
    namespace: Option<String>,
    pipeline: Option<String>,
    bundle: Option<String>,
    created: Option<Timestamp>,
}

/// What a gate is told of a Bundle that wants into an environment, and of the one that was verified there last.
fn of(
    bundle: &Bundle,
    previous: Option<&Bundle>,
    environment: EnvironmentFacts<'_>,
    now: Timestamp,
) -> GateContext {
    let metadata = &bundle.metadata;
    let since = bundle::soaking_since(bundle, environment.upstreams);
    let mut context = GateContext {
        bundle: bundle::value(bundle),
        environment: environment::value(environment),
        previous: previous::value(previous),
        soak_minutes: Elapsed::new(since, Unit::Minutes),
        soak_seconds: Elapsed::new(since, Unit::Seconds),
        subject: Subject {
            environment: environment.name.to_owned(),
            namespace: metadata.namespace.clone(),
            pipeline: label_of(metadata, PIPELINE_LABEL).map(str::to_owned),
            bundle: metadata.name.clone(),
            created: created_at(metadata),
        },
        now,
    };
    context.move_to(now);
    context
}

/// Whether an expression compiles against what gates are told. The error is rendered under the line it is about, with a
/// caret.
pub fn check_expression(expression: &str) -> Result<(), String> {
    kardinal_policy::check_expression::<GateContext>(expression)
}

/// The names of all that gates may read, in the order in which the documents tell of them.
pub fn variables() -> impl Iterator<Item = &'static str> {
    let own = || SHAPE.variables.iter().map(|(name, _)| *name);
    own().take(1).chain([SCHEDULE]).chain(own().skip(1))
}

/// What changes with the time, of all that an expression reads.
pub fn reads_of(expression: &str) -> Reads {
    kardinal_policy::reads_of::<GateContext>(expression)
}

/// Whether it matters how long the Bundle has soaked.
pub fn has_soak(reads: &Reads) -> bool {
    let all = [bundle::SOAK_MINUTES, bundle::SOAK_SECONDS];
    all.into_iter().any(|name| reads.need(&[BUNDLE, name]) != Need::Unused)
}

impl Scope for GateContext {
    fn get(&self, name: &str) -> Option<&Value> {
        match name {
            BUNDLE => Some(&self.bundle),
            ENVIRONMENT => Some(&self.environment),
            PREVIOUS => Some(&self.previous),
            _ => None,
        }
    }

    fn now(&self) -> Timestamp {
        self.now
    }

    fn valid_until(&self, name: &str) -> Option<Timestamp> {
        self.holds_until().filter(|_| name == BUNDLE)
    }
}

impl Context for GateContext {
    const SHAPE: &'static Shape = &SHAPE;

    fn follow(&mut self, reads: &Reads) {
        self.soak_minutes.follow(reads.need(&[BUNDLE, bundle::SOAK_MINUTES]));
        self.soak_seconds.follow(reads.need(&[BUNDLE, bundle::SOAK_SECONDS]));
    }

    fn move_to(&mut self, now: Timestamp) {
        self.now = now;
        let Value::Object(bundle) = &mut self.bundle else { return };
        bundle.insert(bundle::SOAK_MINUTES.to_owned(), self.soak_minutes.count(now).into());
        bundle.insert(bundle::SOAK_SECONDS.to_owned(), self.soak_seconds.count(now).into());
    }

    fn holds_until(&self) -> Option<Timestamp> {
        let changes = [self.soak_minutes.changes_after(self.now), self.soak_seconds.changes_after(self.now)];
        changes.into_iter().flatten().min()
    }

    fn is_meant_by(&self, given: &GateOverride) -> bool {
        let Subject { environment, namespace, pipeline, bundle, created } = &self.subject;
        let promotion = Promotion {
            environment,
            namespace: namespace.as_deref(),
            pipeline: pipeline.as_deref(),
            bundle: bundle.as_deref(),
            created: *created,
        };
        promotion.is_meant_by(given)
    }
}
