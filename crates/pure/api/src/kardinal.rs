//! `kardinal.io/v1alpha1`: what is promoted, through which environments, and under which gates.

mod bundle;
mod environment;
mod evidence;
mod pipeline;
mod policy_gate;
mod promotion_step;

use kube::CustomResourceExt as _;

use crate::crds::with_label_names;
use crate::group::{ApiGroup, CHANGE, Holder, READ, REPORT, Right, WRITE};

pub use bundle::{
    Artifacts, Bundle, BundleFailure, BundleIntent, BundlePhase, BundleSpec, BundleStatus, BundleType,
    DeletedPredecessor, EnvironmentStatus, GitCommit, IMAGE_MESSAGE, ImageArtifact, Provenance,
};
pub use environment::{
    Approval, Delivery, DeliveryDelegate, Environment, GitLayout, GitProvider, Health, HealthResource,
    HealthTarget, HealthType, HelmUpdate, OnReject, PromotionTask, Update, UpdateStrategy,
};
pub use evidence::{Evidence, GateEvidence, GateResult};
pub use pipeline::{
    Pipeline, PipelineGit, PipelinePhase, PipelineSpec, PipelineStatus, Predecessor, Presence,
    SecretReference,
};
pub use policy_gate::{GateOverride, GateStage, PolicyGate, PolicyGateSpec, PolicyGateStatus};
pub use promotion_step::{
    PromotionState, PromotionStep, PromotionStepGit, PromotionStepSpec, PromotionStepStatus, TaskState,
    TaskStatus,
};

/// The API group of the promotion kinds.
pub const GROUP: &str = "kardinal.io";
/// The version that is served and stored.
pub const VERSION: &str = "v1alpha1";

const KINDS: &[&str] = &["pipelines", "bundles", "promotionsteps", "policygates"];

/// What the group brings along.
pub(crate) const API_GROUP: ApiGroup = ApiGroup {
    name: GROUP,
    crds: || vec![with_label_names(Pipeline::crd()), Bundle::crd(), PromotionStep::crd(), PolicyGate::crd()],
    rights: &[
        Right { who: Holder::Controllers, resources: &["pipelines", "bundles"], verbs: WRITE },
        Right {
            who: Holder::Controllers,
            resources: &["promotionsteps"],
            verbs: &["get", "list", "watch", "create", "update", "patch"],
        },
        Right { who: Holder::Controllers, resources: &["policygates"], verbs: READ },
        Right {
            who: Holder::Controllers,
            resources: &["pipelines/status", "bundles/status", "promotionsteps/status", "policygates/status"],
            verbs: REPORT,
        },
        Right { who: Holder::Graphs, resources: KINDS, verbs: WRITE },
        Right { who: Holder::Viewers, resources: KINDS, verbs: READ },
        Right { who: Holder::Editors, resources: &["pipelines", "bundles", "policygates"], verbs: CHANGE },
    ],
};

/// Names the Pipeline that a Bundle, step or gate instance belongs to.
pub const PIPELINE_LABEL: &str = "kardinal.io/pipeline";
/// Names the Bundle that a step or gate instance belongs to.
pub const BUNDLE_LABEL: &str = "kardinal.io/bundle";
/// Names the environment that a step or gate instance belongs to.
pub const ENVIRONMENT_LABEL: &str = "kardinal.io/environment";
/// Names the agent that executes a step; a step without it is executed by the control plane.
pub const SHARD_LABEL: &str = "kardinal.io/shard";
/// Says who a gate template speaks for: `org` or `team`.
pub const SCOPE_LABEL: &str = "kardinal.io/scope";
/// Names the one environment that a gate template guards; several go into `spec.appliesTo`.
pub const APPLIES_TO_LABEL: &str = "kardinal.io/applies-to";
/// Says what a gate template is: `gate` or `skip-permission`.
pub const TYPE_LABEL: &str = "kardinal.io/type";
/// The annotation that keeps a Bundle from being superseded when it is `"true"`.
pub const PIN_ANNOTATION: &str = "kardinal.io/pin";
/// The annotation of a step whose change asks for a fresh look at its pull request.
pub const REFRESH_ANNOTATION: &str = "kardinal.io/refresh";
