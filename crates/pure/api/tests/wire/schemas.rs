//! The generated definitions are what a real API server takes: structural, bounded where rules run, and complete.

#![expect(clippy::expect_used, clippy::indexing_slicing, reason = "a test ends where it fails")]

use std::collections::{BTreeMap, BTreeSet};

use kardinal_api::{DEFAULT_POLICY_NAMESPACE, crd_yaml, crds, install_yaml};
use serde_json::{Value, json};

/// The schema of the one version of a kind.
fn schema(kind: &str) -> Value {
    let crd = crds().into_iter().find(|crd| crd.spec.names.kind == kind).expect("the kind is served");
    assert_eq!(crd.spec.versions.len(), 1);
    let version = serde_json::to_value(&crd.spec.versions[0]).expect("JSON");
    version["schema"]["openAPIV3Schema"].clone()
}

/// Follows `properties` along a dotted path; `[]` goes to the items of a list and `{}` to the values of a map.
fn field<'a>(schema: &'a Value, path: &str) -> &'a Value {
    path.split('.').fold(schema, |schema, step| match step {
        "[]" => &schema["items"],
        "{}" => &schema["additionalProperties"],
        name => &schema["properties"][name],
    })
}

fn walk(path: &str, schema: &Value, visit: &mut impl FnMut(&str, &Value)) {
    visit(path, schema);
    for (name, child) in schema["properties"].as_object().into_iter().flatten() {
        walk(&format!("{path}.{name}"), child, visit);
    }
    for keyword in ["items", "additionalProperties"] {
        if let Some(child) = schema.get(keyword) {
            walk(&format!("{path}.{keyword}"), child, visit);
        }
    }
}

#[test]
fn schemas_are_structural() {
    for crd in crds() {
        let kind = crd.spec.names.kind;
        walk(&kind, &schema(&kind), &mut |path, schema| {
            let free = schema["x-kubernetes-preserve-unknown-fields"] == json!(true);
            assert!(schema["type"].is_string() || free, "{path} has no type: {schema}");
            for forbidden in ["$ref", "nullable", "anyOf", "oneOf", "allOf", "definitions", "uniqueItems"] {
                assert!(schema.get(forbidden).is_none(), "{path} has `{forbidden}`");
            }
            let known = ["date-time", "int32", "int64", "double"];
            assert!(
                schema["format"].as_str().is_none_or(|format| known.contains(&format)),
                "{path}: {schema}"
            );
            if schema["x-kubernetes-list-type"] == json!("map") {
                for key in schema["x-kubernetes-list-map-keys"].as_array().expect("keys") {
                    let required = schema["items"]["required"].as_array().expect("required");
                    assert!(required.contains(key), "{path}: key {key} is not required");
                }
            }
        });
    }
}

#[test]
fn every_field_of_a_kind_is_explained() {
    for crd in crds() {
        let kind = crd.spec.names.kind;
        walk(&kind, &schema(&kind), &mut |path, schema| {
            for (name, field) in schema["properties"].as_object().into_iter().flatten() {
                let own = !["apiVersion", "kind", "metadata"].contains(&name.as_str()) || path != kind;
                assert!(!own || field["description"].is_string(), "{path}.{name} has no description");
            }
        });
    }
}

/// These and no others: a default that nobody decided on would be written into every object.
#[test]
fn defaults() {
    let mut found = BTreeMap::new();
    for crd in crds() {
        let kind = crd.spec.names.kind;
        walk(&kind, &schema(&kind), &mut |path, schema| {
            if let Some(default) = schema.get("default") {
                found.insert(path.to_owned(), default.clone());
            }
        });
    }
    let expected = [
        ("Bundle.spec.type", json!("image")),
        ("Pipeline.spec.autoRollback", json!(true)),
        ("Pipeline.spec.environments.items.approval", json!("auto")),
        ("Pipeline.spec.environments.items.delivery.delegate", json!("none")),
        ("Pipeline.spec.environments.items.health.timeout", json!("10m")),
        ("Pipeline.spec.environments.items.onReject", json!("keep")),
        ("Pipeline.spec.environments.items.update.strategy", json!("kustomize")),
        ("Pipeline.spec.git.layout", json!("directory")),
        ("Pipeline.spec.git.provider", json!("github")),
        ("Pipeline.spec.historyLimit", json!(20)),
        ("Pipeline.spec.paused", json!(false)),
        ("PolicyGate.spec.recheckInterval", json!("5m")),
        ("PromotionStep.spec.approval", json!("auto")),
        ("PromotionStep.spec.delivery.delegate", json!("none")),
        ("PromotionStep.spec.git.layout", json!("directory")),
        ("PromotionStep.spec.git.provider", json!("github")),
        ("PromotionStep.spec.health.timeout", json!("10m")),
        ("PromotionStep.spec.update.strategy", json!("kustomize")),
        ("PullRequest.spec.desired", json!("open")),
        ("Repository.spec.defaultBranch", json!("main")),
    ];
    assert_eq!(found, expected.map(|(path, default)| (path.to_owned(), default)).into());
}

