//! Expressions, patterns, documents and queries that are small to write and large to work off.

use anyhow::ensure;
use serde_json::{Value, json};

use crate::target::{JSON, Target, in_process_and_over_https};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const GRAPHS: &str = "/apis/experimental.kro.run/v1alpha1/namespaces/default/graphs";
const APPLY: &str = "application/apply-patch+yaml";
const DEPTH: usize = 100_000;

in_process_and_over_https!(
    nested_parentheses_in_a_graph,
    nested_parentheses_in_a_rule,
    comprehensions_in_a_graph,
    comprehensions_in_a_rule,
    catastrophic_patterns,
    deep_documents,
    growing_patches,
    bad_selectors_and_tokens,
    bad_text,
);

fn nested(open: &str, inner: &str, close: &str) -> String {
    format!("{}{inner}{}", open.repeat(DEPTH), close.repeat(DEPTH))
}

/// Expressions that no parser may follow to their end.
fn deep_expressions() -> Vec<(&'static str, String)> {
    vec![
        ("parentheses", nested("(", "1", ")")),
        ("open-parentheses", "(".repeat(DEPTH)),
        ("lists", nested("[", "1", "]")),
        ("negations", format!("{}true", "!".repeat(DEPTH))),
        ("sums", format!("1{}", "+1".repeat(DEPTH))),
        ("conditionals", format!("{}1", "true?1:".repeat(DEPTH))),
        ("selections", format!("a{}", ".a".repeat(DEPTH))),
    ]
}

fn graph(name: &str, expression: &str) -> Value {
    json!({
        "apiVersion": "experimental.kro.run/v1alpha1", "kind": "Graph", "metadata": {"name": name},
        "spec": {"nodes": [{"id": "a", "def": {"value": format!("${{{expression}}}")}}]},
    })
}

/// A definition with one rule on `spec`, which has a list of numbers and a text.
fn definition(name: &str, rule: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{name}s.hostile.example")},
        "spec": {
            "group": "hostile.example", "scope": "Namespaced",
            "names": {"kind": name, "plural": format!("{name}s"), "singular": name},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {
                    "type": "object",
                    "properties": {
                        "numbers": {"type": "array", "items": {"type": "integer"}},
                        "text": {"type": "string"},
                    },
                    "x-kubernetes-validations": [{"rule": rule, "message": "no"}],
                }},
            }}}],
        },
    })
}

async fn nested_parentheses_in_a_graph(target: &Target<'_>) -> anyhow::Result<()> {
    for (name, expression) in deep_expressions() {
        // The server may refuse it at once; if it takes it, the controller says what is wrong.
        let made = target.post(GRAPHS, &graph(name, &expression)).await?;
        if made.code == 201 {
            let message = target.condition(name, "Compiled", "False").await?;
            ensure!(
                message.contains("nodes[0].def.value"),
                "{name}: the message names no field: {message:.500}"
            );
            ensure!(message.len() < 10_000, "{name}: the message has {} bytes", message.len());
        } else {
            made.refused(name, &[422], &["spec"])?;
        }
        target.still_answers().await?;
    }
    Ok(())
}

async fn nested_parentheses_in_a_rule(target: &Target<'_>) -> anyhow::Result<()> {
    for (name, expression) in deep_expressions() {
        let made = target.post(DEFINITIONS, &definition("deep", &expression)).await?;
        made.refused(name, &[422], &["x-kubernetes-validations"])?;
        target.still_answers().await?;
    }
    Ok(())
}

/// Loops in loops, and texts that double.
fn exploding_expressions(list: &str) -> Vec<(&'static str, String)> {
    let mut loops = "1".to_owned();
    let mut all = "true".to_owned();
    for level in 0..8 {
        loops = format!("{list}.map(v{level}, {loops})");
        all = format!("{list}.all(v{level}, {all})");
    }
    // Every name stands for twice the text of the one that is bound before it.
    let mut bound = "v0".to_owned();
    for level in 0..40 {
        bound = format!("cel.bind(v{level}, v{0} + v{0}, {bound})", level + 1);
    }
    let bound = format!("cel.bind(v40, 'xxxxxxxxxxxxxxxx', {bound}) == ''");
    vec![("maps", format!("{loops} == []")), ("alls", all), ("texts", bound)]
}

