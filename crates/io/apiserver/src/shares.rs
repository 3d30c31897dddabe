//! Something that there is only so much of, and of which no peer gets everything.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

/// Hands out shares: so many in all, and so many to one peer.
#[derive(Debug)]
pub(crate) struct Shares {
    total: usize,
    per_peer: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    by_peer: BTreeMap<IpAddr, usize>,
}

/// What one holder has; it goes back when this is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    shares: Arc<Shares>,
    peer: IpAddr,
    amount: usize,
}

impl Shares {
    pub(crate) fn new(total: usize, per_peer: usize) -> Arc<Shares> {
        Arc::new(Shares { total, per_peer, taken: Mutex::default() })
    }

    /// A share that holds nothing yet.
    pub(crate) fn none(self: &Arc<Shares>, peer: IpAddr) -> Share {
        Share { shares: self.clone(), peer: network(peer), amount: 0 }
    }

    /// One share, unless there is none left for this peer.
    pub(crate) fn one(self: &Arc<Shares>, peer: IpAddr) -> Option<Share> {
        let mut share = self.none(peer);
        share.grow(1).then_some(share)
    }

    /// How much is taken in all.
    pub(crate) fn taken(&self) -> usize {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).all
    }
}

impl Share {
    /// Takes more, or nothing if that is not left.
    pub(crate) fn grow(&mut self, amount: usize) -> bool {
        let mut taken = self.shares.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let all = taken.all.saturating_add(amount);
        let own = taken.by_peer.get(&self.peer).copied().unwrap_or_default().saturating_add(amount);
        if all > self.shares.total || own > self.shares.per_peer {
            return false;
        }
        taken.all = all;
        taken.by_peer.insert(self.peer, own);
        self.amount = self.amount.saturating_add(amount);
        true
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut taken = self.shares.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.all = taken.all.saturating_sub(self.amount);
        let own = taken.by_peer.get(&self.peer).copied().unwrap_or_default().saturating_sub(self.amount);
        match own {
            0 => taken.by_peer.remove(&self.peer),
            own => taken.by_peer.insert(self.peer, own),
        };
    }
}

/// What counts as one peer: whoever has an IPv6 address has all 2⁶⁴ of its network.
fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn no_peer_gets_everything() {
        let shares = Shares::new(3, 2);
        let held = [shares.one(peer("10.0.0.1")).unwrap(), shares.one(peer("::ffff:10.0.0.1")).unwrap()];
        assert!(shares.one(peer("10.0.0.1")).is_none(), "its own are used up");
        let other = shares.one(peer("10.0.0.2")).unwrap();
        assert!(shares.one(peer("10.0.0.3")).is_none(), "all are used up");
        drop(held);
        assert_eq!(shares.taken(), 1);
        assert!(shares.one(peer("10.0.0.1")).is_some());
        drop(other);
        assert_eq!(shares.taken(), 0);
        assert!(shares.taken.lock().unwrap().by_peer.is_empty(), "nobody is remembered");
    }

    #[test]
    fn a_whole_network_is_one_peer() {
        let shares = Shares::new(10, 1);
        let _first = shares.one(peer("2001:db8::1")).unwrap();
        assert!(shares.one(peer("2001:db8::2")).is_none());
        assert!(shares.one(peer("2001:db8:0:1::1")).is_some());
    }

    #[test]
    fn a_share_that_cannot_grow_keeps_what_it_has() {
        let shares = Shares::new(100, 60);
        let mut share = shares.none(peer("10.0.0.1"));
        assert!(share.grow(50) && !share.grow(11) && share.grow(10));
        assert_eq!(shares.taken(), 60);
        assert!(!share.grow(usize::MAX));
        drop(share);
        assert_eq!(shares.taken(), 0);
    }
}
