//! The way of a Bundle: which environments, each after which others.

use std::collections::{BTreeMap, BTreeSet};

use kardinal_api::kardinal::{BundleIntent, Environment, PipelineSpec};

use kardinal_planner::problem::{Problem, listed};

/// Environments in an order in which each comes after its upstreams.
#[derive(Clone, Debug)]
pub struct Route<'a> {
    stops: Vec<Stop<'a>>,
}

/// One environment of a route.
#[derive(Clone, Debug)]
pub struct Stop<'a> {
    /// The environment as the Pipeline declares it.
    pub environment: &'a Environment,
    /// The environments that must be verified directly before it, in the order they were declared.
    pub upstreams: Vec<&'a str>,
}

impl<'a> Route<'a> {
    /// The way through all environments of a Pipeline.
    pub fn whole(pipeline: &'a PipelineSpec) -> Result<Route<'a>, Problem> {
        let declared = declared(&pipeline.environments)?;
        order(declared).map(|stops| Route { stops })
    }

    /// The way that an intent asks for: up to its target, without what it skips.
    pub fn intended(pipeline: &'a PipelineSpec, intent: Option<&BundleIntent>) -> Result<Route<'a>, Problem> {
        let whole = Route::whole(pipeline)?;
        let Some(intent) = intent else { return Ok(whole) };
        let route = match &intent.target {
            Some(target) => whole.up_to(target)?,
            None => whole.clone(),
        };
        for (position, name) in intent.skip.iter().enumerate() {
            let field = format!("spec.intent.skip[{position}]");
            if !whole.contains(name) {
                return Err(whole.unknown(&field, name));
            }
            if intent.target.as_deref() == Some(name) {
                return Err(Problem::new(field, format!("`{name}` is also `spec.intent.target`"))
                    .hint("a Bundle cannot skip the environment it is meant for; choose another target"));
            }
        }
        let skipped: BTreeSet<&str> = intent.skip.iter().map(String::as_str).collect();
        let route = route.without(&skipped);
        if route.stops.is_empty() {
            return Err(Problem::new("spec.intent.skip", "leaves no environment to promote to")
                .hint("keep at least one environment"));
        }
        Ok(route)
    }

    /// The environments, each after its upstreams.
    pub fn stops(&self) -> &[Stop<'a>] {
        &self.stops
    }

    /// The names in order.
    pub fn names(&self) -> impl Iterator<Item = &'a str> + '_ {
        self.stops.iter().map(|stop| stop.environment.name.as_str())
    }

    /// Whether the way leads through an environment.
    pub fn contains(&self, name: &str) -> bool {
        self.stop(name).is_some()
    }

    /// One environment of the way.
    pub fn stop(&self, name: &str) -> Option<&Stop<'a>> {
        self.stops.iter().find(|stop| stop.environment.name == name)
    }

    /// Everything that comes before an environment, itself excluded.
    pub fn ancestors(&self, name: &str) -> BTreeSet<&'a str> {
        let mut found = BTreeSet::new();
        let mut open: Vec<&str> = vec![name];
        while let Some(stop) = open.pop().and_then(|name| self.stop(name)) {
            for upstream in &stop.upstreams {
                if found.insert(*upstream) {
                    open.push(upstream);
                }
            }
        }
        found
    }

    /// A problem about an environment that does not exist.
    pub(crate) fn unknown(&self, field: &str, name: &str) -> Problem {
        Problem::new(field, format!("the Pipeline has no environment `{name}`"))
            .hint(format!("it has {}", listed(self.names())))
    }

