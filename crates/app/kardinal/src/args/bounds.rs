//! What the controllers may reach, and how much of it they read.

use clap::Args;
use kardinal_git::Limits;
use kardinal_reach::{Hosts, Pattern, Policy};

use super::names::namespace_or_all;
use crate::outside::Bounds;

#[derive(Debug, Args)]
pub(crate) struct BoundsArguments {
    /// The only hosts that may be reached for Git, forges and custom tasks: `github.com`, `git.example.com:3000`,
    /// `*.example.com`; absent: all but this machine, link-local addresses and metadata services (`kardinal up`
    /// reaches this machine, too)
    #[arg(long, value_name = "HOST", value_delimiter = ',', value_parser = Pattern::parse)]
    pub(crate) allowed_hosts: Vec<Pattern>,
    /// The only namespaces whose objects health checks look at, besides that of their Pipeline; `*` for all; absent: that
    /// of the environment's name unless another team or the cluster has it, and `argocd` and `flux-system` for their
    /// own kinds (`kardinal up`: all)
    #[arg(long, value_name = "NAMESPACE", value_delimiter = ',', value_parser = namespace_or_all)]
    pub(crate) health_namespaces: Option<Vec<String>>,
    /// The largest object of a repository that is read, in bytes or as `64Mi`
    #[arg(long, value_name = "SIZE", default_value = "64Mi", value_parser = size)]
    pub(crate) git_object_limit: u64,
    /// The most that one fetch from a repository may bring, in bytes or as `1Gi`
    #[arg(long, value_name = "SIZE", default_value = "1Gi", value_parser = size)]
    pub(crate) git_pack_limit: u64,
}

impl BoundsArguments {
    /// For a controller that serves many people.
    pub(crate) fn on_a_cluster(&self) -> Bounds {
        Bounds { reach: Policy::cluster(self.hosts()), limits: self.limits() }
    }

    /// For the one who started the program.
    pub(crate) fn on_this_machine(&self) -> Bounds {
        Bounds { reach: Policy::machine(self.hosts()), limits: self.limits() }
    }

    fn hosts(&self) -> Hosts {
        self.allowed_hosts.clone().into()
    }

    fn limits(&self) -> Limits {
        Limits { object: self.git_object_limit, pack: self.git_pack_limit }
    }
}

/// A number of bytes, `Ki`, `Mi` or `Gi`.
fn size(text: &str) -> Result<u64, String> {
    let units = [("Ki", 1u64 << 10), ("Mi", 1 << 20), ("Gi", 1 << 30)];
    let unit = units.iter().find_map(|(unit, factor)| text.strip_suffix(unit).map(|rest| (rest, *factor)));
    let (number, factor) = unit.unwrap_or((text, 1));
    let size = number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    size.filter(|size| *size >= 1 << 20).ok_or_else(|| {
        "a size is a number of bytes, at least `1Mi`; `Ki`, `Mi` and `Gi` may follow it".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        assert_eq!(size("64Mi"), Ok(64 << 20));
        assert_eq!(size("1Gi"), Ok(1 << 30));
        assert_eq!(size("2097152"), Ok(2 << 20));
        for wrong in ["", "0", "64", "64M", "-1", "Mi", "99999999999999999Gi"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }
}
