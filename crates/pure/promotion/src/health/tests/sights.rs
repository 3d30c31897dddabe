//! Which namespaces a step may look at.

use super::*;

fn limited(extra: Value, named: Option<&[String]>) -> Result<Chosen, String> {
    let mut spec = json!({"pipeline": "my-app", "environment": "prod", "bundleRef": "b"});
    for (key, value) in extra.as_object().unwrap() {
        spec[key] = value.clone();
    }
    let spec: kardinal_api::kardinal::PromotionStepSpec = serde_json::from_value(spec).unwrap();
    let is_home = |namespace: &str| namespace == "team-b";
    let sight = Sight { own: "team-a", environment: &spec.environment, named, is_home: &is_home };
    sight.limit(choose(&spec, &|_, _| true))
}

fn resource(namespace: &str) -> Value {
    json!({"health": {"type": "resource", "resource": {"namespace": namespace}}})
}

#[test]
fn the_defaults_of_the_specification_are_seen() {
    for extra in [
        json!({}),
        json!({"health": {"type": "resource"}}),
        json!({"health": {"type": "argocd", "argocd": {"name": "x", "namespace": "argocd"}}}),
        json!({"health": {"type": "flux", "flux": {"name": "x", "namespace": "flux-system"}}}),
        json!({"delivery": {"delegate": "argoRollouts"}}),
        json!({"delivery": {"delegate": "flagger"}}),
        json!({"health": {"type": "argocd", "argocd": {"name": "x", "namespace": "team-a"}}}),
        resource("team-a"),
        resource("prod"),
    ] {
        limited(extra.clone(), None).unwrap_or_else(|why| panic!("{extra}: {why}"));
    }
}

#[test]
fn nothing_of_another_namespace_is_seen() {
    for extra in [
        resource("team-b"),
        resource("staging"),
        resource("argocd"),
        json!({"health": {"type": "argocd", "argocd": {"name": "x", "namespace": "team-b"}}}),
        json!({"health": {"type": "flux", "flux": {"name": "x", "namespace": "argocd"}}}),
        json!({"health": {"type": "argoRollouts", "argoRollouts": {"name": "x", "namespace": "team-b"}}}),
        json!({"environment": "team-b", "health": {"type": "resource"}}),
        json!({"environment": "kube-system", "health": {"type": "resource"}}),
        json!({"environment": "kardinal-system", "health": {"type": "resource"}}),
        json!({"health": {"type": "resource", "resource": {"namespace": "team-b"}, "labelSelector": {"a": "b"}}}),
    ] {
        let message = limited(extra.clone(), None).expect_err(&extra.to_string());
        assert!(message.contains("`team-a`") && message.contains("`--health-namespaces`"), "{message}");
    }
}

#[test]
fn the_operator_names_what_is_seen() {
    let named = ["team-b".to_owned()];
    limited(resource("team-b"), Some(&named)).unwrap();
    limited(resource("team-a"), Some(&named)).unwrap();
    let message = limited(resource("prod"), Some(&named)).unwrap_err();
    assert!(message.contains("and `team-b`"), "{message}");
    limited(resource("prod"), Some(&["*".to_owned()])).unwrap();
    limited(resource("prod"), Some(&[])).unwrap_err();
}

#[test]
fn a_fallback_that_may_not_be_seen_is_left_out() {
    let seen = limited(json!({}), None).unwrap();
    assert_eq!(seen.fallbacks.len(), 1);
    let seen = limited(json!({}), Some(&["argocd".to_owned()])).unwrap();
    assert_eq!((seen.target.namespace.as_str(), seen.fallbacks.len()), ("argocd", 0));
}
