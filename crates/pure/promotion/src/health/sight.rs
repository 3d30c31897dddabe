//! How far the health checks of a step see: what is told of an object is told to everybody who may read the step.

use super::{Adapter, Chosen, Target};

/// All namespaces, in the operator's list.
const ALL: &str = "*";

/// Which namespaces of this cluster a step may look at. On a cluster of its own the rights of the kubeconfig decide.
pub struct Sight<'a> {
    /// The namespace of the step.
    pub own: &'a str,
    /// The environment that it promotes to.
    pub environment: &'a str,
    /// The namespaces that the operator named besides the step's own; absent: those that the defaults of the health
    /// checks need.
    pub named: Option<&'a [String]>,
    /// Whether a namespace is the home of a team: there are Pipelines in it.
    pub is_home: &'a dyn Fn(&str) -> bool,
}

impl Sight<'_> {
    /// Leaves out the fallbacks that the step may not look at. Says why, when it may not look at the first choice.
    pub fn limit(&self, mut chosen: Chosen) -> Result<Chosen, String> {
        if !self.reaches(&chosen.target) {
            return Err(format!(
                "health may not look at {}: from namespace `{}` only that one is seen, {}; the operator names others \
                 with `--health-namespaces`",
                chosen.target,
                self.own,
                self.besides()
            ));
        }
        chosen.fallbacks.retain(|fallback| self.reaches(fallback));
        Ok(chosen)
    }

    fn reaches(&self, target: &Target) -> bool {
        let namespace = target.namespace.as_str();
        if namespace == self.own {
            return true;
        }
        match self.named {
            Some(named) => named.iter().any(|name| name == namespace || name == ALL),
            None => self.is_default(target.adapter, namespace),
        }
    }

    /// Whether this is where a health check looks that names no namespace. The name of an environment is the team's to
    /// choose, so it opens no namespace that belongs to another team or to the cluster.
    fn is_default(&self, adapter: Adapter, namespace: &str) -> bool {
        match (adapter, namespace) {
            (Adapter::ArgoCd, "argocd") | (Adapter::Flux, "flux-system") => true,
            _ => namespace == self.environment && !is_system(namespace) && !(self.is_home)(namespace),
        }
    }

    fn besides(&self) -> String {
        match self.named {
            Some([]) => "and none besides".to_owned(),
            Some(named) => format!("and `{}`", named.join("`, `")),
            None => format!(
                "that of the environment `{}` unless another team or the cluster has it, and `argocd` or `flux-system` \
                 for their own kinds",
                self.environment
            ),
        }
    }
}

/// Namespaces of the cluster itself and of kardinal.
fn is_system(namespace: &str) -> bool {
    namespace.starts_with("kube-") || namespace.starts_with("kardinal-")
}