async fn comprehensions_in_a_graph(target: &Target<'_>) -> anyhow::Result<()> {
    let list: Vec<String> = (0..100).map(|number| number.to_string()).collect();
    for (name, expression) in exploding_expressions(&format!("[{}]", list.join(","))) {
        target.post(GRAPHS, &graph(name, &expression)).await?.accepted(name)?;
        let message = target.condition(name, "Ready", "False").await?;
        let clear = message.contains("budget") || message.contains("cost") || message.contains("limit");
        ensure!(clear, "{name}: the message does not speak of the budget: {message:.500}");
        target.still_answers().await?;
    }
    Ok(())
}

async fn comprehensions_in_a_rule(target: &Target<'_>) -> anyhow::Result<()> {
    let numbers: Vec<u64> = (0..100).collect();
    for (name, expression) in exploding_expressions("self.numbers") {
        let made = target.post(DEFINITIONS, &definition(name, &expression)).await?;
        if made.code != 201 {
            made.refused(name, &[422], &["x-kubernetes-validations"])?;
            continue;
        }
        let object = json!({
            "apiVersion": "hostile.example/v1", "kind": name, "metadata": {"name": "x"},
            "spec": {"numbers": numbers, "text": "x"},
        });
        let path = format!("/apis/hostile.example/v1/namespaces/default/{name}s");
        let refused = target.post(&path, &object).await?;
        refused.refused(name, &[400, 422], &["spec"])?;
        target.still_answers().await?;
    }
    Ok(())
}

async fn catastrophic_patterns(target: &Target<'_>) -> anyhow::Result<()> {
    // A pattern that makes a backtracking engine work for years: here it is just not matched.
    let mut slow = definition("slow", "self.text.matches('^(([a-z])+.)+[A-Z]([a-z])+$')");
    let text = slow.pointer_mut("/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/text");
    if let Some(text) = text {
        *text = json!({"type": "string", "pattern": "^(a+)+$"});
    }
    target.post(DEFINITIONS, &slow).await?.accepted("slow patterns")?;
    let object = json!({
        "apiVersion": "hostile.example/v1", "kind": "slow", "metadata": {"name": "x"},
        "spec": {"text": format!("{}!", "a".repeat(50_000))},
    });
    let path = "/apis/hostile.example/v1/namespaces/default/slows";
    target.post(path, &object).await?.refused("a slow pattern", &[422], &["spec.text"])?;
    target.still_answers().await?;

    // A pattern whose automaton is enormous is refused when the kind is defined.
    for pattern in ["((a{1000}){1000}){1000}", "(((((\\\\pL{50}){50}){50}){50}){50})", "(", "(?<=look)behind"]
    {
        let made =
            target.post(DEFINITIONS, &definition("huge", &format!("self.text.matches('{pattern}')"))).await?;
        if made.code == 201 {
            let object = json!({
                "apiVersion": "hostile.example/v1", "kind": "huge", "metadata": {"name": "x"}, "spec": {"text": "a"},
            });
            let path = "/apis/hostile.example/v1/namespaces/default/huges";
            target.post(path, &object).await?.refused(pattern, &[422], &["spec"])?;
            target
                .send("DELETE", &format!("{DEFINITIONS}/huges.hostile.example"), JSON, "")
                .await?
                .accepted("cleaning up")?;
        } else {
            made.refused(pattern, &[422], &["x-kubernetes-validations"])?;
        }
        let mut plain = definition("plain", "true");
        let text =
            plain.pointer_mut("/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/text");
        if let Some(text) = text {
            *text = json!({"type": "string", "pattern": pattern.replace("\\\\", "\\")});
        }
        target.post(DEFINITIONS, &plain).await?.refused(pattern, &[422], &["pattern"])?;
    }
    // A pattern out of the data is compiled while a rule is evaluated.
    target
        .post(DEFINITIONS, &definition("dynamic", "'a'.matches(self.text)"))
        .await?
        .accepted("a dynamic pattern")?;
    let object = json!({
        "apiVersion": "hostile.example/v1", "kind": "dynamic", "metadata": {"name": "x"},
        "spec": {"text": "((a{1000}){1000}){1000}"},
    });
    let path = "/apis/hostile.example/v1/namespaces/default/dynamics";
    target.post(path, &object).await?.refused("a dynamic pattern", &[422], &["spec"])?;
    let expression = format!("'{}'.matches('((a{{1000}}){{1000}}){{1000}}')", "a".repeat(100));
    target.post(GRAPHS, &graph("pattern", &expression)).await?.accepted("a pattern in a Graph")?;
    target.condition("pattern", "Ready", "False").await?;
    target.still_answers().await
}

