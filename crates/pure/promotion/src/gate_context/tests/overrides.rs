//! Which promotions an override is for.

use kardinal_api::kardinal::GateOverride;
use serde_json::json;

use super::door::{at, door, gate};

#[test]
fn an_override_is_for_the_promotion_that_it_names() {
    let mine = json!({ "metadata": { "labels": { "kardinal.io/pipeline": "my-app" } } });
    let door = door().with(&mine);
    let text = |text: &str| Some(text.to_owned());
    for (given, counts) in [
        (GateOverride::default(), true),
        (GateOverride { stage: text("prod"), pipeline: text("my-app"), ..GateOverride::default() }, true),
        (
            GateOverride {
                namespace: text("team"),
                bundle: text("my-app-v1-29-0"),
                ..GateOverride::default()
            },
            true,
        ),
        (GateOverride { stage: text("staging"), ..GateOverride::default() }, false),
        (GateOverride { pipeline: text("other"), ..GateOverride::default() }, false),
        (GateOverride { namespace: text("elsewhere"), ..GateOverride::default() }, false),
        (GateOverride { bundle: text("other"), ..GateOverride::default() }, false),
        // Somebody meant the Bundle that had the name before.
        (
            GateOverride {
                bundle: text("my-app-v1-29-0"),
                created_at: Some(at("2026-04-14T07:00:00Z")),
                ..GateOverride::default()
            },
            false,
        ),
    ] {
        let mut gate = gate("false");
        gate.overrides = vec![given.clone()];
        assert_eq!(door.ask(&gate).is_open(), counts, "{given:?}");
    }
}
