//! The options of write requests.

use serde_json::Value;

use crate::status::{Status, StatusCause};

/// What to do with fields that the schema does not know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    /// Drop them silently.
    Ignore,
    /// Drop them and send a warning (the default of the API).
    #[default]
    Warn,
    /// Refuse the request.
    Strict,
}

impl FieldValidation {
    /// Reads the query parameter.
    pub fn parse(text: &str) -> Result<FieldValidation, Status> {
        match text {
            "" | "Warn" => Ok(FieldValidation::Warn),
            "Ignore" => Ok(FieldValidation::Ignore),
            "Strict" => Ok(FieldValidation::Strict),
            other => {
                let message = format!(
                    "Unsupported value: {}: supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"",
                    crate::status::quoted(other)
                );
                let cause = StatusCause::field("FieldValueNotSupported", "fieldValidation", message);
                Err(Status::invalid("CreateOptions.meta.k8s.io", "", vec![cause]))
            }
        }
    }
}

/// Query options of create, update and patch.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    /// Decide and answer, but change nothing.
    pub dry_run: bool,
    /// `fieldManager`, empty when the client sent none.
    pub field_manager: String,
    /// The `User-Agent` header: its part before the first `/` names the manager when there is no `fieldManager`.
    pub user_agent: String,
    /// `fieldValidation`
    pub field_validation: FieldValidation,
    /// `force`, for apply only.
    pub force: Option<bool>,
    /// What strict decoding of the body found before the model saw it, e.g. `duplicate field "spec.a"`.
    pub decoding_problems: Vec<String>,
}

/// What becomes of dependents when their owner is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// The owner goes at once, dependents later.
    Background,
    /// Blocking dependents go first.
    Foreground,
    /// Dependents stay and lose the reference.
    Orphan,
}

/// Conditions on the state that a delete finds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preconditions {
    /// The object must have this uid.
    pub uid: Option<String>,
    /// The object must have this version.
    pub resource_version: Option<String>,
}

/// `DeleteOptions`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// Decide and answer, but change nothing.
    pub dry_run: bool,
    /// Conditions on the state that is found.
    pub preconditions: Preconditions,
    /// `propagationPolicy`
    pub propagation: Option<Propagation>,
    /// The old spelling of orphaning.
    pub orphan_dependents: Option<bool>,
    /// `gracePeriodSeconds`
    pub grace_period_seconds: Option<i64>,
}

impl DeleteOptions {
    /// Reads a `DeleteOptions` body.
    pub fn from_json(body: &Value) -> Result<DeleteOptions, Status> {
        let mut options = DeleteOptions::default();
        let Some(map) = body.as_object() else {
            return Err(Status::bad_request(
                "couldn't get version/kind; json parse error: the body is not an object",
            ));
        };
        let kind = map.get("kind").and_then(Value::as_str).unwrap_or("DeleteOptions");
        if kind != "DeleteOptions" {
            return Err(Status::bad_request(format!(
                "decoded object cannot be converted to DeleteOptions: the body is a {}",
                crate::status::quoted(kind)
            )));
        }
        if let Some(list) = map.get("dryRun").and_then(Value::as_array) {
            for entry in list {
                options.dry_run |= parse_dry_run(entry.as_str().unwrap_or_default())?;
            }
        }
        if let Some(policy) = map.get("propagationPolicy").and_then(Value::as_str) {
            options.propagation = Some(parse_propagation(policy)?);
        }
        options.orphan_dependents = map.get("orphanDependents").and_then(Value::as_bool);
        options.grace_period_seconds = map.get("gracePeriodSeconds").and_then(Value::as_i64);
        if let Some(conditions) = map.get("preconditions") {
            let text = |field: &str| conditions.get(field).and_then(Value::as_str).map(str::to_owned);
            options.preconditions =
                Preconditions { uid: text("uid"), resource_version: text("resourceVersion") };
        }
        options.check()
    }

    /// Refuses contradictory options.
    pub fn check(self) -> Result<DeleteOptions, Status> {
        if let (Some(policy), Some(_)) = (self.propagation, self.orphan_dependents) {
            let message = format!(
                "Invalid value: \"{policy:?}\": orphanDependents and deletionPropagation cannot be both set"
            );
            let cause = StatusCause::field("FieldValueInvalid", "propagationPolicy", message);
            return Err(Status::invalid("DeleteOptions.meta.k8s.io", "", vec![cause]));
        }
        Ok(self)
    }
}

/// Reads one `dryRun` value; only `All` exists.
pub fn parse_dry_run(text: &str) -> Result<bool, Status> {
    match text {
        "" => Ok(false),
        "All" => Ok(true),
        other => {
            let message =
                format!("Unsupported value: [{}]: supported values: \"All\"", crate::status::quoted(other));
            let cause = StatusCause::field("FieldValueNotSupported", "dryRun", message);
            Err(Status::invalid("DeleteOptions.meta.k8s.io", "", vec![cause]))
        }
    }
}

/// Reads a `propagationPolicy`.
pub fn parse_propagation(text: &str) -> Result<Propagation, Status> {
    match text {
        "Background" => Ok(Propagation::Background),
        "Foreground" => Ok(Propagation::Foreground),
        "Orphan" => Ok(Propagation::Orphan),
        other => {
            let message = format!(
                "Unsupported value: {}: supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\"",
                crate::status::quoted(other)
            );
            let cause = StatusCause::field("FieldValueNotSupported", "propagationPolicy", message);
            Err(Status::invalid("DeleteOptions.meta.k8s.io", "", vec![cause]))
        }
    }
}