async fn deep_documents(target: &Target<'_>) -> anyhow::Result<()> {
    let made = target.post(MAPS, &json!({"metadata": {"name": "victim"}})).await?;
    made.accepted("a ConfigMap")?;
    let victim = format!("{MAPS}/victim");
    let documents = [
        ("arrays", nested("[", "1", "]")),
        ("maps", nested("{\"a\":", "1", "}")),
        ("open arrays", "[".repeat(1_000_000)),
        ("in data", format!("{{\"metadata\":{{\"name\":\"x\"}},\"data\":{}}}", nested("{\"a\":", "1", "}"))),
        ("flow", format!("a: {}", nested("[", "1", "]"))),
        (
            "anchors",
            format!(
                "a: &a [x]\n{}",
                (0..40).map(|n| format!("b{n}: &b{n} [{}]\n", ["*a"; 9].join(","))).collect::<String>()
            ),
        ),
        ("laughs", laughs()),
    ];
    for (name, document) in &documents {
        let document = document.as_str();
        target.send("POST", MAPS, JSON, document).await?.refused(name, &[400, 422], &[])?;
        target.send("POST", MAPS, "application/yaml", document).await?.refused(name, &[400, 422], &[])?;
        let applied = target.send("PATCH", &format!("{victim}?fieldManager=m"), APPLY, document).await?;
        applied.refused(name, &[400, 422], &[])?;
        for kind in ["merge-patch", "json-patch", "strategic-merge-patch"] {
            let patched =
                target.send("PATCH", &victim, &format!("application/{kind}+json"), document).await?;
            patched.refused(name, &[400, 422], &[])?;
        }
        target.send("DELETE", &victim, JSON, document).await?.refused(name, &[400, 422], &[])?;
        target.still_answers().await?;
    }
    // What a Graph may nest is as bounded as everything else.
    let body = graph("deep", "1").to_string().replace("\"${1}\"", &nested("{\"a\":", "1", "}"));
    target.send("POST", GRAPHS, JSON, body).await?.refused("a deep Graph", &[400, 422], &[])?;
    target.get(&victim).await?.accepted("the victim lives")?;
    Ok(())
}

/// Nine levels of aliases: a few hundred bytes that stand for a billion strings.
fn laughs() -> String {
    let mut text = "l0: &l0 [lol,lol,lol,lol,lol,lol,lol,lol,lol,lol]\n".to_owned();
    for level in 1..10 {
        let below = vec![format!("*l{}", level - 1); 10].join(",");
        text.push_str(&format!("l{level}: &l{level} [{below}]\n"));
    }
    text
}

async fn growing_patches(target: &Target<'_>) -> anyhow::Result<()> {
    let mut made = graph("victim", "1");
    if let Some(value) = made.pointer_mut("/spec/nodes/0/def/value") {
        *value = json!({"text": "x".repeat(1000)});
    }
    target.post(GRAPHS, &made).await?.accepted("a Graph")?;
    let path = format!("{GRAPHS}/victim");
    // Every copy doubles the object.
    let doubling: Vec<Value> = (0..60)
        .map(|step| json!({"op": "copy", "from": "/spec/nodes/0/def", "path": format!("/spec/nodes/0/def/copy{step}")}))
        .collect();
    let patch = Value::from(doubling).to_string();
    let refused = target.send("PATCH", &path, "application/json-patch+json", patch).await?;
    refused.refused("copies", &[400, 413, 422], &[])?;
    target.still_answers().await?;
    let many: Vec<Value> =
        (0..20_000).map(|_| json!({"op": "test", "path": "/kind", "value": "Graph"})).collect();
    let patch = Value::from(many).to_string();
    let refused = target.send("PATCH", &path, "application/json-patch+json", patch).await?;
    refused.refused("operations", &[400, 413, 422], &["10000"])?;
    let far = json!([{"op": "add", "path": "/spec/nodes/4000000000", "value": {}}]).to_string();
    let refused = target.send("PATCH", &path, "application/json-patch+json", far).await?;
    refused.refused("a far index", &[400, 422], &[])?;
    target.still_answers().await
}

