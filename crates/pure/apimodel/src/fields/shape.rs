//! What a schema node means for merging: scalar, list or map, and how its parts are identified.
//!
//! The rules are those by which kube-apiserver turns OpenAPI into merge types: lists are atomic unless the schema says
//! otherwise, maps are granular, and where the schema is silent the value decides (granular maps, atomic lists).

use std::sync::LazyLock;

use serde_json::Value;

use super::PathElement;
use crate::schema::{Additional, ListType, MapType, Schema, SchemaType};

/// The type of a place in an object.
#[derive(Clone, Copy)]
pub(crate) enum TypeRef<'a> {
    /// A schema node, and whether one above it preserves unknown fields.
    Node(&'a Schema, bool),
    /// No schema: maps are granular, lists atomic.
    Deduced,
    /// No schema below an atomic value: everything is atomic.
    Atomic,
    /// The schema does not have this field.
    Undeclared,
}

/// The JSON type that a scalar must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Number,
    String,
    Boolean,
    Any,
}

/// How a map is merged.
#[derive(Clone, Copy)]
pub(crate) struct MapShape<'a> {
    pub(crate) atomic: bool,
    schema: Option<(&'a Schema, bool)>,
    element: Element,
}

#[derive(Clone, Copy)]
enum Element {
    Schema,
    Deduced,
    Atomic,
    Undeclared,
}

/// How a list is merged.
#[derive(Clone, Copy)]
pub(crate) struct ListShape<'a> {
    /// Whether elements have an identity; a list without is replaced as a whole.
    pub(crate) associative: bool,
    /// The key fields; none makes the list a set of scalars.
    keys: Keys<'a>,
    element: TypeRef<'a>,
    /// Whether the list is one of a built-in kind.
    built_in: bool,
}

#[derive(Clone, Copy)]
enum Keys<'a> {
    Many(&'a [String]),
    One(&'a str),
}

/// The one form that applies to a value.
#[derive(Clone, Copy)]
pub(crate) enum Atom<'a> {
    Map(MapShape<'a>),
    List(ListShape<'a>),
    Scalar(Kind),
    /// The schema allows nothing here.
    Nothing,
}

/// Every form a type allows.
#[derive(Clone, Copy, Default)]
struct Forms<'a> {
    map: Option<MapShape<'a>>,
    scalar: Option<Kind>,
    list: Option<ListShape<'a>>,
}

impl<'a> TypeRef<'a> {
    /// The type of a whole object.
    pub(crate) fn root(schema: &'a Schema) -> Self {
        Self::Node(schema, false)
    }

    /// The form that a value takes: the one of its JSON type if allowed, otherwise the first one allowed.
    pub(crate) fn atom(self, value: &Value) -> Atom<'a> {
        let forms = self.forms();
        match value {
            Value::Object(_) => {
                if let Some(map) = forms.map {
                    return Atom::Map(map);
                }
            }
            Value::Array(_) => {
                if let Some(list) = forms.list {
                    return Atom::List(list);
                }
            }
            Value::Null => {}
            _ => {
                if let Some(scalar) = forms.scalar {
                    return Atom::Scalar(scalar);
                }
            }
        }
        match (forms.map, forms.scalar, forms.list) {
            (Some(map), _, _) => Atom::Map(map),
            (None, Some(scalar), _) => Atom::Scalar(scalar),
            (None, None, Some(list)) => Atom::List(list),
            (None, None, None) => Atom::Nothing,
        }
    }

    /// The map form, whatever the value is.
    pub(crate) fn map(self) -> Option<MapShape<'a>> {
        self.forms().map
    }

    /// The list form, whatever the value is.
    pub(crate) fn list(self) -> Option<ListShape<'a>> {
        self.forms().list
    }

    fn forms(self) -> Forms<'a> {
        match self {
            Self::Node(schema, inherited) => node_forms(schema, inherited || schema.preserve_unknown),
            Self::Deduced => untyped_forms(false),
            Self::Atomic => untyped_forms(true),
            Self::Undeclared => Forms::default(),
        }
    }
}

fn untyped_forms<'a>(atomic: bool) -> Forms<'a> {
    let element = if atomic { Element::Atomic } else { Element::Deduced };
    Forms {
        map: Some(MapShape { atomic, schema: None, element }),
        scalar: Some(Kind::Any),
        list: Some(ListShape {
            associative: false,
            keys: Keys::Many(&[]),
            element: TypeRef::Atomic,
            built_in: false,
        }),
    }
}

fn node_forms(schema: &Schema, preserve: bool) -> Forms<'_> {
    let mut forms = Forms::default();
    match schema.ty {
        Some(SchemaType::Object) => forms.map = Some(map_shape(schema, preserve)),
        Some(SchemaType::Array) => forms.list = Some(list_shape(schema, preserve)),
        Some(SchemaType::Integer | SchemaType::Number) => forms.scalar = Some(Kind::Number),
        Some(SchemaType::Boolean) => forms.scalar = Some(Kind::Boolean),
        Some(SchemaType::String) => {
            let plain = !schema.int_or_string && matches!(schema.format.as_deref(), None | Some("byte"));
            forms.scalar = Some(if plain { Kind::String } else { Kind::Any });
        }
        None => {
            forms.scalar = Some(Kind::Any);
            forms.list = Some(list_shape(schema, preserve));
            forms.map = Some(map_shape(schema, preserve));
        }
    }
    forms
}