fn check_enum(kind: &str, path: &str, values: &[&str]) {
    assert_eq!(field(&schema(kind), path)["enum"], json!(values), "{kind} {path}");
}

#[test]
fn enums() {
    check_enum("Pipeline", "spec.environments.[].approval", &["auto", "pr-review"]);
    check_enum("Pipeline", "spec.environments.[].update.strategy", &["kustomize", "helm", "replace"]);
    let health = ["resource", "argocd", "flux", "argoRollouts", "flagger"];
    check_enum("Pipeline", "spec.environments.[].health.type", &health);
    check_enum("Pipeline", "spec.environments.[].delivery.delegate", &["none", "argoRollouts", "flagger"]);
    check_enum("Bundle", "spec.type", &["image", "config", "mixed"]);
    let phases = ["Available", "Promoting", "Verified", "Failed", "Superseded", "SkipDenied"];
    check_enum("Bundle", "status.phase", &phases);
    let states = ["Pending", "Promoting", "WaitingForMerge", "HealthChecking", "Verified", "Failed"];
    check_enum("PromotionStep", "status.state", &states);
    check_enum("Bundle", "status.environments.{}.state", &states);
    check_enum("PolicyGate", "spec.when", &["pre-deploy", "post-deploy"]);
    check_enum("PullRequest", "spec.desired", &["open", "merged", "closed"]);
    check_enum("PullRequest", "spec.reviews.[].verdict", &["approved", "changes-requested"]);
    check_enum("PullRequest", "spec.checks.[].state", &["pending", "success", "failure"]);
    check_enum("PullRequest", "status.state", &["Open", "Merged", "Closed"]);
    check_enum("PullRequest", "status.files.[].status", &["added", "modified", "removed"]);
    check_enum("Graph", "spec.nodes.[].lifecycle.apply", &["Force"]);
}

#[test]
fn fields_say_what_they_are_and_not_what_their_type_is() {
    let pipeline = schema("Pipeline");
    let approval = &field(&pipeline, "spec.environments.[].approval")["description"];
    assert!(approval.as_str().is_some_and(|text| text.contains("`auto` (default)")), "{approval}");
}

#[test]
fn rules() {
    let rule_of =
        |kind: &str, path: &str| field(&schema(kind), path)["x-kubernetes-validations"][0]["rule"].clone();
    assert_eq!(rule_of("Bundle", "spec"), json!("self == oldSelf"));
    assert_eq!(rule_of("GraphRevision", "spec"), json!("self == oldSelf"));
    assert!(
        rule_of("Graph", "spec.nodes.[]").as_str().is_some_and(|rule| rule.contains("has(self.template)"))
    );
    assert!(rule_of("GraphRevision", "spec.nodes.[]").is_string());
    let named = &schema("Pipeline")["x-kubernetes-validations"][0];
    assert_eq!(named["rule"], json!("size(self.metadata.name) <= 63"), "Bundles carry it as a label");
    let fixed = rule_of("PullRequest", "spec");
    for part in ["repository", "head", "base"] {
        let rule = format!("self.{part} == oldSelf.{part}");
        assert!(fixed.as_str().is_some_and(|fixed| fixed.contains(&rule)), "{fixed}");
    }
}

