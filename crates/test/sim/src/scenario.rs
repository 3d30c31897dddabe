//! What a seed decides on before anything happens.

use kardinal_testkit::outside::workloads::Rollout;
use kardinal_testkit::shop::{APP, IMAGE};
use serde_json::{Value, json};
use std::time::Duration;

use crate::Random;
use crate::config::Settings;

/// How long things happen; after that nothing fails any more.
pub(crate) const HORIZON: u64 = 2400;
/// At this hour some gates open and others close. Worlds begin half an hour earlier.
const TURNING_HOUR: &str = "2026-04-09T11:00:00Z";
/// When that hour comes.
pub(crate) const TURN: f64 = 1800.0;
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
    /// When a stranger pushes, and into which file, if it is one that others know.
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
    /// Whether configuration is laid over what is there, instead of picked.
    pub(crate) overlaid: bool,
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
    Later,
    Earlier,
    Soak,
    Never,
    Nonsense,
}

/// What a Bundle carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Load {
    Image,
    Config,
    Mixed,
}

/// A Bundle to come.
#[derive(Debug, Clone)]
pub(crate) struct Release {
    pub(crate) at: u64,
    /// Its place among the others, counted from 1.
    pub(crate) number: u64,
    pub(crate) name: String,
    pub(crate) load: Load,
    version: String,
    pinned: bool,
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
            .map(|at| (at, if random.percent(60) { known_file(&mut random, &environments) } else { None }))
            .collect();
        let pause = pause(&mut random, &gates);
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

    /// The settings of the configuration repository right after the commit of a release.
    pub(crate) fn settings_at(&self, number: u64) -> Settings {
        let made = self.bundles.iter().filter(|release| release.load != Load::Image);
        made.map(|release| release.number).filter(|made| *made <= number).collect()
    }

    /// Whether some version never runs in an environment.
    pub(crate) fn breaks_in(&self, environment: &str) -> bool {
        self.bundles.iter().any(|release| release.broken_in.as_deref() == Some(environment))
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
            if self.overlaid {
                fields.insert("steps".to_owned(), self.steps());
            }
        }
        environment
    }

    /// The default tasks, but for how configuration comes in.
    fn steps(&self) -> Value {
        let before = ["git-clone", "kustomize-set-image"];
        let reviewed: &[&str] = if self.way == Way::Direct { &[] } else { &["open-pr", "wait-for-merge"] };
        let after = ["git-commit", "git-push"].iter().chain(reviewed).chain(&["health-check"]);
        let plain = |name: &&str| json!({"uses": name});
        let merge = json!({"uses": "config-merge", "config": {"strategy": "overlay"}});
        before.iter().map(plain).chain([merge]).chain(after.map(plain)).collect()
    }
}

impl Gate {
    /// The gate, with its override when it is given.
    pub(crate) fn manifest(&self, overridden: bool) -> Value {
        let expression = match self.asks {
            Asks::Later => "schedule.hour >= 11".to_owned(),
            Asks::Soak => format!("bundle.upstreamSoakMinutes >= {SOAK}"),
            Asks::Earlier | Asks::Never => "false".to_owned(),
            Asks::Nonsense => "bundle.labels['missing'] == 'x' && size(bundle.version) / 0 > 1".to_owned(),
        };
        let overrides = match self.asks {
            Asks::Earlier => json!([{"reason": "it is early", "expiresAt": TURNING_HOUR}]),
            _ if overridden => json!([{"reason": "it is urgent"}]),
            _ => json!([]),
        };
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
    /// The Bundle; `commit` is the one that was made for it, and `url` where.
    pub(crate) fn manifest(&self, url: &str, commit: Option<&str>) -> Value {
        let kind = match self.load {
            Load::Image => "image",
            Load::Config => "config",
            Load::Mixed => "mixed",
        };
        let mut artifacts = json!({});
        if let Some(fields) = artifacts.as_object_mut() {
            if self.load != Load::Config {
                let reference = format!("{IMAGE}:{}", self.version);
                fields.insert("images".to_owned(), json!([{"name": APP, "reference": reference}]));
            }
            if let Some(commit) = commit {
                fields.insert("gitCommit".to_owned(), json!({"repository": url, "sha": commit}));
            }
        }
        let mut bundle = json!({
            "apiVersion": "kardinal.io/v1alpha1",
            "kind": "Bundle",
            "metadata": {"name": self.name, "labels": {"kardinal.io/pipeline": APP}},
            "spec": {"type": kind, "artifacts": artifacts},
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
        all.push(Environment {
            name: format!("e{at}"),
            upstreams,
            way: way.unwrap_or(Way::Direct),
            overlaid: random.percent(30),
            pace,
        });
    }
    all
}

/// When the Pipeline is paused. Whoever came through a gate and was held must not go on when the gate has closed.
fn pause(random: &mut Random, gates: &[Gate]) -> Option<(u64, u64)> {
    if gates.iter().any(|gate| gate.asks == Asks::Earlier) && random.percent(50) {
        return Some((900 + random.below(800), 1900 + random.below(600)));
    }
    let from = random.below(HORIZON / 2);
    random.percent(20).then(|| (from, from + 300 + random.below(600)))
}

/// A file that promotions change. What is laid over takes strangers' lines away, and rightly so.
fn known_file(random: &mut Random, environments: &[Environment]) -> Option<String> {
    let environment = random.pick(environments)?;
    let settings = random.percent(50) && !environment.overlaid;
    let file = if settings { Settings::FILE } else { "kustomization.yaml" };
    Some(format!("environments/{}/{file}", environment.name))
}

fn gates(random: &mut Random, environments: &[String]) -> Vec<Gate> {
    const ALL: [Asks; 7] =
        [Asks::Later, Asks::Earlier, Asks::Earlier, Asks::Soak, Asks::Soak, Asks::Never, Asks::Nonsense];
    let mut gates = Vec::new();
    for environment in environments {
        if !random.percent(35) {
            continue;
        }
        let asks = random.pick(&ALL).copied().unwrap_or(Asks::Never);
        let stays = !matches!(asks, Asks::Never | Asks::Nonsense) || random.percent(30);
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
    const LOADS: [Load; 8] = [
        Load::Image,
        Load::Image,
        Load::Image,
        Load::Image,
        Load::Image,
        Load::Config,
        Load::Config,
        Load::Mixed,
    ];
    let count = 1 + random.below(4);
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
        let load = random.pick(&LOADS).copied().unwrap_or(Load::Image);
        let letter = match load {
            Load::Image => 'i',
            Load::Config => 'c',
            Load::Mixed => 'm',
        };
        all.push(Release {
            at,
            number,
            name: format!("{letter}{number}"),
            load,
            version: format!("{number}.0.0"),
            pinned: random.percent(10),
            target,
            skip,
            broken_in,
        });
    }
    all
}
