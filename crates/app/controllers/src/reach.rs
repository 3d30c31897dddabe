//! Looks up names for every connection to the outside, and hands out only addresses that may be connected to.

use kardinal_reach::Policy;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// A resolver under a policy. A name that leads somewhere forbidden is refused when the connection is made, so that it
/// cannot be pointed elsewhere in between.
#[derive(Debug, Clone)]
pub struct Resolver(Policy);

impl Resolver {
    /// Judges every address by this policy.
    pub fn new(policy: Policy) -> Resolver {
        Resolver(policy)
    }
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let policy = self.0.clone();
        Box::pin(async move {
            let host = name.as_str();
            let (mut allowed, mut refused) = (Vec::new(), None);
            for address in tokio::net::lookup_host((host, 0)).await? {
                match policy.check_address(host, address.ip()) {
                    Ok(()) => allowed.push(address),
                    Err(reason) => refused = Some(reason),
                }
            }
            match (allowed.is_empty(), refused) {
                (true, Some(reason)) => Err(reason.into()),
                _ => Ok(Box::new(allowed.into_iter()) as Addrs),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use kardinal_reach::Hosts;

    use super::*;

    async fn addresses(policy: Policy) -> Result<usize, String> {
        let name = "localhost".parse().unwrap();
        Resolver::new(policy).resolve(name).await.map(Iterator::count).map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn a_name_that_leads_to_loopback_has_no_address_on_a_cluster() {
        let told = addresses(Policy::cluster(Hosts::default())).await.unwrap_err();
        assert!(told.contains("this machine itself"), "{told}");
        assert!(addresses(Policy::machine(Hosts::default())).await.unwrap() > 0);
        let named = Hosts::parse("localhost:3000").unwrap();
        assert!(addresses(Policy::cluster(named)).await.unwrap() > 0);
    }
}
