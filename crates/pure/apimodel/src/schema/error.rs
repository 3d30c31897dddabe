//! Field errors in the words of Kubernetes.

use std::fmt;

use serde_json::Value;

use super::go;

/// Why a field was refused; the machine-readable part of a `Status` cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// A field that must be present is missing.
    Required,
    /// A value that breaks a constraint.
    Invalid,
    /// A value of the wrong JSON type.
    TypeInvalid,
    /// A value outside an enumeration.
    NotSupported,
    /// A list element that occurs twice.
    Duplicate,
    /// A value that is not allowed here or now.
    Forbidden,
    /// A string that is too long.
    TooLong,
    /// A list or map that has too many elements.
    TooMany,
    /// A thing that was referred to and does not exist.
    NotFound,
    /// A failure that is not the user's.
    Internal,
}

impl Cause {
    /// The `reason` of the cause in a `Status`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid => "FieldValueInvalid",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::NotFound => "FieldValueNotFound",
            Self::Internal => "InternalError",
        }
    }

    /// The words that the message begins with.
    pub fn title(self) -> &'static str {
        match self {
            Self::Required => "Required value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Duplicate => "Duplicate value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::NotFound => "Not found",
            Self::Internal => "Internal error",
        }
    }
}

/// The path of an error about the whole object.
pub(super) const ROOT_PATH: &str = "<nil>";

/// One refused field. `Display` gives the whole line, `spec.x: Invalid value: "foo": …`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct FieldError {
    /// The field, for example `spec.ports[0].name`.
    pub path: String,
    /// Why it was refused.
    pub reason: Cause,
    /// The line without the path: title, value and detail.
    pub message: String,
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

impl FieldError {
    pub(super) fn new(path: impl fmt::Display, reason: Cause, value: Option<&Value>, detail: &str) -> Self {
        let mut message = reason.title().to_owned();
        if let Some(value) = value {
            message.push_str(": ");
            message.push_str(&go::value(value));
        }
        if !detail.is_empty() {
            message.push_str(": ");
            message.push_str(detail);
        }
        let mut path = path.to_string();
        if path.is_empty() {
            // Go prints the path of the whole object like this.
            path.push_str(ROOT_PATH);
        }
        Self { path, reason, message }
    }

    /// A field that must be present; `detail` may be empty.
    pub fn required(path: impl fmt::Display, detail: &str) -> Self {
        Self::new(path, Cause::Required, None, detail)
    }

    /// A value that breaks a constraint.
    pub fn invalid(path: impl fmt::Display, value: &Value, detail: &str) -> Self {
        Self::new(path, Cause::Invalid, Some(value), detail)
    }

    /// A value of the wrong JSON type.
    pub fn type_invalid(path: impl fmt::Display, value: &Value, detail: &str) -> Self {
        Self::new(path, Cause::TypeInvalid, Some(value), detail)
    }

    /// A value that is none of `allowed`.
    pub fn not_supported<'a>(
        path: impl fmt::Display,
        value: &Value,
        allowed: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let quoted: Vec<String> = allowed.into_iter().map(go::quote).collect();
        let detail = if quoted.is_empty() {
            String::new()
        } else {
            format!("supported values: {}", quoted.join(", "))
        };
        Self::new(path, Cause::NotSupported, Some(value), &detail)
    }

    /// A list element that occurs twice.
    pub fn duplicate(path: impl fmt::Display, value: &Value) -> Self {
        Self::new(path, Cause::Duplicate, Some(value), "")
    }

    /// Something that is not allowed.
    pub fn forbidden(path: impl fmt::Display, detail: &str) -> Self {
        Self::new(path, Cause::Forbidden, None, detail)
    }

    /// A string longer than `max`.
    pub fn too_long(path: impl fmt::Display, max: u64) -> Self {
        let unit = if max == 1 { "byte" } else { "bytes" };
        Self::new(path, Cause::TooLong, None, &format!("may not be more than {max} {unit}"))
    }

    /// A list or map with more than `max` elements.
    pub fn too_many(path: impl fmt::Display, actual: usize, max: u64) -> Self {
        let unit = if max == 1 { "item" } else { "items" };
        Self::new(
            path,
            Cause::TooMany,
            Some(&Value::from(actual)),
            &format!("must have at most {max} {unit}"),
        )
    }
}