async fn bad_selectors_and_tokens(target: &Target<'_>) -> anyhow::Result<()> {
    target.post(MAPS, &json!({"metadata": {"name": "one"}})).await?.accepted("a ConfigMap")?;
    target.post(MAPS, &json!({"metadata": {"name": "two"}})).await?.accepted("a ConfigMap")?;
    let deep = format!("labelSelector=a%20in%20{}", "(".repeat(20_000));
    let long = format!("labelSelector={}", "a".repeat(40_000));
    for query in [
        "labelSelector=a%20in%20(",
        "labelSelector=a%20in%20b",
        "labelSelector=%3D%3D",
        "labelSelector=a%3Db%3Dc",
        "labelSelector=!!a",
        "labelSelector=a,,b",
        "labelSelector=%00",
        "labelSelector=%ff%fe",
        "labelSelector=-%3D-",
        "fieldSelector=metadata.name",
        "fieldSelector=%3D%3D%3D",
        "fieldSelector=data.a%3Db",
        "fieldSelector=metadata.name%3D%ff",
        "continue=garbage",
        "continue=%00",
        "continue=%ff",
        "continue=e30",
        "continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MCwic3RhcnQiOiJ4In0",
        "limit=many",
        "limit=99999999999999999999999999",
        "resourceVersion=old",
        "resourceVersion=-1",
        "resourceVersion=1&resourceVersionMatch=Sometimes",
        "timeoutSeconds=soon",
        deep.as_str(),
        long.as_str(),
    ] {
        target.get(&format!("{MAPS}?{query}")).await?.refused(
            query.get(..60).unwrap_or(query),
            &[400, 422],
            &[],
        )?;
        let deleted = target.send("DELETE", &format!("{MAPS}?{query}"), JSON, "").await?;
        deleted.refused(query.get(..60).unwrap_or(query), &[400, 422], &[])?;
    }
    for query in
        ["watch=1&labelSelector=a%20in%20(", "watch=1&resourceVersion=old", "watch=1&fieldSelector=x%3Dy"]
    {
        target.get(&format!("{MAPS}?{query}")).await?.refused(query, &[400], &[])?;
    }
    target.get(&format!("{MAPS}/one")).await?.accepted("nothing was deleted")?;
    // A token of another list does not lead out of its namespace.
    let page = target.get(&format!("{MAPS}?limit=1")).await?.accepted("a page")?;
    let token =
        page.body.pointer("/metadata/continue").and_then(Value::as_str).unwrap_or_default().to_owned();
    ensure!(!token.is_empty(), "there should be a second page");
    let other = target.get(&format!("/api/v1/namespaces/kube-system/configmaps?continue={token}")).await?;
    let leaked =
        other.body.pointer("/items").and_then(Value::as_array).is_some_and(|items| !items.is_empty());
    ensure!(!leaked, "a token leads into another namespace");
    let cut = token.get(..token.len() / 2).unwrap_or_default();
    target.get(&format!("{MAPS}?continue={cut}")).await?.refused("half a token", &[400], &["continue"])?;
    target.still_answers().await
}

async fn bad_text(target: &Target<'_>) -> anyhow::Result<()> {
    let bodies: [(&str, &[u8]); 6] = [
        ("invalid UTF-8", b"{\"metadata\":{\"name\":\"\xff\xfe\"}}"),
        ("cut UTF-8", b"{\"metadata\":{\"name\":\"x\"},\"data\":{\"a\":\"\xe2\x82\"}}"),
        ("overlong UTF-8", b"{\"metadata\":{\"name\":\"\xc0\xaf\"}}"),
        ("NUL", b"{\"metadata\":{\"name\":\"a\\u0000b\"}}"),
        ("half a document", b"{\"metadata\":{\"name\":\"x\""),
        ("two documents", b"{\"metadata\":{\"name\":\"x\"}}{\"metadata\":{\"name\":\"y\"}}"),
    ];
    for (name, body) in bodies {
        target.send("POST", MAPS, JSON, body).await?.refused(name, &[400, 422], &[])?;
        target.send("POST", MAPS, "application/yaml", body).await?.refused(name, &[400, 422], &[])?;
    }
    for path in ["%ff", "%00", "a%2Fb", "..%2F..", &"a".repeat(10_000)] {
        let answer = target.get(&format!("{MAPS}/{path}")).await?;
        answer.refused(path.get(..20).unwrap_or(path), &[400, 404], &[])?;
    }
    target.send("POST", MAPS, "text/html; charset=\"", "{}").await?.refused(
        "a content type",
        &[400, 415],
        &[],
    )?;
    target.still_answers().await
}
