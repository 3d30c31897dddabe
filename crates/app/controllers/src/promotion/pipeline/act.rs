//! There is nothing to do about a Pipeline: its Bundles act.

use std::convert::Infallible;

/// Carries out what nobody can plan.
pub(super) fn act(effect: &Infallible) {
    match *effect {}
}
