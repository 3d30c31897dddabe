//! What there is to see, as plain data: the command line and the pages only lay it out.
//!
//! Each function takes objects as they were read and gives values that can be serialised, without colours, columns or
//! widths. Nothing is decided by whoever prints them.

mod bundles;
mod diff;
pub mod doctor;
mod gates;
mod history;
mod pipelines;
mod simulation;
mod steps;

pub use bundles::{BundleRow, bundle_row, bundles};
pub use diff::{Difference, compare, diff};
pub use gates::{GateKind, GateRow, gate_problems, gate_row, gates};
pub use history::{GateTally, Past, PastOutcome, Rejection, history};
pub use pipelines::{Also, EnvironmentCell, Incoming, PipelineRow, Pipelines, pipelines};
pub use simulation::{GateAnswer, Simulation, SimulationQuestion, SimulationResult, simulate};
pub use steps::{RowKind, StepObjects, StepRow, Steps, steps};
