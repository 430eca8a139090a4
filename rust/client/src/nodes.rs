//! The nodes of a client: which one it connects to next, and whether it waits first. Without a socket and a clock.
//!
//! Enter: the addresses that the client was given, and how each connection ended. Leave: the next address.
//!
//! A *round* tries each node once, without a delay between two of them; it begins with the node that worked last. A
//! delay follows the round, longer after each. A node that is not the primary may name the primary, which is tried
//! next, also if it is not among the addresses. No round tries a node twice, and only a few names are followed in a
//! round: nodes that name each other, or ever new ones, do not keep a client busy.

use std::net::Ipv6Addr;

use delaymq_core::wire::extension::errors::{Attribute, RemoteError, Value};

use crate::failure::Failure;

/// While a primary is awaited, the delays do not grow beyond that of this round, which is 200 ms: a failover takes seconds.
const AWAITED_ROUNDS_MAX: u32 = 3;
/// How many names of a primary are followed in one round.
const FOLLOWED_MAX: u32 = 8;
/// A node that was used for so long has worked, also if it is not the primary any more.
const WORKED_MS: u64 = 5_000;
/// The longest name of a host that a server may name, in bytes.
const HOST_BYTES_MAX: usize = 253;

/// Where a server listens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Address {
    /// A name in ASCII, or an IP address without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// As errors show it.
    pub shown: String,
}

impl Address {
    /// The address that a server gave, `host:port`; `None` if it is anything else.
    fn of_server(text: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
        let port = port.parse().ok().filter(|port| is_number && *port != 0)?;
        let host = match host.strip_prefix('[') {
            Some(rest) => rest.strip_suffix(']').filter(|host| host.parse::<Ipv6Addr>().is_ok())?,
            None => Some(host).filter(|host| is_name(host))?,
        };
        Some(Self { host: host.to_owned(), port, shown: format!("delaymq://{text}") })
    }

    fn is(&self, other: &Self) -> bool {
        self.port == other.port && self.host.eq_ignore_ascii_case(&other.host)
    }
}

fn is_name(host: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    (1..=HOST_BYTES_MAX).contains(&host.len()) && host.bytes().all(is_part)
}

/// The continuation after a connection that ended, or could not be made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Next {
    /// Another node is tried at once.
    AtOnce,
    /// A round is over. A delay comes first. With the error of the round.
    AfterDelay(Failure),
}

/// See the module.
#[derive(Debug)]
pub struct Nodes {
    /// The addresses that the client was given; the node that worked last is the first.
    listed: Vec<Address>,
    current: Address,
    /// The nodes that this round has tried, without the current one.
    tried: Vec<Address>,
    followed: u32,
    /// When the present connection was made.
    connected_ms: u64,
    /// A node has answered a hello.
    has_opened: bool,
    /// The delay that comes before the next connection, counted from 1 after a node that worked; 0 for none.
    delay: u32,
    rounds: u32,
    /// A node of this round has answered that it is not the primary: another one will soon be.
    is_awaited: bool,
    /// The error of this round that says most, and its rank.
    cause: Option<(u8, Failure)>,
}

impl Nodes {
    /// The nodes at these addresses.
    pub fn new(first: Address, others: Vec<Address>) -> Self {
        let mut listed = vec![first.clone()];
        listed.extend(others);
        Self {
            listed,
            current: first,
            tried: Vec::new(),
            followed: 0,
            connected_ms: 0,
            has_opened: false,
            delay: 0,
            rounds: 0,
            is_awaited: false,
            cause: None,
        }
    }

    /// The node to connect to, or that is connected.
    pub const fn current(&self) -> &Address {
        &self.current
    }

    /// The number of addresses that the client was given.
    pub fn count(&self) -> u32 {
        u32::try_from(self.listed.len()).unwrap_or(u32::MAX)
    }

    /// The delay before the next connection: 1 for the first after a node that worked, and so on; `None` for none.
    pub fn delay(&self) -> Option<u32> {
        Some(self.delay).filter(|delay| *delay > 0)
    }

    /// The current node is connected.
    pub fn connected(&mut self, now_ms: u64) {
        self.connected_ms = now_ms;
    }

    /// The connection to the current node ended, or could not be made. `was_ready`: the node had answered the hello.
    pub fn ended(&mut self, was_ready: bool, cause: &Failure, now_ms: u64) -> Next {
        self.has_opened |= was_ready;
        let said = cause.not_primary();
        let used_ms = now_ms.saturating_sub(self.connected_ms);
        if was_ready && (said.is_none() || used_ms >= WORKED_MS) {
            self.rounds = 0;
            self.begin_round();
        }
        if was_ready && said.is_none() {
            if let Some(place) = self.listed.iter().position(|node| node.is(&self.current)) {
                self.listed.rotate_left(place);
            }
            return self.after_delay(cause.clone());
        }
        self.is_awaited |= said.is_some();
        self.note(cause);
        self.tried.push(self.current.clone());
        if let Some(next) = said.and_then(|error| self.named_by(error)).or_else(|| self.next_listed()) {
            (self.current, self.delay) = (next, 0);
            return Next::AtOnce;
        }
        let cause = self.cause.take().map_or_else(|| cause.clone(), |(_, cause)| cause);
        let rounds_max = if self.is_awaited { AWAITED_ROUNDS_MAX } else { u32::MAX };
        self.rounds = self.rounds.min(rounds_max.saturating_sub(1));
        self.begin_round();
        if let Some(first) = self.listed.first() {
            self.current = first.clone();
        }
        self.after_delay(cause)
    }

    fn begin_round(&mut self) {
        self.tried.clear();
        (self.followed, self.is_awaited, self.cause) = (0, false, None);
    }

    fn after_delay(&mut self, cause: Failure) -> Next {
        self.rounds = self.rounds.saturating_add(1);
        self.delay = self.rounds;
        Next::AfterDelay(cause)
    }

    fn has_tried(&self, node: &Address) -> bool {
        self.tried.iter().any(|tried| tried.is(node))
    }

    fn next_listed(&self) -> Option<Address> {
        self.listed.iter().find(|node| !self.has_tried(node)).cloned()
    }

    /// The primary that the error names, if it is to be tried in this round.
    fn named_by(&mut self, error: &RemoteError) -> Option<Address> {
        let Some(Value::Text(text)) = error.detail(Attribute::Address) else { return None };
        let named = Address::of_server(text).filter(|named| !self.has_tried(named) && self.followed < FOLLOWED_MAX)?;
        self.followed = self.followed.saturating_add(1);
        Some(named)
    }

    /// Keeps the error that says most. A round ends with an error that reconnecting does not mend only if no node
    /// may come back; but a client that was never connected reports it first, since it is most likely a mistake.
    fn note(&mut self, cause: &Failure) {
        let rank = if cause.is_permanent() {
            if self.has_opened { 0 } else { 3 }
        } else if cause.not_primary().is_some() {
            2
        } else {
            1
        };
        if self.cause.as_ref().is_none_or(|(known, _)| rank >= *known) {
            self.cause = Some((rank, cause.clone()));
        }
    }
}

#[cfg(test)]
mod tests;