/// A step may be made by hand or by a Graph: no more goes into it than a Pipeline lets through.
#[test]
fn a_step_names_things_as_they_are_named() {
    let (step, pipeline) = (schema("PromotionStep"), schema("Pipeline"));
    let bounds = |field: &Value| ["minLength", "maxLength", "pattern"].map(|keyword| field[keyword].clone());
    let environment = bounds(field(&pipeline, "spec.environments.[].name"));
    assert!(environment.iter().all(|bound| !bound.is_null()), "{environment:?}");
    assert_eq!(bounds(field(&step, "spec.environment")), environment);
    let name = field(&schema("Graph"), "spec.serviceAccountName")["pattern"].clone();
    assert!(name.is_string());
    assert_eq!(bounds(field(&step, "spec.pipeline")), [json!(1), json!(63), name.clone()]);
    assert_eq!(bounds(field(&step, "spec.bundleRef")), [json!(1), json!(253), name]);
}

#[test]
fn graph_bodies_keep_whatever_is_in_them() {
    let graph = schema("Graph");
    for body in ["template", "patch", "ref", "watch", "def"] {
        let body = field(&graph, &format!("spec.nodes.[].{body}"));
        assert_eq!(
            (&body["type"], &body["x-kubernetes-preserve-unknown-fields"]),
            (&json!("object"), &json!(true))
        );
        assert!(body.get("x-kubernetes-embedded-resource").is_none());
    }
    let for_each = field(&graph, "spec.nodes.[].forEach");
    assert!(for_each.get("type").is_none(), "a string, an object and a list are all allowed");
    assert_eq!(for_each["x-kubernetes-preserve-unknown-fields"], json!(true));
}

#[test]
fn names_do_not_clash() {
    let mut seen = BTreeSet::new();
    for crd in crds() {
        let names = crd.spec.names;
        assert_eq!(names.categories, Some(vec![kardinal_api::CATEGORY.to_owned()]));
        let all = [names.plural, names.singular.unwrap_or_default()].into_iter();
        for name in all.chain(names.short_names.unwrap_or_default()) {
            assert!(seen.insert(name.clone()), "{name} is taken");
        }
    }
    for short in ["pipe", "bnd", "ps", "pg", "gr", "grev", "repo", "pr"] {
        assert!(seen.contains(short), "{short}");
    }
}

#[test]
fn yaml_says_what_the_types_say() {
    let files = crd_yaml().expect("YAML");
    assert_eq!(files.len(), crds().len());
    for ((name, text), crd) in files.iter().zip(crds()) {
        let read: Value = serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(read, serde_json::to_value(&crd).expect("JSON"), "{name}");
    }
}

fn installation() -> Vec<Value> {
    let text = install_yaml(&[DEFAULT_POLICY_NAMESPACE.to_owned()]).expect("YAML");
    serde_saphyr::from_multiple(&text).expect("YAML documents")
}

#[test]
fn an_installation_is_complete() {
    let objects = installation();
    let kinds: Vec<&str> = objects.iter().filter_map(|object| object["kind"].as_str()).collect();
    assert_eq!(kinds.first(), Some(&"Namespace"), "what lives in it comes later");
    assert_eq!(kinds.iter().filter(|kind| **kind == "CustomResourceDefinition").count(), crds().len());
    let subjects: BTreeSet<String> =
        objects.iter().filter_map(|object| object.get("subjects")).map(Value::to_string).collect();
    assert_eq!(subjects.len(), 1, "every binding speaks of the same account");
    for binding in objects.iter().filter(|object| object["roleRef"].is_object()) {
        let bound = (&binding["roleRef"]["kind"], &binding["roleRef"]["name"]);
        let exists = objects.iter().any(|o| (&o["kind"], &o["metadata"]["name"]) == bound);
        assert!(exists, "{binding}");
    }
}

#[test]
fn the_controllers_never_write_workloads() {
    let objects = installation();
    for rule in objects.iter().flat_map(|object| object["rules"].as_array().into_iter().flatten()) {
        let groups = rule["apiGroups"].as_array().expect("groups");
        assert!(!rule.to_string().contains('*'), "{rule}");
        if groups
            .iter()
            .any(|group| ["apps", "argoproj.io", "flagger.app"].contains(&group.as_str().unwrap_or("")))
        {
            assert_eq!(rule["verbs"], json!(["get", "list", "watch"]), "{rule}");
        }
    }
}

