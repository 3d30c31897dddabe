//! Policy: what a gate says about a Bundle, why, and until when.
//!
//! A gate is a CEL expression over a small context: `bundle`, `schedule`, `environment`, `previousBundle` and `now()`.
//! [`evaluate`] fails closed: whatever is not `true` holds the promotion, and the reason says which values led there.
//! It also looks ahead and tells the first instant at which the answer changes by itself, so that nobody has to poll.

mod attributes;
mod equality;
mod evaluate;
mod expression;
mod facts;
mod gate;
mod labels;
mod organisation;
mod overrides;
mod reason;
mod recheck;
mod samples;
mod tree;
mod truth;
mod when;
mod window;
mod world;

pub use evaluate::{Verdict, decide, evaluate};
pub use expression::check_expression;
pub use facts::{EnvironmentFacts, Facts, soak, version};
pub use gate::{
    FREEZE_LABEL, GATE_TEMPLATE_LABEL, GATE_TEMPLATE_NAMESPACE_LABEL, Scope, Target, applies_to, guards,
    is_freeze, is_skip_permission, is_template, names_something, scope,
};
pub use organisation::{is_organisations, shows_organisation, speaks_for_organisation};
pub use overrides::{Promotion, at_place, is_active, is_overridden};
pub use reason::detail;
pub use recheck::{check_recheck_interval, freshness, recheck_interval};
pub use when::{parse_when, time_zone};
pub use window::joint_window;
