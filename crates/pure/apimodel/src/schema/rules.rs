//! `x-kubernetes-validations`: rules in CEL, compiled once with their schema.

mod view;

use std::fmt;
use std::sync::LazyLock;

use jiff::Timestamp;
use kardinal_cel::{Env, EvalErrorKind, Limits, Program, Scope};
use serde_json::Value;

pub(super) use self::view::needs_view;
use self::view::view;
use super::path::Path;
use super::{Additional, Cause, FieldError, Schema, SchemaType, go, validate as shape};

/// What one rule may cost, in CEL cost units.
pub const RULE_COST_LIMIT: u64 = 1_000_000;

/// What all rules on one object may cost together. The engine does not say what an evaluation has cost, so the limit of
/// each evaluation shrinks as their number grows, which bounds the sum.
const OBJECT_COST_LIMIT: u64 = 10_000_000;

/// However many evaluations there are, each may cost this much.
const MIN_COST_LIMIT: u64 = 2_000;

static ENV: LazyLock<Env> = LazyLock::new(|| Env::standard().declare("self").declare("oldSelf"));

/// One rule of a schema node.
#[derive(Clone)]
pub struct Rule {
    /// The expression; it must be true.
    pub program: Program,
    /// What to say when it is not.
    pub message: Option<String>,
    /// An expression that says it, with precedence over `message`.
    pub message_expression: Option<Program>,
    /// The kind of error.
    pub reason: Cause,
    /// The field below this node that the error is about.
    pub field_path: String,
    /// Whether `oldSelf` is an optional, so that the rule also runs without an old value.
    pub optional_old_self: bool,
    /// Whether the rule compares with the old value.
    pub uses_old_self: bool,
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rule({})", self.program.source())
    }
}

impl Rule {
    /// Reads and compiles a rule; the problems name the field of the rule.
    pub(super) fn parse(json: &Value) -> Result<Self, Vec<(&'static str, String)>> {
        let text = |key: &str| json.get(key).and_then(Value::as_str).map(str::trim).filter(|t| !t.is_empty());
        let Some(source) = text("rule") else {
            return Err(vec![("rule", "Required value: rule is not specified".to_owned())]);
        };
        let program = compile(source).map_err(|message| vec![("rule", message)])?;
        let message_expression = text("messageExpression")
            .map(compile)
            .transpose()
            .map_err(|message| vec![("messageExpression", message)])?;
        let reason = match text("reason") {
            None | Some("FieldValueInvalid") => Cause::Invalid,
            Some("FieldValueForbidden") => Cause::Forbidden,
            Some("FieldValueRequired") => Cause::Required,
            Some("FieldValueDuplicate") => Cause::Duplicate,
            Some(other) => {
                let allowed = "\"FieldValueDuplicate\", \"FieldValueForbidden\", \"FieldValueInvalid\", \"FieldValueRequired\"";
                let message = format!("Unsupported value: {}: supported values: {allowed}", go::quote(other));
                return Err(vec![("reason", message)]);
            }
        };
        let uses_old_self = program.references().iter().any(|reference| reference.root == "oldSelf");
        Ok(Self {
            program,
            message: text("message").map(str::to_owned),
            message_expression,
            reason,
            field_path: text("fieldPath").unwrap_or_default().trim_start_matches('.').to_owned(),
            optional_old_self: json.get("optionalOldSelf").and_then(Value::as_bool).unwrap_or(false),
            uses_old_self,
        })
    }

    /// The rule as error messages call it.
    fn title(&self) -> &str {
        self.message.as_deref().unwrap_or(self.program.source())
    }
}

fn compile(source: &str) -> Result<Program, String> {
    let refuse =
        |detail: &str| format!("Invalid value: {}: compilation failed: {detail}", go::value(&source.into()));
    let program = ENV.compile(source).map_err(|errors| {
        let details: Vec<String> = errors.iter().map(|error| error.message.clone()).collect();
        refuse(&details.join("; "))
    })?;
    if program.uses_now() {
        return Err(refuse("`now()` is not available here: validation must not depend on the time"));
    }
    Ok(program)
}

/// The one evaluation error that people look for, in the words of the engine that Kubernetes uses.
fn go_wording(message: &str) -> String {
    let key = message.strip_prefix("no such key `").and_then(|rest| rest.strip_suffix('`'));
    key.map_or_else(|| message.to_owned(), |key| format!("no such key: {key}"))
}

/// Runs every rule of the schema on the object.
pub(super) fn validate(schema: &Schema, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut run = Run { errors: Vec::new(), evaluations: 0, exhausted: false, unchanged: false };
    run.node(schema, object, old, &Path::ROOT);
    run.errors
}

struct Run {
    errors: Vec<FieldError>,
    evaluations: u64,
    exhausted: bool,
    /// Whether the walk is inside a list that did not change as a whole; its elements may have no counterpart.
    unchanged: bool,
}

/// What a rule sees.
struct SelfScope<'v> {
    schema: &'v Schema,
    new: &'v Value,
    old: Option<&'v Value>,
    optional: bool,
}

