//! What an address stands for.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What stands behind an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sort {
    /// Some other machine, in public or in a private network.
    Ordinary,
    /// This machine.
    Loopback,
    /// A neighbour on the same wire.
    LinkLocal,
    /// The service that hands out a machine's credentials.
    Metadata,
    /// No single machine: unspecified, broadcast or multicast.
    Nowhere,
}

impl fmt::Display for Sort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Sort::Ordinary => "an ordinary address",
            Sort::Loopback => "this machine itself",
            Sort::LinkLocal => "a link-local address",
            Sort::Metadata => "the metadata service of a machine",
            Sort::Nowhere => "not the address of a machine",
        })
    }
}

/// Metadata services of the clouds that are not link-local: Alibaba's and Oracle's.
const METADATA_V4: [Ipv4Addr; 2] = [Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(192, 0, 0, 192)];
/// Amazon's over IPv6, and Google's.
const METADATA_V6: [Ipv6Addr; 2] =
    [Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254), Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)];

impl Sort {
    /// Sorts an address, also one of IPv4 that is written as one of IPv6.
    pub fn of(address: IpAddr) -> Sort {
        match address {
            IpAddr::V4(four) => of_four(four),
            IpAddr::V6(six) => match inside(six) {
                Some(four) => of_four(four),
                None => of_six(six),
            },
        }
    }
}

fn of_four(four: Ipv4Addr) -> Sort {
    let [first, ..] = four.octets();
    if four == Ipv4Addr::new(169, 254, 169, 254) || METADATA_V4.contains(&four) {
        Sort::Metadata
    } else if four.is_loopback() {
        Sort::Loopback
    } else if four.is_link_local() {
        Sort::LinkLocal
    } else if first == 0 || four.is_broadcast() || four.is_multicast() {
        Sort::Nowhere
    } else {
        Sort::Ordinary
    }
}

fn of_six(six: Ipv6Addr) -> Sort {
    if METADATA_V6.contains(&six) {
        Sort::Metadata
    } else if six.is_loopback() {
        Sort::Loopback
    } else if six.is_unicast_link_local() {
        Sort::LinkLocal
    } else if six.is_unspecified() || six.is_multicast() {
        Sort::Nowhere
    } else {
        Sort::Ordinary
    }
}

/// The address of IPv4 that an address of IPv6 leads to: mapped, compatible, translated (NAT64) or tunnelled (6to4).
fn inside(six: Ipv6Addr) -> Option<Ipv4Addr> {
    let low = |a: u16, b: u16| {
        let ([a, b], [c, d]) = (a.to_be_bytes(), b.to_be_bytes());
        Ipv4Addr::new(a, b, c, d)
    };
    match six.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => None,
        [0, 0, 0, 0, 0, 0xffff | 0, a, b] | [0x64, 0xff9b, 0, 0, 0, 0, a, b] | [0x2002, a, b, ..] => {
            Some(low(a, b))
        }
        _ => None,
    }
}