fn map_shape(schema: &Schema, preserve: bool) -> MapShape<'_> {
    let element = match &schema.additional {
        Additional::Schema(_) => Element::Schema,
        Additional::Any => Element::Deduced,
        // An object about which nothing is said is free-form.
        Additional::None if preserve || schema.properties.is_empty() => Element::Deduced,
        Additional::None => Element::Undeclared,
    };
    MapShape { atomic: schema.map_type == Some(MapType::Atomic), schema: Some((schema, preserve)), element }
}

fn list_shape(schema: &Schema, preserve: bool) -> ListShape<'_> {
    let (associative, keys) = match (schema.list_type, schema.patch_strategy.as_deref()) {
        (Some(ListType::Atomic), _) => (false, Keys::Many(&[])),
        (Some(ListType::Set), _) => (true, Keys::Many(&[])),
        (Some(ListType::Map), _) => (true, Keys::Many(&schema.list_map_keys)),
        (None, Some("merge" | "merge,retainKeys")) => match &schema.patch_merge_key {
            Some(key) => (true, Keys::One(key)),
            None => (true, Keys::Many(&[])),
        },
        (None, _) => (false, Keys::Many(&[])),
    };
    let element = match &schema.items {
        Some(items) => TypeRef::Node(items, preserve),
        None => TypeRef::Atomic,
    };
    ListShape { associative, keys, element, built_in: schema.patch_merge_key.is_some() }
}

impl<'a> MapShape<'a> {
    /// The type of a field.
    pub(crate) fn field(&self, name: &str) -> TypeRef<'a> {
        if let Some((schema, preserve)) = self.schema {
            if let Some(property) = schema.properties.get(name) {
                return TypeRef::Node(property, preserve);
            }
            if let (Element::Schema, Additional::Schema(element)) = (self.element, &schema.additional) {
                return TypeRef::Node(element, preserve);
            }
        }
        match self.element {
            Element::Atomic => TypeRef::Atomic,
            Element::Deduced => TypeRef::Deduced,
            Element::Schema | Element::Undeclared => TypeRef::Undeclared,
        }
    }

    /// Whether the schema names this field, as a struct does, rather than allowing any key.
    pub(crate) fn is_named(&self, name: &str) -> bool {
        self.schema.is_some_and(|(schema, _)| schema.properties.contains_key(name))
    }

    /// The schema of a named field.
    pub(crate) fn named(&self, name: &str) -> Option<&'a Schema> {
        let (schema, _) = self.schema?;
        schema.properties.get(name).map(|property| &**property)
    }

    /// Whether the schema demands this field.
    pub(crate) fn requires(&self, name: &str) -> bool {
        self.schema.is_some_and(|(schema, _)| schema.required.iter().any(|required| required == name))
    }

    /// Whether no field is named and any value is allowed.
    pub(crate) fn is_free_form(&self) -> bool {
        let nameless = self.schema.is_none_or(|(schema, _)| schema.properties.is_empty());
        nameless && matches!(self.element, Element::Deduced | Element::Atomic)
    }
}

impl<'a> ListShape<'a> {
    /// The type of the elements.
    pub(crate) fn element(&self) -> TypeRef<'a> {
        self.element
    }

    /// The identity of an element, or why it has none.
    pub(crate) fn identify(&self, item: &Value) -> Result<PathElement, String> {
        let keys = match self.keys {
            Keys::One(key) => return self.identify_by(std::iter::once(key), item),
            Keys::Many(keys) => keys,
        };
        if !keys.is_empty() {
            return self.identify_by(keys.iter().map(String::as_str), item);
        }
        match item {
            Value::Object(_) => {
                Err("associative list without keys has an element that's a map type".to_owned())
            }
            Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
            Value::Null => {
                Err("associative list without keys has an element that's an explicit null".to_owned())
            }
            scalar => Ok(PathElement::Value(scalar.clone())),
        }
    }

    fn identify_by<'k>(
        &self,
        keys: impl Iterator<Item = &'k str> + Clone,
        item: &Value,
    ) -> Result<PathElement, String> {
        let Value::Object(map) = item else {
            let what = if item.is_null() { "a null element" } else { "non-map elements" };
            return Err(format!("associative list with keys may not have {what}"));
        };
        let mut fields = Vec::with_capacity(1);
        for key in keys.clone() {
            if let Some(value) = map.get(key).or_else(|| self.key_default(key)) {
                fields.push((key.to_owned(), value.clone()));
            }
        }
        if fields.is_empty() {
            let names: Vec<String> = keys.map(|key| format!("\"{key}\"")).collect();
            return Err(format!(
                "associative list with keys has an element that omits all key fields [{}] (and doesn't have default \
                 values for any key fields)",
                names.join(" ")
            ));
        }
        Ok(PathElement::key(fields))
    }

    fn key_default(&self, key: &str) -> Option<&'a Value> {
        static TCP: LazyLock<Value> = LazyLock::new(|| Value::from("TCP"));
        let TypeRef::Node(schema, _) = self.element else { return None };
        let property = schema.properties.get(key)?;
        // The schemas of built-in kinds carry no defaults, and this is the only one among their keys.
        let implied = (self.built_in && key == "protocol").then(|| &*TCP);
        property.default.as_ref().or(implied)
    }
}
