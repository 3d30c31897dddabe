//! Which object tells the health of an environment.

use kardinal_api::kardinal::{DeliveryDelegate, Health, HealthTarget, HealthType, PromotionStepSpec};

use super::{Adapter, Target};

/// What to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// The first choice.
    pub target: Target,
    /// What to look at instead when the first choice does not exist, best first.
    pub fallbacks: Vec<Target>,
    /// Why the first choice is not what was asked for.
    pub warning: Option<String>,
}

/// Chooses by `health.type`, else by `delivery.delegate`, else by what is installed: Argo CD, Flux, plain workload.
/// `installed` answers for an API version and a kind.
pub fn choose(spec: &PromotionStepSpec, installed: &dyn Fn(&str, &str) -> bool) -> Chosen {
    let none = Health::default();
    let health = spec.health.as_ref().unwrap_or(&none);
    let available = |adapter: Adapter| {
        let (api_version, kind) = serves(adapter);
        installed(api_version, kind)
    };
    let asked = health.kind.map(adapter).or_else(|| delegate(spec));
    let (adapter, warning) = match asked {
        Some(asked) if asked == Adapter::Resource || available(asked) => (asked, None),
        Some(asked) => {
            let (api_version, kind) = serves(asked);
            let warning = format!(
                "health is to be read by `{}`, but {kind} ({api_version}) is not installed here; \
                 install it or change `health.type`",
                asked.name()
            );
            (Adapter::Resource, Some(warning))
        }
        None => {
            let found = [Adapter::ArgoCd, Adapter::Flux].into_iter().find(|adapter| available(*adapter));
            (found.unwrap_or(Adapter::Resource), None)
        }
    };
    let fallbacks = match adapter {
        Adapter::ArgoCd | Adapter::Flux => vec![target(spec, health, Adapter::Resource)],
        Adapter::Resource | Adapter::ArgoRollouts | Adapter::Flagger => Vec::new(),
    };
    Chosen { target: target(spec, health, adapter), fallbacks, warning }
}

fn adapter(kind: HealthType) -> Adapter {
    match kind {
        HealthType::Resource => Adapter::Resource,
        HealthType::ArgoCd => Adapter::ArgoCd,
        HealthType::Flux => Adapter::Flux,
        HealthType::ArgoRollouts => Adapter::ArgoRollouts,
        HealthType::Flagger => Adapter::Flagger,
    }
}

fn delegate(spec: &PromotionStepSpec) -> Option<Adapter> {
    match spec.delivery.as_ref()?.delegate? {
        DeliveryDelegate::None => None,
        DeliveryDelegate::ArgoRollouts => Some(Adapter::ArgoRollouts),
        DeliveryDelegate::Flagger => Some(Adapter::Flagger),
    }
}

fn serves(adapter: Adapter) -> (&'static str, &'static str) {
    match adapter {
        Adapter::Resource => ("apps/v1", "Deployment"),
        Adapter::ArgoCd => ("argoproj.io/v1alpha1", "Application"),
        Adapter::Flux => ("kustomize.toolkit.fluxcd.io/v1", "Kustomization"),
        Adapter::ArgoRollouts => ("argoproj.io/v1alpha1", "Rollout"),
        Adapter::Flagger => ("flagger.app/v1beta1", "Canary"),
    }
}

fn target(spec: &PromotionStepSpec, health: &Health, adapter: Adapter) -> Target {
    let (api_version, kind) = serves(adapter);
    let named = |named: Option<&HealthTarget>, name: String, namespace: &str| {
        let named = named.cloned().unwrap_or(HealthTarget { name, namespace: None });
        (named.name, named.namespace.unwrap_or_else(|| namespace.to_owned()))
    };
    let environment = spec.environment.as_str();
    let both = format!("{}-{environment}", spec.pipeline);
    let (name, namespace) = match adapter {
        Adapter::Resource => return workload(spec, health),
        Adapter::ArgoCd => named(health.argocd.as_ref(), both, "argocd"),
        Adapter::Flux => named(health.flux.as_ref(), both, "flux-system"),
        Adapter::ArgoRollouts => named(health.argo_rollouts.as_ref(), spec.pipeline.clone(), environment),
        Adapter::Flagger => named(health.flagger.as_ref(), spec.pipeline.clone(), environment),
    };
    Target {
        adapter,
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        namespace,
        name: health.label_selector.is_empty().then_some(name),
        labels: health.label_selector.clone(),
        condition: None,
    }
}

fn workload(spec: &PromotionStepSpec, health: &Health) -> Target {
    let resource = health.resource.clone().unwrap_or_default();
    let kind = resource.kind.unwrap_or_else(|| "Deployment".to_owned());
    let api_version = match kind.as_str() {
        "Pod" | "Service" | "ReplicationController" => "v1",
        "Job" | "CronJob" => "batch/v1",
        _ => "apps/v1",
    };
    let name = resource.name.unwrap_or_else(|| spec.pipeline.clone());
    Target {
        adapter: Adapter::Resource,
        api_version: api_version.to_owned(),
        kind,
        namespace: resource.namespace.unwrap_or_else(|| spec.environment.clone()),
        name: health.label_selector.is_empty().then_some(name),
        labels: health.label_selector.clone(),
        condition: resource.condition,
    }
}
