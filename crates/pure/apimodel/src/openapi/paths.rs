//! The paths of a kind with their operations, as far as clients look at them: the verbs, the group, version and kind, and
//! the query parameters (kubectl asks there whether `fieldValidation` is supported).

use serde_json::{Map, Value, json};

use super::{ApiKind, META, SCALE};

/// Which dialect the operations are written in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    V2,
    V3,
}

const DRY_RUN: (&str, &str, &str) = (
    "dryRun",
    "string",
    "When present, indicates that modifications should not be persisted. Valid values are: - All: all dry run stages will be processed",
);
const FIELD_MANAGER: (&str, &str, &str) = (
    "fieldManager",
    "string",
    "fieldManager is a name associated with the actor or entity that is making these changes.",
);
const FIELD_VALIDATION: (&str, &str, &str) = (
    "fieldValidation",
    "string",
    "fieldValidation instructs the server on how to handle objects in the request (POST/PUT/PATCH) containing unknown or duplicate fields. Valid values are: Ignore, Warn, Strict.",
);
const FORCE: (&str, &str, &str) = (
    "force",
    "boolean",
    "Force is going to \"force\" Apply requests. It means user will re-acquire conflicting fields owned by other people.",
);
const LIST: [(&str, &str, &str); 9] = [
    ("allowWatchBookmarks", "boolean", "allowWatchBookmarks requests watch events with type \"BOOKMARK\"."),
    ("continue", "string", "The continue option should be set when retrieving more results from the server."),
    ("fieldSelector", "string", "A selector to restrict the list of returned objects by their fields."),
    ("labelSelector", "string", "A selector to restrict the list of returned objects by their labels."),
    ("limit", "integer", "limit is a maximum number of responses to return for a list call."),
    (
        "resourceVersion",
        "string",
        "resourceVersion sets a constraint on what resource versions a request may be served from.",
    ),
    (
        "resourceVersionMatch",
        "string",
        "resourceVersionMatch determines how resourceVersion is applied to list calls.",
    ),
    ("sendInitialEvents", "boolean", "sendInitialEvents may be set together with watch=true."),
    (
        "watch",
        "boolean",
        "Watch for changes to the described resources and return them as a stream of add, update, and remove notifications.",
    ),
];
const DELETE: [(&str, &str, &str); 3] = [
    DRY_RUN,
    ("gracePeriodSeconds", "integer", "The duration in seconds before the object should be deleted."),
    (
        "propagationPolicy",
        "string",
        "Whether and how garbage collection will be performed. Acceptable values are: 'Orphan', 'Background', 'Foreground'.",
    ),
];
const PATCH_TYPES: [&str; 4] = [
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
];
/// kubectl looks here whether it may send a strategic merge patch; custom resources take none.
const CUSTOM_PATCH_TYPES: [&str; 3] =
    ["application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json"];

/// Adds every path of the kind.
pub(super) fn add(kind: &ApiKind<'_>, dialect: Dialect, out: &mut Map<String, Value>) {
    let root = if kind.group.is_empty() {
        format!("/api/{}", kind.version)
    } else {
        format!("/apis/{}/{}", kind.group, kind.version)
    };
    let collection = if kind.namespaced {
        let all = Writer { kind, dialect, namespaced: false };
        let list = all.operation("list", "ForAllNamespaces", &LIST, None, &kind.list_component());
        out.insert(format!("{root}/{}", kind.plural), json!({"get": list}));
        format!("{root}/namespaces/{{namespace}}/{}", kind.plural)
    } else {
        format!("{root}/{}", kind.plural)
    };
    let writer = Writer { kind, dialect, namespaced: kind.namespaced };
    out.insert(collection.clone(), writer.collection());
    out.insert(format!("{collection}/{{name}}"), writer.item("", &kind.component(), true));
    if kind.status {
        out.insert(format!("{collection}/{{name}}/status"), writer.item("Status", &kind.component(), false));
    }
    if kind.scale {
        let mut item = writer.item("Scale", SCALE, false);
        let gvk = json!({"group": "autoscaling", "version": "v1", "kind": "Scale"});
        for operation in
            item.as_object_mut().into_iter().flat_map(Map::values_mut).filter_map(Value::as_object_mut)
        {
            operation.insert("x-kubernetes-group-version-kind".to_owned(), gvk.clone());
        }
        out.insert(format!("{collection}/{{name}}/scale"), item);
    }
}

struct Writer<'k> {
    kind: &'k ApiKind<'k>,
    dialect: Dialect,
    namespaced: bool,
}