#[test]
fn the_controllers_have_no_write_on_the_gates_of_the_policy_namespaces() {
    let text = install_yaml(&["org".to_owned(), "more".to_owned()]).expect("YAML");
    let objects: Vec<Value> = serde_saphyr::from_multiple(&text).expect("YAML documents");
    let find = |kind: &str| objects.iter().find(|object| object["kind"] == kind).expect("an object");
    let policy = &find("ValidatingAdmissionPolicy")["spec"];
    let rule = &policy["matchConstraints"]["resourceRules"][0];
    assert_eq!(rule["resources"], json!(["policygates"]), "the status is reported there");
    assert_eq!(rule["operations"], json!(["CREATE", "UPDATE", "DELETE"]));
    assert_eq!(
        (&policy["failurePolicy"], &policy["validations"][0]["expression"]),
        (&json!("Fail"), &json!("false"))
    );
    let condition = policy["matchConditions"][0]["expression"].as_str().expect("a condition");
    assert!(condition.contains("system:serviceaccount:kardinal-system:kardinal-controller"), "{condition}");
    let binding = &find("ValidatingAdmissionPolicyBinding")["spec"];
    assert_eq!(binding["validationActions"], json!(["Deny"]));
    let where_ = &binding["matchResources"]["namespaceSelector"]["matchExpressions"][0];
    assert_eq!(where_["values"], json!(["org", "more"]));
}

#[test]
fn the_controllers_impersonate_accounts_and_nobody_else() {
    for object in installation() {
        for rule in object["rules"].as_array().into_iter().flatten() {
            let verbs = rule["verbs"].as_array().expect("verbs");
            if verbs.contains(&json!("impersonate")) {
                assert_eq!(rule["resources"], json!(["serviceaccounts"]), "{rule}");
                assert_eq!(verbs.len(), 1, "{rule}");
            }
            for group in rule["apiGroups"].as_array().expect("groups") {
                assert_ne!(group, "rbac.authorization.k8s.io", "they give no rights away: {rule}");
            }
        }
    }
}

#[test]
fn people_get_the_kinds_with_the_built_in_roles() {
    let objects = installation();
    let role = |name: &str| {
        let found = objects.iter().find(|object| object["metadata"]["name"] == name).expect("a role");
        let built_in = name.trim_start_matches("kardinal-");
        let label = format!("rbac.authorization.k8s.io/aggregate-to-{built_in}");
        assert_eq!(found["metadata"]["labels"][label], "true", "{found}");
        let mut may: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for rule in found["rules"].as_array().expect("rules") {
            for resource in rule["resources"].as_array().expect("resources") {
                let verbs = rule["verbs"].as_array().expect("verbs").iter().filter_map(Value::as_str);
                may.entry(resource.as_str().expect("a name").to_owned())
                    .or_default()
                    .extend(verbs.map(str::to_owned));
            }
        }
        may
    };
    let writes = |may: &BTreeMap<String, BTreeSet<String>>| -> Vec<String> {
        may.iter()
            .filter(|(_, verbs)| verbs.contains("create"))
            .map(|(resource, _)| resource.clone())
            .collect()
    };
    let (view, edit, admin) = (role("kardinal-view"), role("kardinal-edit"), role("kardinal-admin"));
    for may in [&view, &edit, &admin] {
        assert_eq!(may.len(), crds().len(), "each kind, and nothing below one, such as a status: {may:?}");
        for (resource, verbs) in may {
            assert!(["get", "list", "watch"].iter().all(|verb| verbs.contains(*verb)), "{resource}");
            let read_only = ["promotionsteps", "graphrevisions"].contains(&resource.as_str());
            assert!(!read_only || verbs.len() == 3, "{resource} is the controllers': {verbs:?}");
        }
    }
    assert!(view.values().all(|verbs| verbs.len() == 3), "{view:?}");
    assert_eq!(writes(&edit), ["bundles", "graphs", "pipelines", "policygates"]);
    assert_eq!(
        writes(&admin),
        ["bundles", "graphs", "pipelines", "policygates", "pullrequests", "repositories"]
    );
}
