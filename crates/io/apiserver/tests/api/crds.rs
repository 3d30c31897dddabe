//! Kinds that are defined while the server runs.

use crate::*;

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

pub(crate) fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList", "shortNames": ["wd"]},
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "subresources": {"status": {}},
                "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "properties": {
                        "spec": {
                            "type": "object",
                            "properties": {
                                "size": {"type": "integer", "minimum": 1, "default": 3},
                                "mode": {"type": "string", "enum": ["fast", "slow"]},
                            },
                            "x-kubernetes-validations": [
                                {"rule": "self.size < 100", "message": "size must be below 100"},
                            ],
                        },
                        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                    },
                }},
            }],
        },
    })
}

fn widget(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec})
}

/// Waits until the kind is served and says so.
pub(crate) async fn establish(server: &Server) {
    post(server, CRDS, &definition()).await.expect(201);
    eventually(server, WIDGETS, 200).await;
    let crd = get(server, &format!("{CRDS}/widgets.example.com")).await.expect(200);
    let conditions = crd.body["status"]["conditions"].as_array().cloned().unwrap_or_default();
    for wanted in ["Established", "NamesAccepted"] {
        assert!(conditions.iter().any(|c| c["type"] == wanted && c["status"] == "True"), "{conditions:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_kind_comes_lives_and_goes() {
    let server = memory().await;
    get(&server, WIDGETS).await.expect(404);
    establish(&server).await;
    let created = post(&server, WIDGETS, &widget("w", json!({"other": 1}))).await.expect(201);
    assert_eq!(created.body["spec"], json!({"size": 3}), "defaulted and pruned");
    assert_eq!(created.body["metadata"]["generation"], 1);
    let refused = post(&server, WIDGETS, &widget("x", json!({"size": 0, "mode": "odd"}))).await.expect(422);
    assert!(
        refused.message().contains("spec.size") && refused.message().contains("spec.mode"),
        "{}",
        refused.message()
    );
    let refused = post(&server, WIDGETS, &widget("x", json!({"size": 500}))).await.expect(422);
    assert!(refused.message().contains("size must be below 100"), "{}", refused.message());

    let status = json!({"status": {"phase": "Up"}, "spec": {"size": 9}});
    let patched = patch(&server, &format!("{WIDGETS}/w/status"), MERGE, &status).await.expect(200);
    assert_eq!((&patched.body["status"]["phase"], &patched.body["spec"]["size"]), (&json!("Up"), &json!(3)));
    assert_eq!(patched.body["metadata"]["generation"], 1);
    let changed =
        patch(&server, &format!("{WIDGETS}/w"), MERGE, &json!({"spec": {"size": 9}})).await.expect(200);
    assert_eq!(changed.body["metadata"]["generation"], 2);
    let strategic = "application/strategic-merge-patch+json";
    patch(&server, &format!("{WIDGETS}/w"), strategic, &json!({})).await.expect(415);

    let accept = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
    let table = send(&server, "GET", WIDGETS, &accept, "").await.expect(200);
    assert_eq!(table.body["rows"][0]["cells"][1], 9);

    delete(&server, &format!("{CRDS}/widgets.example.com")).await.expect(200);
    eventually(&server, WIDGETS, 404).await;
    eventually(&server, &format!("{CRDS}/widgets.example.com"), 404).await;
    establish(&server).await;
    assert_eq!(
        get(&server, WIDGETS).await.expect(200).body["items"],
        json!([]),
        "the old objects went with the kind"
    );
}

#[tokio::test(start_paused = true)]
async fn apply_merges_by_schema() {
    let server = memory().await;
    establish(&server).await;
    let path = |manager: &str, force: bool| format!("{WIDGETS}/w?fieldManager={manager}&force={force}");
    let one = patch(&server, &path("one", false), APPLY, &widget("w", json!({"size": 5}))).await.expect(201);
    assert_eq!(one.body["spec"]["size"], 5);
    patch(&server, &path("two", false), APPLY, &widget("w", json!({"mode": "fast"}))).await.expect(200);
    let conflict =
        patch(&server, &path("two", false), APPLY, &widget("w", json!({"size": 6}))).await.expect(409);
    assert!(
        conflict.message().contains("\"one\"") && conflict.message().contains(".spec.size"),
        "{}",
        conflict.message()
    );
    let forced =
        patch(&server, &path("two", true), APPLY, &widget("w", json!({"size": 6}))).await.expect(200);
    assert_eq!(forced.body["spec"], json!({"size": 6}), "what a manager stops applying goes");
    let again = patch(&server, &path("two", true), APPLY, &widget("w", json!({"size": 6}))).await.expect(200);
    assert_eq!(again.rv(), forced.rv(), "applying the same again writes nothing");
}
