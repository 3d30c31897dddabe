//! Structural schemas: what the server knows about the shape of an object.
//!
//! One `Schema` type serves both worlds: custom resources, whose schema comes from a CRD and must be structural, and
//! built-in kinds, whose schemas are components of the published OpenAPI documents. From it follow pruning, defaulting,
//! validation, strict decoding and the list and map types that server-side apply merges by.
//!
//! This module must not know requests, storage or HTTP, and must not read a clock.

mod defaulting;
mod error;
mod format;
mod go;
mod parse;
mod path;
mod prune;
mod rules;
mod strict;
mod structural;
mod validate;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, LazyLock};

use regex::Regex;
use serde_json::Value;

pub use self::defaulting::apply_defaults;
pub use self::error::{Cause, FieldError};
pub(crate) use self::go::quote;
pub(crate) use self::parse::component_schema;
pub use self::prune::prune;
pub use self::rules::{RULE_COST_LIMIT, Rule};
pub use self::strict::{duplicate_keys, strict_error, unknown_fields};
pub use self::validate::validate;
use crate::builtin::Component;

/// The JSON type a schema node demands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaType {
    /// A JSON object.
    Object,
    /// A JSON array.
    Array,
    /// A JSON string.
    String,
    /// A number without a fraction.
    Integer,
    /// Any number.
    Number,
    /// `true` or `false`.
    Boolean,
}

impl SchemaType {
    /// The name as OpenAPI spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
        }
    }

    /// Reads the OpenAPI spelling.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "object" => Self::Object,
            "array" => Self::Array,
            "string" => Self::String,
            "integer" => Self::Integer,
            "number" => Self::Number,
            "boolean" => Self::Boolean,
            _ => return None,
        })
    }
}

/// `x-kubernetes-list-type`: how server-side apply merges a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListType {
    /// The list is replaced as a whole.
    Atomic,
    /// A list of scalars without duplicates; managers own single values.
    Set,
    /// A list of objects that `x-kubernetes-list-map-keys` identify.
    Map,
}

/// `x-kubernetes-map-type`: how server-side apply merges an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapType {
    /// Fields are owned one by one (the default).
    Granular,
    /// The object is replaced as a whole.
    Atomic,
}

/// What may stand in an object beside the named properties.
#[derive(Clone, Debug, Default)]
pub enum Additional {
    /// Nothing.
    #[default]
    None,
    /// Anything (`additionalProperties: true`).
    Any,
    /// Values of this schema.
    Schema(SchemaRef),
}

/// A shared schema node: owned by its parent, or a component of the built-in documents that is parsed on first use.
///
/// It dereferences to [`Schema`]. Because components resolve lazily, recursive kinds such as `JSONSchemaProps` are
/// finite in memory and kinds that nobody touches cost nothing.
#[derive(Clone)]
pub struct SchemaRef(Target);

#[derive(Clone)]
enum Target {
    Owned(Arc<Schema>),
    Component(&'static Component),
}

impl SchemaRef {
    pub(crate) fn component(component: &'static Component) -> Self {
        Self(Target::Component(component))
    }

    /// The node if it belongs to its parent, without resolving a component.
    pub(crate) fn owned(&self) -> Option<&Schema> {
        match &self.0 {
            Target::Owned(schema) => Some(schema),
            Target::Component(_) => None,
        }
    }
}

impl Deref for SchemaRef {
    type Target = Schema;

    fn deref(&self) -> &Schema {
        match &self.0 {
            Target::Owned(schema) => schema,
            Target::Component(component) => component.schema(),
        }
    }
}

impl From<Schema> for SchemaRef {
    fn from(schema: Schema) -> Self {
        Self(Target::Owned(Arc::new(schema)))
    }
}

impl From<Arc<Schema>> for SchemaRef {
    fn from(schema: Arc<Schema>) -> Self {
        Self(Target::Owned(schema))
    }
}

impl fmt::Debug for SchemaRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Target::Owned(schema) => schema.fmt(f),
            // Components may be recursive, so only their name is printed.
            Target::Component(component) => write!(f, "<{}>", component.name),
        }
    }
}