    fn up_to(&self, target: &str) -> Result<Route<'a>, Problem> {
        if !self.contains(target) {
            return Err(self.unknown("spec.intent.target", target));
        }
        let before = self.ancestors(target);
        let wanted = |stop: &&Stop<'a>| {
            stop.environment.name == target || before.contains(stop.environment.name.as_str())
        };
        Ok(Route { stops: self.stops.iter().filter(wanted).cloned().collect() })
    }

    /// Leaves environments out; what came after them now comes after what came before them.
    fn without(&self, skipped: &BTreeSet<&str>) -> Route<'a> {
        let mut effective: BTreeMap<&str, Vec<&'a str>> = BTreeMap::new();
        let mut stops = Vec::new();
        for stop in &self.stops {
            let mut upstreams: Vec<&'a str> = Vec::new();
            for upstream in &stop.upstreams {
                let replacement = effective.get(upstream).cloned().unwrap_or_else(|| vec![*upstream]);
                for name in replacement {
                    if !upstreams.contains(&name) {
                        upstreams.push(name);
                    }
                }
            }
            let name = stop.environment.name.as_str();
            if skipped.contains(name) {
                effective.insert(name, upstreams);
            } else {
                stops.push(Stop { environment: stop.environment, upstreams });
            }
        }
        Route { stops }
    }
}

/// The environments with their upstreams as declared, in the order of the list.
fn declared(environments: &[Environment]) -> Result<Vec<Stop<'_>>, Problem> {
    let names: BTreeSet<&str> = environments.iter().map(|environment| environment.name.as_str()).collect();
    let mut seen = BTreeSet::new();
    let mut before: Option<&str> = None;
    let mut stops = Vec::new();
    if environments.is_empty() {
        return Err(
            Problem::new("spec.environments", "the list is empty").hint("declare at least one environment")
        );
    }
    for (position, environment) in environments.iter().enumerate() {
        let field = format!("spec.environments[{position}]");
        let name = environment.name.as_str();
        if !seen.insert(name) {
            return Err(Problem::new(format!("{field}.name"), format!("`{name}` is listed twice"))
                .hint("names of environments are unique"));
        }
        let mut upstreams: Vec<&str> = Vec::new();
        match &environment.depends_on {
            None => upstreams.extend(before),
            Some(wanted) => {
                for (at, upstream) in wanted.iter().enumerate() {
                    let Some(known) = names.get(upstream.as_str()) else {
                        return Err(Problem::new(
                            format!("{field}.dependsOn[{at}]"),
                            format!("there is no environment `{upstream}`"),
                        )
                        .hint(format!("known are {}", listed(names.iter().copied()))));
                    };
                    if !upstreams.contains(known) {
                        upstreams.push(known);
                    }
                }
            }
        }
        stops.push(Stop { environment, upstreams });
        before = Some(name);
    }
    Ok(stops)
}

/// Each environment as soon as its upstreams are there; ties keep the order of the list.
fn order(declared: Vec<Stop<'_>>) -> Result<Vec<Stop<'_>>, Problem> {
    let mut open = declared;
    let mut done: BTreeSet<&str> = BTreeSet::new();
    let mut stops = Vec::with_capacity(open.len());
    while !open.is_empty() {
        let ready =
            open.iter().position(|stop| stop.upstreams.iter().all(|upstream| done.contains(upstream)));
        let Some(ready) = ready else {
            return Err(Problem::new(
                "spec.environments",
                format!("environments depend on each other in a circle: {}", circle(&open)),
            )
            .hint("remove one of these from `dependsOn`"));
        };
        let stop = open.remove(ready);
        done.insert(stop.environment.name.as_str());
        stops.push(stop);
    }
    Ok(stops)
}

/// `a → b → a`, where each arrow leads to what comes after. Every open environment has an open upstream,
/// so walking upstream must come round.
fn circle(open: &[Stop<'_>]) -> String {
    let find = |name: &str| open.iter().find(|stop| stop.environment.name == name);
    let mut path: Vec<&str> = Vec::new();
    let mut at = open.first();
    while let Some(stop) = at {
        let name = stop.environment.name.as_str();
        if let Some(start) = path.iter().position(|seen| *seen == name) {
            let mut circle: Vec<&str> = path.split_off(start);
            circle.push(name);
            circle.reverse();
            return circle.join(" → ");
        }
        path.push(name);
        at = stop.upstreams.iter().find_map(|upstream| find(upstream));
    }
    path.join(" → ")
}