type Parameter = (&'static str, &'static str, &'static str);

impl Writer<'_> {
    fn collection(&self) -> Value {
        let component = self.kind.component();
        let write = [DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION];
        let delete: Vec<Parameter> = LIST.iter().chain(&DELETE).copied().collect();
        let mut item = json!({
            "get": self.operation("list", "", &LIST, None, &self.kind.list_component()),
            "post": self.operation("post", "", &write, Some(&component), &component),
            "delete": self.operation("deletecollection", "", &delete, None, &format!("{META}Status")),
        });
        self.path_parameters(&mut item, false);
        item
    }

    fn item(&self, suffix: &str, component: &str, delete: bool) -> Value {
        let write = [DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION];
        let patch = [DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION, FORCE];
        let patch_body = format!("{META}Patch");
        let mut item = json!({
            "get": self.operation("get", suffix, &[], None, component),
            "put": self.operation("put", suffix, &write, Some(component), component),
            "patch": self.operation("patch", suffix, &patch, Some(&patch_body), component),
        });
        if delete && let Some(map) = item.as_object_mut() {
            let operation = self.operation("delete", suffix, &DELETE, None, &format!("{META}Status"));
            map.insert("delete".to_owned(), operation);
        }
        self.path_parameters(&mut item, true);
        item
    }

    fn path_parameters(&self, item: &mut Value, named: bool) {
        let mut parameters = Vec::new();
        if named {
            let description = format!("name of the {}", self.kind.kind);
            parameters.push(self.parameter("name", "string", &description, "path"));
        }
        if self.namespaced {
            let description = "object name and auth scope, such as for teams and projects";
            parameters.push(self.parameter("namespace", "string", description, "path"));
        }
        if let Some(map) = item.as_object_mut()
            && !parameters.is_empty()
        {
            map.insert("parameters".to_owned(), Value::Array(parameters));
        }
    }

    fn parameter(&self, name: &str, ty: &str, description: &str, place: &str) -> Value {
        let mut out = json!({"name": name, "in": place, "description": description});
        if let Some(map) = out.as_object_mut() {
            if place == "path" {
                map.insert("required".to_owned(), json!(true));
            }
            match self.dialect {
                Dialect::V2 => map.insert("type".to_owned(), json!(ty)),
                Dialect::V3 => map.insert("schema".to_owned(), json!({"type": ty, "uniqueItems": true})),
            };
        }
        out
    }

    fn reference(&self, component: &str) -> Value {
        match self.dialect {
            Dialect::V2 => json!({"$ref": format!("#/definitions/{component}")}),
            Dialect::V3 => json!({"$ref": format!("#/components/schemas/{component}")}),
        }
    }

    fn operation(
        &self,
        action: &str,
        suffix: &str,
        query: &[Parameter],
        body: Option<&str>,
        answer: &str,
    ) -> Value {
        let mut parameters: Vec<Value> =
            query.iter().map(|(name, ty, text)| self.parameter(name, ty, text, "query")).collect();
        let id =
            format!("{}{}{suffix}", operation_prefix(action), operation_subject(self.kind, self.namespaced));
        let mut out = json!({
            "operationId": id,
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": self.kind.gvk(),
        });
        let Some(map) = out.as_object_mut() else { return out };
        let patch = action == "patch";
        let patches: &[&str] = if self.kind.schema.is_some() { &CUSTOM_PATCH_TYPES } else { &PATCH_TYPES };
        match self.dialect {
            Dialect::V2 => {
                if let Some(body) = body {
                    parameters.push(
                        json!({"name": "body", "in": "body", "required": true, "schema": self.reference(body)}),
                    );
                }
                let consumes: &[&str] =
                    if patch { patches } else { &["application/json", "application/yaml"] };
                map.insert("consumes".to_owned(), json!(consumes));
                map.insert("produces".to_owned(), json!(["application/json"]));
                map.insert(
                    "responses".to_owned(),
                    json!({"200": {"description": "OK", "schema": self.reference(answer)}}),
                );
            }
            Dialect::V3 => {
                if let Some(body) = body {
                    let types: &[&str] = if patch { patches } else { &["*/*"] };
                    let content: Map<String, Value> = types
                        .iter()
                        .map(|ty| ((*ty).to_owned(), json!({"schema": self.reference(body)})))
                        .collect();
                    map.insert("requestBody".to_owned(), json!({"content": content, "required": true}));
                }
                let content = json!({"application/json": {"schema": self.reference(answer)}});
                map.insert("responses".to_owned(), json!({"200": {"description": "OK", "content": content}}));
            }
        }
        map.insert("parameters".to_owned(), Value::Array(parameters));
        out
    }
}

fn operation_prefix(action: &str) -> &str {
    match action {
        "get" => "read",
        "post" => "create",
        "put" => "replace",
        "deletecollection" => "deleteCollection",
        other => other,
    }
}

fn operation_subject(kind: &ApiKind<'_>, namespaced: bool) -> String {
    let group = if kind.group.is_empty() { "core" } else { kind.group };
    let title = |part: &str| {
        let mut letters = part.chars();
        letters
            .next()
            .map(|first| first.to_uppercase().chain(letters).collect::<String>())
            .unwrap_or_default()
    };
    let group: String = group.split(['.', '-']).map(title).collect();
    format!("{group}{}{}{}", title(kind.version), if namespaced { "Namespaced" } else { "" }, kind.kind)
}
