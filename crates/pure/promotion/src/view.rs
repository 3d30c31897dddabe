//! What there is to see, as plain data: the command line and the pages only lay it out.
//!
//! Each function takes objects as they were read and gives values that can be serialised, without colours, columns or
//! widths. Nothing is decided by whoever prints them.

mod arrival;
mod board;
mod bundles;
mod closed;
mod diff;
pub mod doctor;
mod gates;
mod history;
mod pipelines;
mod simulation;
mod steps;
mod tested;

pub use arrival::{Arrival, ArrivalState, arrival};
pub use board::{BoardRow, Next, Tone, board_row, last_row, new_row, next, until};
pub use bundles::{BundleRow, bundle_row, bundles};
pub use closed::closed;
pub use diff::{Difference, compare, diff};
pub use gates::{GateKind, GateRow, gate_problems, gate_row, gates};
pub use history::{GateTally, Past, PastOutcome, Rejection, history};
pub use pipelines::{Also, EnvironmentCell, Incoming, PipelineRow, Pipelines, pipelines};
pub use simulation::{GateAnswer, Simulation, SimulationQuestion, SimulationResult, simulate};
pub use steps::{RowKind, StepObjects, StepRow, Steps, steps};
pub use tested::{TestedGate, test_gates, unusable};
