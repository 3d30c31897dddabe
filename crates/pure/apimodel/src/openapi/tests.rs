//! The documents are what kubectl looks for.

use serde_json::{Value, json};

use super::*;

fn builtin_kind(
    group: &'static str,
    kind: &'static str,
    list_kind: &'static str,
    plural: &'static str,
) -> ApiKind<'static> {
    let known = crate::builtin::kind(group, "v1", kind).unwrap();
    ApiKind {
        group,
        version: "v1",
        kind,
        list_kind,
        plural,
        namespaced: known.namespaced,
        status: known.status,
        scale: known.scale,
        schema: None,
    }
}

fn custom(schema: &Value) -> ApiKind<'_> {
    ApiKind {
        group: "kardinal.io",
        version: "v1alpha1",
        kind: "Pipeline",
        list_kind: "PipelineList",
        plural: "pipelines",
        namespaced: true,
        status: true,
        scale: false,
        schema: Some(schema),
    }
}

fn parse(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

/// Every reference in the document ends at a component of the document.
fn check_references(document: &Value, prefix: &str, components: &Value) {
    let text = document.to_string();
    for rest in text.split(prefix).skip(1) {
        let name = rest.split('"').next().unwrap();
        assert!(components.get(name).is_some(), "{name} is missing");
    }
}

#[test]
fn explain_finds_kind_and_schema_by_path() {
    let bytes = v3_document(&[builtin_kind("apps", "Deployment", "DeploymentList", "deployments")]);
    let document = parse(&bytes);
    let get = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["get"];
    let gvk = json!({"group": "apps", "version": "v1", "kind": "Deployment"});
    assert_eq!(get["x-kubernetes-group-version-kind"], gvk);
    assert_eq!(get["x-kubernetes-action"], "get");
    let schema = &document["components"]["schemas"]["io.k8s.api.apps.v1.Deployment"];
    assert_eq!(schema["x-kubernetes-group-version-kind"], json!([gvk]));
    assert!(schema["description"].as_str().unwrap().contains("Deployment"));
    check_references(&document, "#/components/schemas/", &document["components"]["schemas"]);
    let scale = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale"]["patch"];
    assert_eq!(scale["x-kubernetes-group-version-kind"]["kind"], "Scale");
}

#[test]
fn patch_says_that_field_validation_is_supported() {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object"}}});
    let document = parse(&v3_document(&[custom(&schema)]));
    let patch =
        &document["paths"]["/apis/kardinal.io/v1alpha1/namespaces/{namespace}/pipelines/{name}"]["patch"];
    let names: Vec<&str> =
        patch["parameters"].as_array().unwrap().iter().map(|p| p["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"fieldValidation") && names.contains(&"dryRun"), "{names:?}");
}

#[test]
fn custom_kinds_are_published_with_their_metadata() {
    let schema = json!({"type": "object", "description": "A pipeline.", "properties": {"metadata": {"type": "object"}, "spec": {"type": "object", "nullable": true, "properties": {"n": {"x-kubernetes-int-or-string": true}}}}});
    let kind = custom(&schema);
    assert_eq!(kind.component(), "io.kardinal.v1alpha1.Pipeline");
    assert_eq!(kind.list_component(), "io.kardinal.v1alpha1.PipelineList");
    let document = parse(&v3_document(std::slice::from_ref(&kind)));
    let published = &document["components"]["schemas"]["io.kardinal.v1alpha1.Pipeline"];
    assert_eq!(published["description"], "A pipeline.");
    assert_eq!(
        published["properties"]["metadata"]["allOf"][0]["$ref"],
        "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
    );
    check_references(&document, "#/components/schemas/", &document["components"]["schemas"]);

    let old = parse(&v2_document(&[kind, builtin_kind("", "Service", "ServiceList", "services")]));
    let definitions = &old["definitions"];
    check_references(&old, "#/definitions/", definitions);
    assert_eq!(definitions["io.kardinal.v1alpha1.Pipeline"]["properties"]["spec"], json!({}));
    let port = &definitions["io.k8s.api.core.v1.ServicePort"]["properties"]["targetPort"];
    assert_eq!(port["$ref"], "#/definitions/io.k8s.apimachinery.pkg.util.intstr.IntOrString");
    assert_eq!(definitions["io.k8s.apimachinery.pkg.util.intstr.IntOrString"]["type"], "string");
    assert!(!old.to_string().contains("#/components/"));
}

#[test]
fn the_index_changes_with_the_documents() {
    let one = parse(&v3_index([("api/v1", b"one".as_slice())]));
    let two = parse(&v3_index([("api/v1", b"two".as_slice()), ("apis/apps/v1", b"x")]));
    let url = |index: &Value| index["paths"]["api/v1"]["serverRelativeURL"].as_str().unwrap().to_owned();
    assert!(url(&one).starts_with("/openapi/v3/api/v1?hash="));
    assert_ne!(url(&one), url(&two));
    assert_eq!(two["paths"].as_object().unwrap().len(), 2);
}
