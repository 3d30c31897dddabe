//! Which object is looked at.

use kardinal_api::kardinal::PromotionStepSpec;

use super::*;

fn spec(extra: Value) -> PromotionStepSpec {
    let mut spec = json!({"pipeline": "my-app", "environment": "prod", "bundleRef": "b"});
    for (key, value) in extra.as_object().unwrap() {
        spec[key] = value.clone();
    }
    serde_json::from_value(spec).unwrap()
}

fn chosen(extra: Value, installed: &[&str]) -> Chosen {
    choose(&spec(extra), &|_, kind| installed.contains(&kind))
}

#[test]
fn the_type_then_the_delegate_then_what_is_installed() {
    let all = ["Application", "Kustomization", "Rollout", "Canary"];
    let cases: [(Value, &[&str], &str); 10] = [
        (json!({}), &[], "Deployment `my-app` in namespace `prod`"),
        (json!({}), &["Kustomization"], "Kustomization `my-app-prod` in namespace `flux-system`"),
        (json!({}), &all, "Application `my-app-prod` in namespace `argocd`"),
        (json!({"health": {"type": "resource"}}), &all, "Deployment `my-app` in namespace `prod`"),
        (json!({"health": {"type": "flux"}}), &all, "Kustomization `my-app-prod` in namespace `flux-system`"),
        (json!({"delivery": {"delegate": "argoRollouts"}}), &all, "Rollout `my-app` in namespace `prod`"),
        (json!({"delivery": {"delegate": "flagger"}}), &all, "Canary `my-app` in namespace `prod`"),
        (json!({"delivery": {"delegate": "none"}}), &all, "Application `my-app-prod` in namespace `argocd`"),
        (
            json!({"health": {"type": "argocd", "argocd": {"name": "x"}}, "delivery": {"delegate": "flagger"}}),
            &all,
            "Application `x` in namespace `argocd`",
        ),
        (
            json!({"health": {"type": "flux", "flux": {"name": "x", "namespace": "y"}}}),
            &all,
            "Kustomization `x` in namespace `y`",
        ),
    ];
    for (extra, installed, expected) in cases {
        let chosen = chosen(extra.clone(), installed);
        assert_eq!(chosen.target.to_string(), expected, "{extra}");
        assert_eq!(chosen.warning, None);
    }
}

#[test]
fn only_the_gitops_tools_have_something_to_fall_back_on() {
    let argocd = chosen(json!({"health": {"type": "argocd"}}), &["Application"]);
    assert_eq!(argocd.fallbacks.len(), 1);
    assert_eq!(argocd.fallbacks[0].to_string(), "Deployment `my-app` in namespace `prod`");
    let delegated = chosen(json!({"delivery": {"delegate": "flagger"}}), &["Canary"]);
    assert_eq!(delegated.fallbacks, []);
}

#[test]
fn what_is_not_installed_is_told() {
    let chosen = chosen(json!({"health": {"type": "argocd"}}), &[]);
    assert_eq!(chosen.target.to_string(), "Deployment `my-app` in namespace `prod`");
    assert_eq!(
        chosen.warning.unwrap(),
        "health is to be read by `argocd`, but Application (argoproj.io/v1alpha1) is not installed here; \
         install it or change `health.type`"
    );
}

#[test]
fn a_workload_can_be_described() {
    let extra = json!({"health": {
        "resource": {"kind": "StatefulSet", "name": "db", "namespace": "data", "condition": "Ready"},
    }});
    let target = chosen(extra, &[]).target;
    assert_eq!(target.to_string(), "StatefulSet `db` in namespace `data`");
    assert_eq!((target.api_version.as_str(), target.condition.as_deref()), ("apps/v1", Some("Ready")));
    let selected = chosen(json!({"health": {"labelSelector": {"app": "x"}}}), &[]).target;
    assert_eq!(selected.name, None);
    assert_eq!(selected.to_string(), "Deployment with `app=x` in namespace `prod`");
}
