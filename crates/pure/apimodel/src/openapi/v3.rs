//! OpenAPI v3: an index, and one document per group and version.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::{ApiKind, META, SCALE, document_hash, paths};
use crate::builtin;

const REFERENCE: &str = "#/components/schemas/";

/// The index at `/openapi/v3`: each document's path (`api/v1`, `apis/apps/v1`) and bytes give its address with a hash.
pub fn v3_index<'a>(documents: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Vec<u8> {
    let entries: Map<String, Value> = documents
        .into_iter()
        .map(|(path, bytes)| {
            let url = format!("/openapi/v3/{path}?hash={}", document_hash(bytes));
            (path.to_owned(), json!({"serverRelativeURL": url}))
        })
        .collect();
    json!({ "paths": entries }).to_string().into_bytes()
}

/// The document of one group and version, for `/openapi/v3/api/v1` or `/openapi/v3/apis/<group>/<version>`.
pub fn v3_document(kinds: &[ApiKind<'_>]) -> Vec<u8> {
    let mut own: BTreeMap<String, String> = BTreeMap::new();
    let mut todo: Vec<String> =
        ["DeleteOptions", "Status", "Patch"].iter().map(|name| format!("{META}{name}")).collect();
    let mut all_paths = Map::new();
    for kind in kinds {
        paths::add(kind, paths::Dialect::V3, &mut all_paths);
        if let Some(schema) = kind.schema {
            let text = kind.published(schema, REFERENCE).to_string();
            todo.extend(references(&text));
            own.insert(kind.component(), text);
            let list = kind.published_list(REFERENCE).to_string();
            todo.extend(references(&list));
            own.insert(kind.list_component(), list);
        } else {
            todo.push(kind.component());
            todo.push(kind.list_component());
        }
        if kind.scale {
            todo.push(SCALE.to_owned());
        }
    }
    let mut seen = BTreeSet::new();
    while let Some(name) = todo.pop() {
        if own.contains_key(&name) || !seen.insert(name.clone()) {
            continue;
        }
        if let Some(component) = builtin::component(&name) {
            todo.extend(references(component.text));
            own.insert(name, component.text.to_owned());
        }
    }
    let schemas: Vec<String> =
        own.iter().map(|(name, text)| format!("{}:{text}", Value::from(name.as_str()))).collect();
    let info = json!({"title": "Kubernetes", "version": "v1.36.3"});
    let security = json!({"BearerToken": {"description": "Bearer Token authentication", "in": "header", "name": "authorization", "type": "apiKey"}});
    let paths = Value::Object(all_paths);
    let schemas = schemas.join(",");
    format!(
        r#"{{"openapi":"3.0.0","info":{info},"paths":{paths},"components":{{"schemas":{{{schemas}}},"securitySchemes":{security}}}}}"#
    )
    .into_bytes()
}

/// The components that a schema's text refers to.
fn references(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split(REFERENCE).skip(1).filter_map(|rest| rest.split('"').next()).map(str::to_owned)
}
