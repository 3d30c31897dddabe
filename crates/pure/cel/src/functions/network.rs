//! IP addresses and networks. Nothing here resolves a name or reaches a network.

use std::any::Any;
use std::net::IpAddr;
use std::sync::Arc;

use super::{Library, global, method, no_overload};
use crate::budget::{Context, excerpt};
use crate::fault::{Fault, argument};
use crate::value::{Opaque, Value};

pub(super) const LIBRARY: Library = Library {
    types: &["net.IP", "net.CIDR"],
    functions: &[
        global("ip", 1, ip),
        global("isIP", 1, is_ip),
        global("ip.isCanonical", 1, is_canonical),
        global("cidr", 1, cidr),
        global("isCIDR", 1, is_cidr),
        method("family", 0, family),
        method("isUnspecified", 0, |_, args| {
            question("isUnspecified", args, |address| address.is_unspecified())
        }),
        method("isLoopback", 0, |_, args| question("isLoopback", args, |address| address.is_loopback())),
        method("isGlobalUnicast", 0, |_, args| question("isGlobalUnicast", args, is_global_unicast)),
        method("isLinkLocalUnicast", 0, |_, args| {
            question("isLinkLocalUnicast", args, is_link_local_unicast)
        }),
        method("isLinkLocalMulticast", 0, |_, args| {
            question("isLinkLocalMulticast", args, is_link_local_multicast)
        }),
        method("containsIP", 1, contains_ip),
        method("containsCIDR", 1, contains_cidr),
        method("ip", 0, address_of),
        method("masked", 0, masked),
        method("prefixLength", 0, prefix_length),
    ],
};

/// The longest text that is an address or a network; longer ones need not be looked at.
const MAX_TEXT: usize = 64;

/// An address.
#[derive(Clone, Copy, Debug)]
struct Ip(IpAddr);

/// An address and how many of its leading bits name the network.
#[derive(Clone, Copy, Debug)]
struct Cidr {
    address: IpAddr,
    prefix: u8,
}

impl Opaque for Ip {
    fn type_name(&self) -> &'static str {
        "net.IP"
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        let other = other.as_any().downcast_ref::<Ip>();
        other.is_some_and(|other| self.0.to_canonical() == other.0.to_canonical())
    }

    fn text(&self) -> Option<String> {
        Some(self.0.to_string())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Opaque for Cidr {
    fn type_name(&self) -> &'static str {
        "net.CIDR"
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        let other = other.as_any().downcast_ref::<Cidr>();
        other.is_some_and(|other| self.address == other.address && self.prefix == other.prefix)
    }

    fn text(&self) -> Option<String> {
        Some(format!("{}/{}", self.address, self.prefix))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn parse_ip(text: &str) -> Option<Ip> {
    // An IPv4 address written inside of an IPv6 one is refused: it is ambiguous which of the two is meant.
    let mixed = text.contains(':') && text.contains('.');
    if mixed || text.len() > MAX_TEXT { None } else { text.parse().ok().map(Ip) }
}

fn parse_cidr(text: &str) -> Option<Cidr> {
    let (address, prefix) = text.split_once('/')?;
    let Ip(address) = parse_ip(address)?;
    let plain = !prefix.is_empty() && prefix.bytes().all(|byte| byte.is_ascii_digit());
    let canonical = prefix == "0" || !prefix.starts_with('0');
    let prefix: u8 = if plain && canonical { prefix.parse().ok()? } else { return None };
    (prefix <= bits(address)).then_some(Cidr { address, prefix })
}

fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// The address with the bits after the prefix cleared.
fn mask(address: IpAddr, prefix: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(prefix.min(32))).unwrap_or(0);
            IpAddr::V4((address.to_bits() & mask).into())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(prefix.min(128))).unwrap_or(0);
            IpAddr::V6((address.to_bits() & mask).into())
        }
    }
}

impl Cidr {
    fn contains(self, address: IpAddr) -> bool {
        self.address.is_ipv4() == address.is_ipv4()
            && mask(self.address, self.prefix) == mask(address, self.prefix)
    }
}

fn not_an_ip(text: &str) -> Fault {
    argument(format!("`{}` is not an IP address; write it like `192.0.2.1` or `2001:db8::1`", excerpt(text)))
}

fn not_a_cidr(text: &str) -> Fault {
    argument(format!("`{}` is not a network; write it like `192.0.2.0/24` or `2001:db8::/32`", excerpt(text)))
}

fn opaque<'a, T: Copy + 'static>(value: &Value<'a>) -> Option<T> {
    match value {
        Value::Opaque(opaque) => opaque.as_any().downcast_ref::<T>().copied(),
        _ => None,
    }
}

