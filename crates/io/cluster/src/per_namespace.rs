//! One thing for each namespace, such as the turns of those who work there.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// So many namespaces are remembered, and more if somebody is at work there.
const NAMESPACES: usize = 1024;

/// Gives everybody who works in a namespace the same thing. Namespaces come and go, so where there are many, those that
/// nobody works in are forgotten: whoever comes next gets a new one.
#[derive(Debug)]
pub struct PerNamespace<T> {
    of: Mutex<BTreeMap<String, Arc<T>>>,
}

impl<T> Default for PerNamespace<T> {
    fn default() -> PerNamespace<T> {
        PerNamespace { of: Mutex::default() }
    }
}

impl<T> PerNamespace<T> {
    /// The namespace's thing, made if there is none. It stays the same as long as anybody holds it.
    pub fn get(&self, namespace: &str, make: impl FnOnce() -> T) -> Arc<T> {
        let mut of = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = of.get(namespace) {
            return found.clone();
        }
        if of.len() >= NAMESPACES {
            of.retain(|_, thing| Arc::strong_count(thing) > 1);
        }
        let made = Arc::new(make());
        of.insert(namespace.to_owned(), made.clone());
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thing_is_shared_while_it_is_held_and_forgotten_when_there_are_many() {
        let numbers: PerNamespace<usize> = PerNamespace::default();
        let held = numbers.get("team", || 1);
        for at in 0..3 * NAMESPACES {
            assert_eq!(*numbers.get(&format!("other-{at}"), || at), at);
            assert!(numbers.of.lock().unwrap().len() <= NAMESPACES + 1);
        }
        assert!(Arc::ptr_eq(&held, &numbers.get("team", || 2)));
        assert_eq!(*numbers.get("other-0", || 7), 7, "nobody was at work there");
    }
}