impl Scope for SelfScope<'_> {
    fn get(&self, _name: &str) -> Option<&Value> {
        None
    }

    fn now(&self) -> Timestamp {
        // Rules that read the time are refused when they are compiled.
        Timestamp::UNIX_EPOCH
    }

    fn value(&self, name: &str) -> Option<kardinal_cel::Value<'_>> {
        match name {
            "self" => Some(view(self.schema, self.new)),
            "oldSelf" if self.optional => {
                let old = self.old.map(|old| view(self.schema, old).into());
                Some(kardinal_cel::Value::Optional(old))
            }
            "oldSelf" => self.old.map(|old| view(self.schema, old)),
            _ => None,
        }
    }
}

impl Run {
    fn node(&mut self, schema: &Schema, value: &Value, old: Option<&Value>, path: &Path<'_>) {
        if !schema.has_rules || value.is_null() || self.exhausted {
            return;
        }
        let old = old.filter(|old| !old.is_null());
        for rule in &schema.rules {
            self.rule(rule, schema, value, old, path);
            if self.exhausted {
                return;
            }
        }
        match value {
            Value::Object(map) => {
                for (name, value) in map {
                    let field = match (schema.properties.get(name), &schema.additional) {
                        (Some(property), _) => property,
                        (None, Additional::Schema(additional)) => additional,
                        (None, _) => continue,
                    };
                    // Components are parts of built-in kinds, which have no rules.
                    if let Some(field) = field.owned() {
                        self.node(field, value, old.and_then(|old| old.get(name)), &path.field(name));
                    }
                }
            }
            Value::Array(list) => {
                let Some(items) = &schema.items else { return };
                let outside = self.unchanged;
                self.unchanged |= old == Some(value);
                for (index, item) in list.iter().enumerate() {
                    let old = shape::correlated(schema, old, item);
                    self.node(items, item, old, &path.index(index));
                }
                self.unchanged = outside;
            }
            _ => {}
        }
    }

    fn rule(&mut self, rule: &Rule, schema: &Schema, value: &Value, old: Option<&Value>, path: &Path<'_>) {
        if rule.uses_old_self && old.is_none() && !rule.optional_old_self {
            return;
        }
        // A value that did not change was accepted before, perhaps under other rules.
        if !rule.uses_old_self && (self.unchanged || old == Some(value)) {
            return;
        }
        let scope = SelfScope { schema, new: value, old, optional: rule.optional_old_self };
        let ty = Value::from(schema.ty.map_or("", SchemaType::as_str));
        let result = rule.program.evaluate(&scope, &self.limits());
        let (kind, detail) = match result {
            Ok(answer) if answer.as_bool() == Some(true) => return,
            Ok(answer) if answer.as_bool().is_none() => (
                EvalErrorKind::Type,
                format!("the rule must evaluate to a bool, not {}: {}", answer.type_name(), rule.title()),
            ),
            Ok(_) => {
                let error = self.refused(rule, schema, value, &scope, path);
                self.errors.push(error);
                return;
            }
            Err(error) => {
                let message = go_wording(&error.message);
                (error.kind, format!("{message} evaluating rule: {}", rule.title()))
            }
        };
        if kind == EvalErrorKind::Budget {
            self.exhausted = true;
            let detail = format!(
                "no further validation rules will be run due to call cost exceeds limit for rule: {}",
                rule.title()
            );
            self.errors.push(FieldError::invalid(path, &ty, &detail));
        } else {
            self.errors.push(FieldError::invalid(path, &ty, &detail));
        }
    }

    fn refused(
        &mut self,
        rule: &Rule,
        schema: &Schema,
        value: &Value,
        scope: &SelfScope<'_>,
        path: &Path<'_>,
    ) -> FieldError {
        let computed = rule.message_expression.as_ref().and_then(|program| {
            let answer = program.evaluate(scope, &self.limits()).ok()?;
            let text = answer.as_str()?.trim().to_owned();
            (!text.is_empty() && !text.contains('\n')).then_some(text)
        });
        let detail = computed
            .or_else(|| rule.message.clone())
            .unwrap_or_else(|| format!("failed rule: {}", rule.program.source().trim()));
        let composite = matches!(schema.ty, Some(SchemaType::Object | SchemaType::Array) | None);
        let shown = (!composite).then_some(value);
        let place = match (path.is_root(), rule.field_path.as_str()) {
            (_, "") => path.to_string(),
            (true, field) => field.to_owned(),
            (false, field) if field.starts_with('[') => format!("{path}{field}"),
            (false, field) => format!("{path}.{field}"),
        };
        match rule.reason {
            Cause::Duplicate => FieldError::new(place, Cause::Duplicate, shown, ""),
            Cause::Invalid => FieldError::new(place, Cause::Invalid, shown, &detail),
            reason => FieldError::new(place, reason, None, &detail),
        }
    }

    fn limits(&mut self) -> Limits {
        self.evaluations += 1;
        let share = OBJECT_COST_LIMIT / self.evaluations;
        Limits { cost: share.clamp(MIN_COST_LIMIT, RULE_COST_LIMIT) }
    }
}