fn ip<'a>(_: &mut Context, args: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    match args {
        [Value::String(text)] => {
            let ip = parse_ip(text).ok_or_else(|| not_an_ip(text))?;
            Ok(Value::Opaque(Arc::new(ip)))
        }
        [value] if opaque::<Ip>(value).is_some() => Ok(value.clone()),
        _ => Err(no_overload("ip", args)),
    }
}

fn is_ip<'a>(_: &mut Context, args: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    match args {
        [Value::String(text)] => Ok(Value::Bool(parse_ip(text).is_some())),
        _ => Err(no_overload("isIP", args)),
    }
}

fn is_canonical<'a>(_: &mut Context, args: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    match args {
        [Value::String(text)] => {
            let Ip(address) = parse_ip(text).ok_or_else(|| not_an_ip(text))?;
            Ok(Value::Bool(address.to_string() == **text))
        }
        _ => Err(no_overload("ip.isCanonical", args)),
    }
}

fn cidr<'a>(_: &mut Context, args: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    match args {
        [Value::String(text)] => {
            let cidr = parse_cidr(text).ok_or_else(|| not_a_cidr(text))?;
            Ok(Value::Opaque(Arc::new(cidr)))
        }
        [value] if opaque::<Cidr>(value).is_some() => Ok(value.clone()),
        _ => Err(no_overload("cidr", args)),
    }
}

fn is_cidr<'a>(_: &mut Context, args: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    match args {
        [Value::String(text)] => Ok(Value::Bool(parse_cidr(text).is_some())),
        _ => Err(no_overload("isCIDR", args)),
    }
}

fn family<'a>(_: &mut Context, args: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    match args.first().and_then(opaque::<Ip>) {
        Some(Ip(address)) => Ok(Value::Int(if address.is_ipv4() { 4 } else { 6 })),
        None => Err(no_overload("family", args)),
    }
}

fn question<'a>(name: &str, args: &[Value<'a>], holds: fn(IpAddr) -> bool) -> Result<Value<'a>, Fault> {
    match args.first().and_then(opaque::<Ip>) {
        Some(Ip(address)) => Ok(Value::Bool(holds(address))),
        None => Err(no_overload(name, args)),
    }
}

fn is_global_unicast(address: IpAddr) -> bool {
    let broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    let special = address.is_unspecified() || address.is_loopback() || address.is_multicast() || broadcast;
    !special && !is_link_local_unicast(address)
}

fn is_link_local_unicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

fn is_link_local_multicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.octets().starts_with(&[224, 0, 0]),
        IpAddr::V6(address) => address.segments().first().is_some_and(|first| first & 0xff0f == 0xff02),
    }
}

fn contains_ip<'a>(_: &mut Context, args: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    let [network, address] = args else { return Err(no_overload("containsIP", args)) };
    let parsed = match address {
        Value::String(text) => Some(parse_ip(text).ok_or_else(|| not_an_ip(text))?),
        other => opaque::<Ip>(other),
    };
    match (opaque::<Cidr>(network), parsed) {
        (Some(network), Some(Ip(address))) => Ok(Value::Bool(network.contains(address))),
        _ => Err(no_overload("containsIP", args)),
    }
}

fn contains_cidr<'a>(_: &mut Context, args: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    let [network, inner] = args else { return Err(no_overload("containsCIDR", args)) };
    let parsed = match inner {
        Value::String(text) => Some(parse_cidr(text).ok_or_else(|| not_a_cidr(text))?),
        other => opaque::<Cidr>(other),
    };
    match (opaque::<Cidr>(network), parsed) {
        (Some(network), Some(inner)) => {
            Ok(Value::Bool(network.prefix <= inner.prefix && network.contains(inner.address)))
        }
        _ => Err(no_overload("containsCIDR", args)),
    }
}

fn address_of<'a>(_: &mut Context, args: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    match args.first().and_then(opaque::<Cidr>) {
        Some(network) => Ok(Value::Opaque(Arc::new(Ip(network.address)))),
        None => Err(no_overload("ip", args)),
    }
}

fn masked<'a>(_: &mut Context, args: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    match args.first().and_then(opaque::<Cidr>) {
        Some(Cidr { address, prefix }) => {
            Ok(Value::Opaque(Arc::new(Cidr { address: mask(address, prefix), prefix })))
        }
        None => Err(no_overload("masked", args)),
    }
}

fn prefix_length<'a>(_: &mut Context, args: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    match args.first().and_then(opaque::<Cidr>) {
        Some(network) => Ok(Value::Int(i64::from(network.prefix))),
        None => Err(no_overload("prefixLength", args)),
    }
}
