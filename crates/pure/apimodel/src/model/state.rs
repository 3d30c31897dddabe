//! Collections: the objects of one resource in kube's list order.
//!
//! Nothing here knows what an object means.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use crate::object::Object;

/// The objects of one resource, ordered by `namespace/name` as etcd orders its keys.
#[derive(Debug, Default)]
pub struct Collection {
    objects: BTreeMap<Box<str>, Arc<Object>>,
}

/// The key of an object inside its collection.
pub(super) fn place(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
}

impl Collection {
    /// One object.
    pub fn get(&self, namespace: &str, name: &str) -> Option<&Arc<Object>> {
        if namespace.is_empty() {
            return self.objects.get(name);
        }
        self.objects.get(place(namespace, name).as_str())
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// All objects, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.objects.values()
    }

    /// The objects of one namespace (all when empty) with their places, starting after the place `after`.
    pub fn range<'a>(
        &'a self,
        namespace: &str,
        after: Option<&str>,
    ) -> impl Iterator<Item = (&'a str, &'a Arc<Object>)> + use<'a> {
        let (low, high) = bounds(namespace);
        let low = match after {
            Some(place) if place >= low.as_str() => Bound::Excluded(place.to_owned()),
            _ => Bound::Included(low),
        };
        let empty = match (&low, &high) {
            (Bound::Excluded(low) | Bound::Included(low), Some(high)) => low >= high,
            _ => false,
        };
        let range = (!empty).then(|| {
            let high = high.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            self.objects.range::<str, _>((low.as_ref().map(String::as_str), high))
        });
        range.into_iter().flatten().map(|(place, object)| (&**place, object))
    }

    pub(super) fn set(&mut self, namespace: &str, name: &str, object: Option<Arc<Object>>) {
        let place = place(namespace, name);
        match object {
            Some(object) => self.objects.insert(place.into_boxed_str(), object),
            None => self.objects.remove(place.as_str()),
        };
    }
}

/// The first place of a namespace and the first one after it: `0` is the character after `/`.
pub(super) fn bounds(namespace: &str) -> (String, Option<String>) {
    if namespace.is_empty() {
        return (String::new(), None);
    }
    (format!("{namespace}/"), Some(format!("{namespace}0")))
}
