//! Looks up names for every connection to the outside, and hands out only addresses that may be connected to.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper_util::client::legacy::connect::dns;
use kardinal_reach::Policy;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tower::{BoxError, Service};

/// A resolver under a policy, for every client. A name that leads somewhere forbidden is refused when the connection is
/// made, so that it cannot be pointed elsewhere in between.
#[derive(Debug, Clone)]
pub struct Resolver(Policy);

impl Resolver {
    /// Judges every address by this policy.
    pub fn new(policy: Policy) -> Resolver {
        Resolver(policy)
    }

    /// The addresses of a host that may be connected to.
    pub(crate) async fn look_up(self, host: String) -> Result<Vec<SocketAddr>, BoxError> {
        let found = tokio::net::lookup_host((host.as_str(), 0)).await?;
        Ok(self.0.among(&host, found)?)
    }
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let found = self.clone().look_up(name.as_str().to_owned());
        Box::pin(async move { Ok(Box::new(found.await?.into_iter()) as Addrs) })
    }
}

impl Service<dns::Name> for Resolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: dns::Name) -> Self::Future {
        let found = self.clone().look_up(name.as_str().to_owned());
        Box::pin(async move { Ok(found.await?.into_iter()) })
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
