//! Networks: ranges of addresses, and the address by which a peer is counted.

use std::net::{IpAddr, Ipv6Addr};

use delaymq_core::error::{Error, Result};

/// The bits of an IPv6 address that one customer of a provider has.
const COUNTED_BITS: u32 = 64;

/// Addresses that begin with the same bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Network {
    first: IpAddr,
    bits: u32,
}

impl Network {
    /// Reads `10.1.0.0/16`, `2001:db8::/32`, or one address.
    ///
    /// # Errors
    /// `InvalidArgument` naming `argument` if it is not a network, has bits behind its length, or is an IPv4 address
    /// written as IPv6, which no peer has.
    pub fn parse(argument: &'static str, text: &str) -> Result<Self> {
        let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let is_number = |bits: &str| !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
        let first = address.parse().ok().filter(|first: &IpAddr| first.to_canonical() == *first);
        let network = first.and_then(|first| {
            let bits_max = width(first);
            let bits = match bits {
                Some(bits) => Some(bits).filter(|bits| is_number(bits))?.parse().ok()?,
                None => bits_max,
            };
            (bits <= bits_max).then_some(Self { first, bits })
        });
        network.filter(|network| masked(network.first, network.bits) == network.first).ok_or_else(|| {
            let expected =
                "a network such as 10.1.0.0/16 or 2001:db8::/32, with no bits set behind its length".to_owned();
            Error::InvalidArgument { argument, expected, found: format!("{text:?}").chars().take(200).collect() }
        })
    }

    /// True for an address in it. An IPv4 address that a socket shows as IPv6 counts as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        width(address) == width(self.first) && masked(address, self.bits) == self.first
    }
}

const fn width(address: IpAddr) -> u32 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// An address with only so many leading bits; the others are zero.
fn masked(address: IpAddr, bits: u32) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32_u32.saturating_sub(bits)).unwrap_or(0);
            IpAddr::V4((address.to_bits() & mask).into())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128_u32.saturating_sub(bits)).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & mask))
        }
    }
}

/// The address by which a peer is counted: its IPv4 address, or the network of its IPv6 address.
pub(crate) fn counted(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        address @ IpAddr::V4(_) => address,
        address @ IpAddr::V6(_) => masked(address, COUNTED_BITS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str) -> Network {
        Network::parse("server.qmq_clients_from", text).unwrap()
    }

    fn contains(text: &str, address: &str) -> bool {
        network(text).contains(address.parse().unwrap())
    }

    #[test]
    fn a_network_has_the_addresses_that_begin_with_its_bits() {
        for (text, inside, outside) in [
            ("10.1.0.0/16", "10.1.255.255", "10.2.0.0"),
            ("10.1.0.0/16", "::ffff:10.1.2.3", "::ffff:10.2.2.3"),
            ("192.168.1.7", "192.168.1.7", "192.168.1.6"),
            ("192.168.1.6/31", "192.168.1.7", "192.168.1.5"),
            ("0.0.0.0/0", "255.255.255.255", "::1"),
            ("::/0", "ffff::", "1.2.3.4"),
            ("2001:db8::/32", "2001:db8:ffff::1", "2001:db9::"),
            ("2001:db8::1", "2001:db8::1", "2001:db8::2"),
            ("2001:db8::/127", "2001:db8::1", "2001:db8::2"),
        ] {
            assert!(contains(text, inside), "{text} {inside}");
            assert!(!contains(text, outside), "{text} {outside}");
        }
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for wrong in [
            "",
            "/",
            "10.0.0.0/",
            "10.0.0.0/33",
            "10.0.0.0/-1",
            "10.0.0.0/+8",
            "10.0.0.0/8/8",
            "10.0.0/8",
            "10.0.0.1/8",
            "::/129",
            "2001:db8::1/64",
            "::ffff:10.0.0.0/104",
            "::ffff:10.0.0.1",
            "host",
            "10.0.0.0 /8",
            "fe80::1%eth0",
            "10.0.0.0/99999999999",
        ] {
            let told = Network::parse("server.qmq_clients_from", wrong).unwrap_err().to_string();
            assert!(told.contains("server.qmq_clients_from"), "{wrong}: {told}");
        }
    }

    #[test]
    fn an_address_is_counted_with_those_of_its_owner() {
        let counted = |text: &str| counted(text.parse().unwrap()).to_string();
        assert_eq!(counted("10.0.0.1"), "10.0.0.1");
        assert_eq!(counted("::ffff:10.0.0.1"), "10.0.0.1");
        assert_eq!(counted("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(counted("::1"), "::");
    }
}
