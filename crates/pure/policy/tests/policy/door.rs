//! Something at the door of an environment, built in a few words. It belongs to no dialect.

use jiff::Timestamp;
use kardinal_api::PolicyGateSpec;
use kardinal_api::kardinal::GateOverride;
use kardinal_cel::Scope;
use kardinal_policy::{Attribute, Context, Elapsed, Promotion, Reads, Shape, Unit, Verdict};
use serde_json::{Value, json};

/// Tuesday.
pub(crate) const NOW: &str = "2026-04-14T14:00:00Z";

/// What a gate is asked about.
#[derive(Clone, Debug)]
pub(crate) struct Door {
    bundle: Value,
    environment: Value,
    minutes: Elapsed,
    seconds: Elapsed,
    pub(crate) now: Timestamp,
}

/// The door of `prod` behind `staging`, with something that is verified nowhere.
pub(crate) fn door() -> Door {
    let bundle = json!({
        "name": "my-app-v1-29-0",
        "version": "1.29.0",
        "labels": {},
        "metadata": { "creationTimestamp": "2026-04-14T08:00:00Z" },
        "provenance": { "buildTimestamp": "" },
    });
    let environment = json!({ "name": "prod", "approval": "pr-review" });
    let (minutes, seconds) = (Elapsed::new(None, Unit::Minutes), Elapsed::new(None, Unit::Seconds));
    let mut door = Door { bundle, environment, minutes, seconds, now: at(NOW) };
    door.refresh();
    door
}

impl Door {
    /// The same at another time.
    pub(crate) fn at(mut self, now: &str) -> Door {
        self.now = at(now);
        self
    }

    /// The same with these labels.
    pub(crate) fn with_labels(mut self, labels: &Value) -> Door {
        self.put("labels", labels.clone());
        self
    }

    /// The same, verified in the environment before since this time.
    pub(crate) fn verified(mut self, since: &str) -> Door {
        self.minutes = Elapsed::new(Some(at(since)), Unit::Minutes);
        self.seconds = Elapsed::new(Some(at(since)), Unit::Seconds);
        self
    }

    /// Asks a gate.
    pub(crate) fn ask(&self, gate: &PolicyGateSpec) -> Verdict {
        let mut door = self.clone();
        door.refresh();
        kardinal_policy::evaluate("gate", gate, &door)
    }

    /// What a pull request says about a gate.
    pub(crate) fn detail(&self, gate: &PolicyGateSpec) -> String {
        let mut door = self.clone();
        door.refresh();
        kardinal_policy::detail(gate, &door)
    }

    /// Asks a gate with this expression.
    pub(crate) fn says(&self, expression: &str) -> Verdict {
        self.ask(&gate(expression))
    }

    fn refresh(&mut self) {
        self.put("upstreamSoakMinutes", json!(self.minutes.count(self.now)));
        self.put("upstreamSoakSeconds", json!(self.seconds.count(self.now)));
    }

    fn put(&mut self, name: &str, value: Value) {
        self.bundle.as_object_mut().unwrap().insert(name.to_owned(), value);
    }
}

const SHAPE: Shape = Shape {
    variables: &[
        (
            "bundle",
            Attribute::Fields(&[
                ("name", Attribute::Name("my-app-v1-29-0")),
                ("version", Attribute::Text("1.29.0")),
                ("labels", Attribute::Labels),
                ("metadata", Attribute::Fields(&[("creationTimestamp", Attribute::Text(""))])),
                ("provenance", Attribute::Fields(&[("buildTimestamp", Attribute::Text(NOW))])),
                ("upstreamSoakMinutes", Attribute::Elapsed { title: "Soak", unit: Unit::Minutes }),
                ("upstreamSoakSeconds", Attribute::Elapsed { title: "Soak", unit: Unit::Seconds }),
            ]),
        ),
        (
            "environment",
            Attribute::Fields(&[
                ("name", Attribute::Name("prod")),
                ("approval", Attribute::Choice(&["auto", "pr-review"])),
            ]),
        ),
    ],
    later: &[
        ("metrics", "metrics"),
        ("delegation", "the state of progressive delivery"),
        ("externalApproval", "approvals from elsewhere"),
    ],
    example: "bundle.version == \"1.29.0\"",
};

impl Scope for Door {
    fn get(&self, name: &str) -> Option<&Value> {
        match name {
            "bundle" => Some(&self.bundle),
            "environment" => Some(&self.environment),
            _ => None,
        }
    }

    fn now(&self) -> Timestamp {
        self.now
    }

    fn valid_until(&self, name: &str) -> Option<Timestamp> {
        self.holds_until().filter(|_| name == "bundle")
    }
}

impl Context for Door {
    const SHAPE: &'static Shape = &SHAPE;

    fn follow(&mut self, reads: &Reads) {
        self.minutes.follow(reads.need(&["bundle", "upstreamSoakMinutes"]));
        self.seconds.follow(reads.need(&["bundle", "upstreamSoakSeconds"]));
    }

    fn move_to(&mut self, now: Timestamp) {
        self.now = now;
        self.refresh();
    }

    fn holds_until(&self) -> Option<Timestamp> {
        let changes = [self.minutes.changes_after(self.now), self.seconds.changes_after(self.now)];
        changes.into_iter().flatten().min()
    }

    fn is_meant_by(&self, given: &GateOverride) -> bool {
        let promotion = Promotion {
            environment: "prod",
            namespace: Some("team"),
            pipeline: None,
            bundle: Some("my-app-v1-29-0"),
            created: None,
        };
        promotion.is_meant_by(given)
    }
}

/// A gate with this expression.
pub(crate) fn gate(expression: &str) -> PolicyGateSpec {
    PolicyGateSpec { expression: expression.to_owned(), ..PolicyGateSpec::default() }
}

/// A gate with this expression in a time zone.
pub(crate) fn gate_in(zone: &str, expression: &str) -> PolicyGateSpec {
    PolicyGateSpec { time_zone: Some(zone.to_owned()), ..gate(expression) }
}

/// An instant.
pub(crate) fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}
