//! What a seed decides on before anything happens.

use kardinal_testkit::outside::workloads::Rollout;
use kardinal_testkit::shop::{APP, IMAGE};
use serde_json::{Value, json};
use std::time::Duration;

use crate::Random;

/// How long things happen; after that nothing fails any more.
pub(crate) const HORIZON: u64 = 2400;
/// Before this hour of the day the scheduled gates are closed. Worlds begin half an hour earlier.
pub(crate) const OPENING_HOUR: i8 = 11;
/// When that hour comes.
pub(crate) const OPENING: f64 = 1800.0;
/// How many minutes a soak gate asks for.
pub(crate) const SOAK: i64 = 4;

/// A world as it is planned. Times are seconds after its beginning.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// Where it comes from.
    pub seed: u64,
    pub(crate) environments: Vec<Environment>,
    pub(crate) gates: Vec<Gate>,
    pub(crate) bundles: Vec<Release>,
    /// When the controllers die.
    pub(crate) restarts: Vec<u64>,
    /// When a stranger pushes, and into whose directory, if anybody's.
    pub(crate) strangers: Vec<(u64, Option<String>)>,
    /// From when to when the Pipeline is paused.
    pub(crate) pause: Option<(u64, u64)>,
    pub(crate) failures: Failures,
}

/// One environment.
#[derive(Debug, Clone)]
pub(crate) struct Environment {
    pub(crate) name: String,
    upstreams: Option<Vec<String>>,
    pub(crate) way: Way,
    /// How long a version takes to run.
    pace: u64,
}

/// How a change gets in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Direct,
    Recorded,
    Reviewed,
}

/// A gate of the organisation.
#[derive(Debug, Clone)]
pub(crate) struct Gate {
    pub(crate) name: String,
    pub(crate) environment: String,
    pub(crate) asks: Asks,
    /// When somebody overrides it.
    pub(crate) overridden: Option<u64>,
}

/// What a gate asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asks {
    Hour,
    Soak,
    Never,
    Nonsense,
}

/// A Bundle to come.
#[derive(Debug, Clone)]
pub(crate) struct Release {
    pub(crate) at: u64,
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) pinned: bool,
    target: Option<String>,
    skip: Vec<String>,
    /// Where it never runs.
    broken_in: Option<String>,
}

/// How often what fails, in percent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Failures {
    pub(crate) server: u64,
    pub(crate) git: u64,
    pub(crate) watches: u64,
}

impl Scenario {
    /// The plan of a seed.
    pub fn of(seed: u64) -> Scenario {
        let mut random = Random::new(seed.wrapping_mul(0x2545_f491_4f6c_dd1d));
        let environments = environments(&mut random);
        let names: Vec<String> = environments.iter().map(|environment| environment.name.clone()).collect();
        let gates = gates(&mut random, &names);
        let bundles = bundles(&mut random, &names);
        let times = |random: &mut Random, most: u64| -> Vec<u64> {
            (0..random.below(most + 1)).map(|_| random.below(HORIZON)).collect()
        };
        let restarts = times(&mut random, 2);
        let strangers = times(&mut random, 2)
            .into_iter()
            .map(|at| (at, if random.percent(50) { random.pick(&names).cloned() } else { None }))
            .collect();
        let pause = random.percent(20).then(|| {
            let from = random.below(HORIZON / 2);
            (from, from + 300 + random.below(600))
        });
        let often = |random: &mut Random, all: &[u64]| random.pick(all).copied().unwrap_or_default();
        let failures = Failures {
            server: often(&mut random, &[0, 0, 3, 10]),
            git: often(&mut random, &[0, 10, 40]),
            watches: often(&mut random, &[0, 0, 30]),
        };
        Scenario { seed, environments, gates, bundles, restarts, strangers, pause, failures }
    }

    /// The names of the environments.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.environments.iter().map(|environment| environment.name.as_str()).collect()
    }

    /// The environments that an environment is declared to follow.
    pub(crate) fn before(&self, name: &str) -> Vec<String> {
        let position = self.environments.iter().position(|environment| environment.name == name);
        let Some(found) = position.and_then(|at| self.environments.get(at)) else { return Vec::new() };
        let previous = position.and_then(|at| self.environments.get(at.checked_sub(1)?));
        found
            .upstreams
            .clone()
            .unwrap_or_else(|| previous.map(|known| known.name.clone()).into_iter().collect())
    }

    /// The Pipeline.
    pub(crate) fn pipeline(&self, url: &str, paused: bool) -> Value {
        let environments: Vec<Value> = self.environments.iter().map(Environment::manifest).collect();
        json!({
            "apiVersion": "kardinal.io/v1alpha1", "kind": "Pipeline", "metadata": {"name": APP},
            "spec": {
                "git": {"url": url, "branch": "main", "provider": "local"},
                "environments": environments, "paused": paused,
            },
        })
    }

    /// What becomes of a version in an environment.
    pub(crate) fn rollout(&self, environment: &str, version: &str) -> Rollout {
        let broken = |release: &Release| {
            release.version == version && release.broken_in.as_deref() == Some(environment)
        };
        if self.bundles.iter().any(broken) {
            return Rollout::Never;
        }
        let found = self.environments.iter().find(|known| known.name == environment);
        Rollout::After(Duration::from_secs(found.map_or(0, |found| found.pace)))
    }
}

