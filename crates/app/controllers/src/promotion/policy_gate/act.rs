//! There is nothing to do about a gate: others wait for it.

use std::convert::Infallible;

/// Carries out what nobody can plan.
pub(super) fn act(effect: &Infallible) {
    match *effect {}
}
