//! Graphs, which promotions and others are made of.

use super::{Kind, facets};
use crate::GraphController;
use crate::dialect::{Dialect, Starter};
use crate::reconcile::pass::Controller;

pub(crate) const DIALECT: Dialect = Dialect { facets: facets::FACETS, start };

fn start(starter: &mut Starter<'_>) {
    if starter.plans_here() && starter.settings.graph_controller == GraphController::Embedded {
        let graphs = Controller::new(Kind::new(starter.context.clone(), starter.settings.graph_scope));
        starter.start_fair(graphs, starter.settings.concurrency);
    }
}
