//! The local forge.

use super::{Controller, facets};
use crate::dialect::{Dialect, Starter};
use crate::reconcile::driver;

pub(crate) const DIALECT: Dialect = Dialect { facets: facets::FACETS, start };

fn start(starter: &mut Starter<'_>) {
    let Some(local) = starter.local.take() else { return };
    let controller = Controller::new(starter.context.clone(), local);
    let forge = driver::spawn(controller, starter.settings.concurrency, starter.stop, starter.tasks);
    starter.started.listeners.push(forge.clone());
    starter.started.forge = Some(forge);
}
