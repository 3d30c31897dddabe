//! Words that are shown are those on the wire.

use kardinal_api::kardinal::{BundlePhase, BundleType, PromotionState};
use serde::de::DeserializeOwned;

/// Words that cannot be read are left out, which fails the comparison.
fn read<T: DeserializeOwned>(words: &[&str]) -> Vec<T> {
    words.iter().filter_map(|word| serde_json::from_value((*word).into()).ok()).collect()
}

#[test]
fn a_word_is_the_same_in_a_table_as_in_json() {
    let types = ["image", "config", "mixed"];
    assert_eq!(read::<BundleType>(&types).into_iter().map(BundleType::as_str).collect::<Vec<_>>(), types);
    let phases = ["Available", "Promoting", "Verified", "Failed", "Superseded", "SkipDenied"];
    assert_eq!(read::<BundlePhase>(&phases).into_iter().map(BundlePhase::as_str).collect::<Vec<_>>(), phases);
    let states = ["Pending", "Promoting", "WaitingForMerge", "HealthChecking", "Verified", "Failed"];
    assert_eq!(
        read::<PromotionState>(&states).into_iter().map(PromotionState::as_str).collect::<Vec<_>>(),
        states
    );
}
