//! Removal of what an applier stopped applying.

use serde_json::Value;

use super::tree::remove;
use crate::fields::{Set, TypeRef, extract_set, with_named_fields};
use crate::managed::{Identity, Managers};

/// Removes what the applier applied last time, does not apply now, and nobody else owns.
///
/// Removing everything of the last time may take along parts that others own or that nobody owns; so what others own
/// is put back first, and then whatever the applier did not own itself.
pub(super) fn prune(
    ty: TypeRef<'_>,
    merged: Value,
    managers: &Managers,
    applier: &Identity,
    last: &Set,
) -> Value {
    let still = managers.entries.get(applier).is_some_and(|owned| last.is_subset(&owned.set));
    if last.is_empty() || still {
        return merged;
    }
    let last = with_named_fields(ty, last);
    let merged_set = with_named_fields(ty, &extract_set(ty, &merged));

    let pruned = remove(ty, &merged, &last);
    let mut kept = with_named_fields(ty, &extract_set(ty, &pruned));
    for owned in managers.entries.values() {
        kept = kept.union(&with_named_fields(ty, &owned.set));
    }
    let pruned = remove(ty, &merged, &merged_set.difference(&kept));

    let pruned_set = with_named_fields(ty, &extract_set(ty, &pruned));
    remove(ty, &merged, &merged_set.difference(&pruned_set).intersection(&last))
}
