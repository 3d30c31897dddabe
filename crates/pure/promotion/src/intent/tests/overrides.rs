//! Which gates an override is for, and what came of a wish.

use serde_json::Value;

use super::*;

/// A gate instance, as the Graph of a Bundle makes it.
fn instance(template: &str, bundle: &str, environment: &str) -> PolicyGate {
    yaml(&format!(
        "metadata: {{name: {bundle}-{environment}-{template}, namespace: default, labels: {{kardinal.io/pipeline: my-app, \
         kardinal.io/bundle: {bundle}, kardinal.io/environment: {environment}, kardinal.io/gate-template: {template}}}}}\n\
         spec: {{expression: 'false'}}"
    ))
}

fn in_phase(name: &str, phase: &str) -> Bundle {
    let mut bundle = bundle(name, "1.0.0", "{}");
    bundle.status.as_mut().unwrap().phase = yaml(phase);
    bundle
}

/// The gates that are meant, or what the answer says.
fn meant(gates: &[PolicyGate], gate: &str, environment: Option<&str>) -> Result<Vec<String>, String> {
    let bundles = [in_phase("new", "Promoting"), in_phase("fresh", "null"), in_phase("old", "Verified")];
    match instances(&pipeline(), &bundles, gates, gate, environment) {
        Ok(found) => Ok(found.iter().map(|one| one.gate.metadata.name.clone().unwrap()).collect()),
        Err(Error::NotFound(problem)) => Err(problem.to_string()),
        Err(other) => panic!("{other:?}"),
    }
}

#[test]
fn an_override_is_for_the_gates_that_bundles_on_their_way_wait_at() {
    let gates = [
        instance("soak", "new", "prod"),
        instance("soak", "new", "staging"),
        instance("weekend", "fresh", "prod"),
        instance("soak", "old", "prod"),
        instance("soak", "elsewhere", "prod"),
    ];
    let names = |names: &[&str]| Ok(names.iter().map(|name| (*name).to_owned()).collect());
    assert_eq!(meant(&gates, "soak", None), names(&["new-prod-soak", "new-staging-soak"]));
    assert_eq!(meant(&gates, "soak", Some("prod")), names(&["new-prod-soak"]));
    assert_eq!(meant(&gates, "weekend", None), names(&["fresh-prod-weekend"]));
    let unknown = "gate: no Bundle on its way waits at a gate `x` (they wait at `soak` and `weekend`)";
    assert_eq!(meant(&gates, "x", None), Err(unknown.to_owned()));
    let elsewhere = "gate: no Bundle on its way waits at a gate `weekend` (they wait at `soak`)";
    assert_eq!(meant(&gates, "weekend", Some("staging")), Err(elsewhere.to_owned()));
    let nowhere = "gate: no Bundle on its way waits at a gate `soak` \
                   (no gates are asked now; `kardinal explain my-app` tells why)";
    for gates in [&[][..], &gates[3..]] {
        assert_eq!(meant(gates, "soak", None), Err(nowhere.to_owned()));
    }
}

#[test]
fn an_override_of_the_organisations_gate_stands_in_its_template_and_is_for_one_bundle() {
    let mut gate = instance("soak", "new", "prod");
    let bundles = [in_phase("new", "Promoting")];
    let own = std::slice::from_ref(&gate);
    let found = instances(&pipeline(), &bundles, own, "soak", None).unwrap();
    assert_eq!((found[0].environment, found[0].template, found[0].only), (Some("prod"), None, None));
    assert_eq!(found[0].place.as_ref().unwrap().to_string(), "`environments/prod` on `main`");

    let labels = gate.metadata.labels.as_mut().unwrap();
    labels.insert("kardinal.io/scope".to_owned(), "org".to_owned());
    labels.insert("kardinal.io/gate-template-namespace".to_owned(), "platform".to_owned());
    let own = std::slice::from_ref(&gate);
    let found = instances(&pipeline(), &bundles, own, "soak", None).unwrap();
    assert_eq!(found[0].template, Some(("platform", "soak")));
    let expires: Timestamp = "2024-04-09T00:00:00Z".parse().unwrap();
    let template: PolicyGate = yaml(
        "metadata: {name: soak, namespace: platform, labels: {kardinal.io/applies-to: prod}}\nspec: {expression: 'false'}",
    );
    let patch = override_gate(&template, &found[0].wish("incident", "alice", expires), now()).unwrap();
    let made = &patch["spec"]["overrides"][0];
    for (field, wanted) in
        [("bundle", "new"), ("pipeline", "my-app"), ("stage", "prod"), ("createdBy", "alice")]
    {
        assert_eq!(made[field], Value::from(wanted), "{field}");
    }
}

#[test]
fn an_override_ends_after_a_while() {
    let end = |text: &str| expiry(text, now());
    assert_eq!(end("30m").unwrap().duration_since(now()).as_secs(), 1800);
    for wrong in ["", "0s", "-5m", "soon", "9999999999999h"] {
        let problem = end(wrong).unwrap_err();
        assert!(problem.message.starts_with(&format!("`{wrong}`: ")), "{problem}");
        assert_eq!(problem.hint.as_deref(), Some("write it as `30m` or `2h`"), "{wrong}");
    }
}

#[test]
fn what_came_of_a_wish_is_told_with_the_version_that_is_taken_back() {
    let bad = bundle("bad", "2.0.0", "{}");
    let mut back = bundle("back", "1.0.0", "{}");
    back.spec.provenance.as_mut().unwrap().rollback_of = Some("bad".to_owned());
    for (outcome, bundle, wanted) in [
        (
            Coming::Created,
            &back,
            "Bundle \"back\" created: prod goes back from v2.0.0 to v1.0.0, through the same gates",
        ),
        (Coming::Created, &bad, "Bundle \"bad\" created: v2.0.0 goes to prod"),
        (Coming::OnItsWay, &back, "v1.0.0 is on its way to prod already, with Bundle \"back\""),
        (Coming::There, &bad, "v2.0.0 is verified in prod already, with Bundle \"bad\""),
    ] {
        let ordered = Ordered::new(outcome, bundle, "prod", std::slice::from_ref(&bad));
        assert_eq!(ordered.render(), wanted);
    }
    let told = serde_json::to_value(Ordered::new(Coming::OnItsWay, &back, "prod", &[])).unwrap();
    let wanted =
        json!({"outcome": "on-its-way", "bundle": "back", "version": "1.0.0", "environment": "prod"});
    assert_eq!(told, wanted, "what it takes back is not known any more");
}