impl Environment {
    fn manifest(&self) -> Value {
        let mut environment = json!({"name": self.name, "health": {"timeout": "3m"}});
        if let Some(fields) = environment.as_object_mut() {
            match self.way {
                Way::Direct => {}
                Way::Recorded => drop(fields.insert("pr".to_owned(), true.into())),
                Way::Reviewed => drop(fields.insert("approval".to_owned(), "pr-review".into())),
            }
            if let Some(upstreams) = &self.upstreams {
                fields.insert("dependsOn".to_owned(), json!(upstreams));
            }
        }
        environment
    }
}

impl Gate {
    /// The gate, with its override when it is given.
    pub(crate) fn manifest(&self, overridden: bool) -> Value {
        let expression = match self.asks {
            Asks::Hour => format!("schedule.hour >= {OPENING_HOUR}"),
            Asks::Soak => format!("bundle.upstreamSoakMinutes >= {SOAK}"),
            Asks::Never => "false".to_owned(),
            Asks::Nonsense => "bundle.labels['missing'] == 'x' && size(bundle.version) / 0 > 1".to_owned(),
        };
        let overrides = if overridden { json!([{"reason": "it is urgent"}]) } else { json!([]) };
        json!({
            "apiVersion": "kardinal.io/v1alpha1",
            "kind": "PolicyGate",
            "metadata": {"name": self.name, "labels": {
                "kardinal.io/scope": "org", "kardinal.io/applies-to": self.environment, "kardinal.io/type": "gate",
            }},
            "spec": {"expression": expression, "recheckInterval": "10m", "overrides": overrides},
        })
    }
}

impl Release {
    /// The Bundle.
    pub(crate) fn manifest(&self) -> Value {
        let mut bundle = json!({
            "apiVersion": "kardinal.io/v1alpha1",
            "kind": "Bundle",
            "metadata": {"name": self.name, "labels": {"kardinal.io/pipeline": APP}},
            "spec": {"artifacts": {"images": [{"name": APP, "reference": format!("{IMAGE}:{}", self.version)}]}},
        });
        let intent = match &self.target {
            Some(target) => json!({"target": target, "skip": self.skip}),
            None => json!({"skip": self.skip}),
        };
        if let Some(spec) = bundle.pointer_mut("/spec").and_then(Value::as_object_mut) {
            spec.insert("intent".to_owned(), intent);
        }
        if self.pinned
            && let Some(metadata) = bundle.pointer_mut("/metadata").and_then(Value::as_object_mut)
        {
            metadata.insert("annotations".to_owned(), json!({"kardinal.io/pin": "true"}));
        }
        bundle
    }
}

fn environments(random: &mut Random) -> Vec<Environment> {
    let count = random.pick(&[1, 1, 2, 2, 2, 3, 3, 4, 5]).copied().unwrap_or(1);
    let mut all: Vec<Environment> = Vec::new();
    for at in 0..count {
        let upstreams = random.percent(40).then(|| {
            let earlier = all.iter().map(|known| known.name.clone());
            earlier.filter(|_| random.percent(50)).collect()
        });
        let way = random.pick(&[Way::Direct, Way::Direct, Way::Reviewed, Way::Recorded]).copied();
        let pace = random.pick(&[0, 5, 40]).copied().unwrap_or_default();
        all.push(Environment { name: format!("e{at}"), upstreams, way: way.unwrap_or(Way::Direct), pace });
    }
    all
}

fn gates(random: &mut Random, environments: &[String]) -> Vec<Gate> {
    let mut gates = Vec::new();
    for environment in environments {
        if !random.percent(35) {
            continue;
        }
        let asks = random.pick(&[Asks::Hour, Asks::Soak, Asks::Soak, Asks::Never, Asks::Nonsense]).copied();
        let asks = asks.unwrap_or(Asks::Never);
        let stays = matches!(asks, Asks::Hour | Asks::Soak) || random.percent(30);
        let overridden = (!stays).then(|| random.below(HORIZON));
        gates.push(Gate {
            name: format!("gate-{environment}"),
            environment: environment.clone(),
            asks,
            overridden,
        });
    }
    gates
}

fn bundles(random: &mut Random, environments: &[String]) -> Vec<Release> {
    let count = 1 + random.below(3);
    let mut all = Vec::new();
    let mut at = 0;
    for number in 1..=count {
        at += random.below(HORIZON / (count + 1));
        let target = if random.percent(15) { random.pick(environments).cloned() } else { None };
        let skip: Vec<String> = match random.percent(10) && environments.len() > 1 {
            true => random
                .pick(environments)
                .cloned()
                .into_iter()
                .filter(|name| target.as_ref() != Some(name))
                .collect(),
            false => Vec::new(),
        };
        let broken_in = if random.percent(20) { random.pick(environments).cloned() } else { None };
        all.push(Release {
            at,
            name: format!("b{number}"),
            version: format!("{number}.0.0"),
            pinned: random.percent(10),
            target,
            skip,
            broken_in,
        });
    }
    all
}
