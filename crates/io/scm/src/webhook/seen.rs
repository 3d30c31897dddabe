//! Which deliveries came already.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use jiff::Timestamp;

use super::Delivery;

/// Remembers deliveries for a while, and never more than a number of them. Forges deliver again when an answer was
/// late, and so does somebody who recorded one.
#[derive(Debug)]
pub struct Seen {
    capacity: usize,
    keep: Duration,
    known: HashSet<String>,
    /// The oldest first.
    order: VecDeque<(Timestamp, String)>,
}

impl Seen {
    /// Remembers this many deliveries, each for this long.
    pub fn new(capacity: usize, keep: Duration) -> Seen {
        // Each delivery has two names.
        Seen { capacity: capacity.max(1) * 2, keep, known: HashSet::new(), order: VecDeque::new() }
    }

    /// Whether this delivery is new; it is remembered from then on. It is known by its id and by its content, since
    /// the id is not signed.
    pub fn is_new(&mut self, delivery: &Delivery, now: Timestamp) -> bool {
        self.forget_old(now);
        let id = format!("id {}", delivery.id);
        let content = format!("content {}", delivery.fingerprint);
        if self.known.contains(&id) || self.known.contains(&content) {
            return false;
        }
        for name in [id, content] {
            self.known.insert(name.clone());
            self.order.push_back((now, name));
        }
        while self.order.len() > self.capacity {
            self.forget_oldest();
        }
        true
    }

    /// A delivery that came to nothing may be sent again.
    pub fn forget(&mut self, delivery: &Delivery) {
        self.known.remove(&format!("id {}", delivery.id));
        self.known.remove(&format!("content {}", delivery.fingerprint));
    }

    fn forget_old(&mut self, now: Timestamp) {
        let keep = jiff::SignedDuration::try_from(self.keep).unwrap_or(jiff::SignedDuration::MAX);
        while self.order.front().is_some_and(|(at, _)| now.duration_since(*at) >= keep) {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some((_, name)) = self.order.pop_front() {
            self.known.remove(&name);
        }
    }
}

#[cfg(test)]
mod tests {
    use kardinal_api::kardinal::GitProvider;

    use super::*;
    use crate::webhook::Event;

    fn delivery(id: &str, fingerprint: &str) -> Delivery {
        Delivery {
            id: id.to_owned(),
            fingerprint: fingerprint.to_owned(),
            provider: GitProvider::Gitea,
            event: Event::Other,
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    #[test]
    fn a_repeated_delivery_is_recognised_by_id_or_content() {
        let mut seen = Seen::new(10, Duration::from_secs(60));
        assert!(seen.is_new(&delivery("1", "a"), at(0)));
        assert!(!seen.is_new(&delivery("1", "a"), at(1)));
        assert!(!seen.is_new(&delivery("2", "a"), at(1)), "the same content under another id");
        assert!(!seen.is_new(&delivery("1", "b"), at(1)), "the same id");
        assert!(seen.is_new(&delivery("2", "b"), at(1)));
    }

    #[test]
    fn it_forgets_with_time_and_with_number() {
        let mut seen = Seen::new(2, Duration::from_secs(60));
        assert!(seen.is_new(&delivery("1", "a"), at(0)));
        assert!(!seen.is_new(&delivery("1", "a"), at(59)));
        assert!(seen.is_new(&delivery("1", "a"), at(60)));
        assert!(seen.is_new(&delivery("2", "b"), at(61)));
        assert!(seen.is_new(&delivery("3", "c"), at(62)));
        assert!(seen.is_new(&delivery("1", "a"), at(63)), "the oldest made room");
        for n in 0..1000 {
            seen.is_new(&delivery(&format!("n{n}"), &format!("f{n}")), at(64));
        }
        assert!(seen.known.len() <= 4 && seen.order.len() <= 4);
    }
}
