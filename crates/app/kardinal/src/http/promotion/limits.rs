//! How often a Pipeline may be given new Bundles.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// So many requests …
pub(in crate::http) const BURST: u32 = 100;
/// … in so long a time.
const WINDOW: Duration = Duration::from_secs(60);
/// The Pipelines that are counted apart; beyond them the one with the most tokens is forgotten. It loses the least by
/// that, and whoever has none left does not get new ones by asking for many other Pipelines.
const PIPELINES: usize = 10_000;

/// A bucket of tokens for each Pipeline.
#[derive(Default)]
pub(crate) struct PerPipeline {
    buckets: Mutex<BTreeMap<(String, String), Bucket>>,
}

struct Bucket {
    left: f64,
    filled: Instant,
}

/// The tokens that come back in a second.
fn rate() -> f64 {
    f64::from(BURST) / WINDOW.as_secs_f64()
}

impl Bucket {
    /// The tokens that it has at an instant.
    fn at(&self, now: Instant) -> f64 {
        let passed = now.saturating_duration_since(self.filled).as_secs_f64();
        (self.left + passed * rate()).min(f64::from(BURST))
    }
}

impl PerPipeline {
    /// Takes one token; without one, says after how long to come back.
    pub(crate) fn take(&self, namespace: &str, pipeline: &str, now: Instant) -> Result<(), Duration> {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (namespace.to_owned(), pipeline.to_owned());
        if buckets.len() >= PIPELINES && !buckets.contains_key(&key) {
            let fullest = buckets.iter().max_by(|(_, one), (_, other)| one.at(now).total_cmp(&other.at(now)));
            let fullest = fullest.map(|(key, _)| key.clone());
            fullest.and_then(|fullest| buckets.remove(&fullest));
        }
        let bucket = buckets.entry(key).or_insert(Bucket { left: f64::from(BURST), filled: now });
        bucket.left = bucket.at(now);
        bucket.filled = now;
        if bucket.left < 1.0 {
            return Err(Duration::from_secs_f64((1.0 - bucket.left) / rate()));
        }
        bucket.left -= 1.0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundred_in_a_minute_and_each_pipeline_for_itself() {
        let limits = PerPipeline::default();
        let start = Instant::now();
        for _ in 0..BURST {
            limits.take("default", "a", start).unwrap();
        }
        let wait = limits.take("default", "a", start).unwrap_err();
        assert!(wait > Duration::ZERO && wait <= Duration::from_secs(1), "{wait:?}");
        limits.take("default", "b", start).unwrap();
        limits.take("default", "a", start + wait + Duration::from_millis(1)).unwrap();
    }

    #[test]
    fn the_rate_limit_of_a_pipeline_is_not_evaded_by_many_other_names() {
        let limits = PerPipeline::default();
        let start = Instant::now();
        for _ in 0..BURST {
            limits.take("default", "a", start).unwrap();
        }
        for other in 0..PIPELINES + 10 {
            limits.take("default", &format!("other-{other}"), start).unwrap();
        }
        limits.take("default", "a", start).unwrap_err();
        let known = limits.buckets.lock().unwrap().len();
        assert!(known <= PIPELINES, "{known} are remembered");
    }
}
