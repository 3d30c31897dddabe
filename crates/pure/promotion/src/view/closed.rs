//! What a simulation of several Pipelines comes to.

use kardinal_planner::problem::{Problem, listed};

use super::simulation::{Simulation, SimulationResult};

/// The Pipelines to which an environment would be closed. Nothing: it would be open to all of them.
pub fn closed(simulations: &[Simulation], environment: &str) -> Option<Problem> {
    let is_closed = |one: &&Simulation| match one.result {
        SimulationResult::Blocked => true,
        SimulationResult::Pass => false,
    };
    let names: Vec<&str> = simulations.iter().filter(is_closed).map(|one| one.pipeline.as_str()).collect();
    let message = || format!("`{environment}` would be closed for {}", listed(names.iter().copied()));
    (!names.is_empty()).then(|| Problem::new("environment", message()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_closed_door_is_enough() {
        let simulation = |pipeline: &str, result| Simulation {
            pipeline: pipeline.to_owned(),
            environment: "prod".to_owned(),
            version: None,
            time: jiff::Timestamp::UNIX_EPOCH,
            result,
            gates: Vec::new(),
            next_window: None,
        };
        let (pass, blocked) = (SimulationResult::Pass, SimulationResult::Blocked);
        for (results, expected) in [
            (vec![], None),
            (vec![("a", pass)], None),
            (vec![("a", pass), ("b", blocked)], Some("`prod` would be closed for `b`")),
            (vec![("a", blocked), ("b", blocked)], Some("`prod` would be closed for `a` and `b`")),
        ] {
            let all: Vec<Simulation> =
                results.into_iter().map(|(name, result)| simulation(name, result)).collect();
            assert_eq!(closed(&all, "prod").map(|problem| problem.message).as_deref(), expected);
        }
    }
}
