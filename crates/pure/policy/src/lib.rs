//! Policy: what a gate says, why, and until when. It knows no dialect: each says with a [`Context`] what there is to ask about.
//!
//! A gate is a CEL expression over such a context, `schedule` and `now()`. [`evaluate`] fails closed: whatever is not `true`
//! holds, and the reason says which values led there. It also looks ahead and tells the first instant at which the answer
//! changes by itself, so that nobody has to poll.

mod chain;
mod context;
mod decision;
mod elapsed;
mod equality;
mod evaluate;
mod expression;
mod gate;
mod labels;
mod language;
mod organisation;
mod overrides;
mod reason;
mod recheck;
mod samples;
mod schedule;
mod shape;
mod tree;
mod truth;
mod when;

pub use chain::{Question, all, joint_window};
pub use context::Context;
pub use decision::{CLOSED, Decision, Verdict};
pub use elapsed::Elapsed;
pub use evaluate::{decide, detail, evaluate};
pub use expression::{Need, Reads, check_expression, reads_of};
pub use gate::{
    FREEZE_LABEL, GATE_TEMPLATE_LABEL, GATE_TEMPLATE_NAMESPACE_LABEL, Scope, Target, applies_to, guards,
    is_freeze, is_skip_permission, is_template, names_something, scope,
};
pub use organisation::{is_organisations, shows_organisation, speaks_for_organisation};
pub use overrides::{Promotion, at_place, is_active, is_overridden};
pub use recheck::{check_recheck_interval, freshness, recheck_interval};
pub use schedule::SCHEDULE;
pub use shape::{Attribute, Shape, Unit};
pub use when::{parse_when, time_zone};