/// One node of a schema.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    /// The JSON type, if one is demanded.
    pub ty: Option<SchemaType>,
    /// `format`, as written.
    pub format: Option<String>,
    /// Whether `null` is a value of its own.
    pub nullable: bool,
    /// The value that a missing field gets.
    pub default: Option<Value>,
    /// The named fields of an object.
    pub properties: BTreeMap<String, SchemaRef>,
    /// What may stand beside the named fields.
    pub additional: Additional,
    /// The schema of a list's elements.
    pub items: Option<SchemaRef>,
    /// The fields that must be present.
    pub required: Vec<String>,
    /// The values allowed; empty allows all.
    pub enums: Vec<Value>,
    /// `x-kubernetes-int-or-string`.
    pub int_or_string: bool,
    /// `x-kubernetes-preserve-unknown-fields`.
    pub preserve_unknown: bool,
    /// `x-kubernetes-embedded-resource`, and the root of a custom resource: `apiVersion`, `kind` and `metadata` are kept.
    pub embedded_resource: bool,
    /// `x-kubernetes-list-type`.
    pub list_type: Option<ListType>,
    /// `x-kubernetes-list-map-keys`.
    pub list_map_keys: Vec<String>,
    /// `x-kubernetes-map-type`.
    pub map_type: Option<MapType>,
    /// `x-kubernetes-patch-merge-key` of built-in lists, for strategic merge patch.
    pub patch_merge_key: Option<String>,
    /// `x-kubernetes-patch-strategy` of built-in fields, for example `merge` or `merge,retainKeys`.
    pub patch_strategy: Option<String>,
    /// The constraints that few nodes have.
    pub checks: Option<Box<Checks>>,
    /// `x-kubernetes-validations`.
    pub rules: Vec<Rule>,
    /// Whether this node or one below it has rules, so that validation can skip whole branches.
    pub has_rules: bool,
    /// Whether rules see values of this schema otherwise than as plain JSON: typed, or under escaped names.
    pub(crate) needs_view: bool,
}

/// Constraints on values; most nodes have none.
#[derive(Clone, Debug, Default)]
pub struct Checks {
    /// `minimum` and whether it is exclusive.
    pub minimum: Option<(serde_json::Number, bool)>,
    /// `maximum` and whether it is exclusive.
    pub maximum: Option<(serde_json::Number, bool)>,
    /// `multipleOf`.
    pub multiple_of: Option<serde_json::Number>,
    /// `minLength`, in characters.
    pub min_length: Option<u64>,
    /// `maxLength`, in characters.
    pub max_length: Option<u64>,
    /// `minItems`.
    pub min_items: Option<u64>,
    /// `maxItems`.
    pub max_items: Option<u64>,
    /// `minProperties`.
    pub min_properties: Option<u64>,
    /// `maxProperties`.
    pub max_properties: Option<u64>,
    /// `uniqueItems`.
    pub unique_items: bool,
    /// `pattern` as written and as compiled.
    pub pattern: Option<(String, Regex)>,
    /// `allOf`.
    pub all_of: Vec<Schema>,
    /// `anyOf`.
    pub any_of: Vec<Schema>,
    /// `oneOf`.
    pub one_of: Vec<Schema>,
    /// `not`.
    pub not: Option<Box<Schema>>,
}

static UNTYPED: LazyLock<Arc<Schema>> =
    LazyLock::new(|| Arc::new(Schema { preserve_unknown: true, ..Schema::default() }));

impl Schema {
    /// Reads the `openAPIV3Schema` of a CRD version, the root of a custom resource.
    ///
    /// `apiVersion`, `kind` and the whole of `ObjectMeta` are added, as every custom resource has them. The problems
    /// name the place relative to the schema, for example `properties[spec].type: Required value: …`.
    pub fn from_openapi(json: &Value) -> Result<Self, Vec<String>> {
        let problems = structural::problems(json);
        let (schema, more) = parse::custom_resource(json);
        if problems.is_empty() && more.is_empty() {
            return Ok(schema);
        }
        let mut all: Vec<String> = problems.into_iter().chain(more).collect();
        all.sort();
        all.dedup();
        Err(all)
    }

    /// A schema that accepts and keeps everything.
    pub fn untyped() -> Arc<Self> {
        Arc::clone(&UNTYPED)
    }

    /// The schema of an object's field: the named property, or what `additionalProperties` says.
    pub fn field(&self, name: &str) -> Option<&Self> {
        if let Some(property) = self.properties.get(name) {
            return Some(property);
        }
        match &self.additional {
            Additional::Schema(schema) => Some(schema),
            Additional::Any => Some(&UNTYPED),
            Additional::None => None,
        }
    }

    /// Whether the schema says nothing at all about the value.
    pub fn is_untyped(&self) -> bool {
        self.ty.is_none() && !self.int_or_string && self.properties.is_empty() && self.items.is_none()
    }
}

#[cfg(test)]
mod tests;
