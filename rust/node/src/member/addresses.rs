//! The addresses of other nodes: by the settings, by what nodes say of themselves and of each other, and by an operator. So a new node
//! at a new address is found by all, if its settings name one of the others.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use delaymq_core::replication::NodeId;
use delaymq_core::wire::peer::Hello;
use delaymq_peers::{LinkStatus, PeerAddress, check_address};

use super::Member;

/// How often the connections are compared with the addresses.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// An address that is in no settings is forgotten if no node was connected there for so long.
const KEPT_FOR_SILENT: Duration = Duration::from_secs(3_600);
/// An address that an operator added, and whose node refuses this one, is forgotten after this time. Until then the status
/// shows the reason.
const REFUSED_KEPT: Duration = Duration::from_secs(10);
/// A node may be at a configured address under another name. It is given so long to be connected there first, since two
/// addresses of one node are tried again and again.
const CONFIGURED_FIRST: Duration = Duration::from_secs(5);
/// The most addresses of each kind that are in no settings.
const ADDRESSES_MAX: usize = 32;

/// An address that is in no settings.
struct Place {
    address: String,
    /// When it was heard of.
    heard: Instant,
    /// When its node was last connected, or the address was heard of.
    used: Instant,
    /// Its node was connected at a configured address since, so this one is not needed.
    is_configured: bool,
    /// Since when the node there refuses this one.
    refused: Option<Instant>,
}

impl Place {
    fn new(address: String, now: Instant) -> Self {
        Self { address, heard: now, used: now, is_configured: false, refused: None }
    }
}

/// See the module.
pub(crate) struct Addresses {
    me: NodeId,
    configured: Vec<PeerAddress>,
    has_tls: bool,
    /// By nodes, of themselves and of others.
    said: BTreeMap<NodeId, Place>,
    /// By an operator.
    added: Vec<Place>,
    looked: Option<Instant>,
    /// The addresses that were connected to last.
    dialed: BTreeSet<PeerAddress>,
}

impl Addresses {
    pub(crate) fn new(me: NodeId, configured: Vec<PeerAddress>, has_tls: bool) -> Self {
        let dialed = configured.iter().cloned().collect();
        Self { me, configured, has_tls, said: BTreeMap::new(), added: Vec::new(), looked: None, dialed }
    }

    /// A node names itself, and others.
    fn hear(&mut self, hello: &Hello, now: Instant) {
        let known = self.said.get(&hello.node).map(|place| place.address.as_str());
        if self.is_usable(hello.node, &hello.peer_address) && known != Some(&hello.peer_address) {
            self.said.insert(hello.node, Place::new(hello.peer_address.clone(), now));
        }
        for (node, address) in &hello.others {
            if self.is_usable(*node, address) {
                self.said.entry(*node).or_insert_with(|| Place::new(address.clone(), now));
            }
        }
    }

    fn is_usable(&self, node: NodeId, address: &str) -> bool {
        let has_room = self.said.len() < ADDRESSES_MAX || self.said.contains_key(&node);
        let address = PeerAddress { address: address.to_owned(), node: None };
        node != self.me && has_room && check_address(&address, self.has_tls).is_ok()
    }

    /// An operator names an address.
    fn add(&mut self, address: String, now: Instant) {
        self.added.retain(|place| place.address != address);
        if self.added.len() >= ADDRESSES_MAX {
            self.added.remove(0);
        }
        self.added.push(Place::new(address, now));
    }

    fn forget(&mut self, node: NodeId) {
        self.said.remove(&node);
    }

    /// The addresses to connect to from now on, if they are others than before. `stays` says which nodes are never forgotten.
    fn renew(
        &mut self,
        links: &[LinkStatus],
        stays: impl Fn(NodeId) -> bool,
        now: Instant,
    ) -> Option<BTreeSet<PeerAddress>> {
        let link_at = |address: &str| links.iter().find(|link| link.address.address == address);
        let is_configured = |link: &LinkStatus| self.configured.contains(&link.address);
        self.said.retain(|node, place| {
            if let Some(link) = links.iter().find(|link| link.node == Some(*node)) {
                place.used = now;
                place.is_configured |= is_configured(link);
            }
            stays(*node) || now.duration_since(place.used) < KEPT_FOR_SILENT
        });
        self.added.retain_mut(|place| {
            let link = link_at(&place.address);
            if link.is_some_and(|link| link.node.is_some()) {
                (place.used, place.refused) = (now, None);
            } else if link.and_then(|link| link.fault.as_ref()).is_some_and(|fault| fault.is_refusal) {
                place.refused.get_or_insert(now);
            }
            let is_refused = place.refused.is_some_and(|since| now.duration_since(since) >= REFUSED_KEPT);
            !is_refused && now.duration_since(place.used) < KEPT_FOR_SILENT
        });
        // A node that is connected at one address is not connected to at another.
        let is_elsewhere = |node: NodeId, address: &str| {
            links.iter().any(|link| link.node == Some(node) && link.address.address != address)
        };
        let are_all_connected =
            self.configured.iter().all(|known| links.iter().any(|link| link.address == *known && link.node.is_some()));
        let is_due = |place: &Place| {
            let is_up = link_at(&place.address).is_some_and(|link| link.node.is_some());
            is_up || are_all_connected || now.duration_since(place.heard) >= CONFIGURED_FIRST
        };
        let is_wanted = |(node, place): &(&NodeId, &Place)| {
            !place.is_configured && is_due(place) && !is_elsewhere(**node, &place.address)
        };
        let said = self.said.iter().filter(is_wanted).map(|(_, place)| place);
        let more = said.chain(&self.added).map(|place| &place.address);
        let mut wanted: BTreeSet<PeerAddress> = self.configured.iter().cloned().collect();
        for address in more {
            if self.configured.iter().all(|known| known.address != *address) {
                wanted.insert(PeerAddress { address: address.clone(), node: None });
            }
        }
        if wanted == self.dialed {
            return None;
        }
        self.dialed.clone_from(&wanted);
        Some(wanted)
    }
}

impl Member {
    pub(super) fn hear_of_addresses(&mut self, hello: &Hello) {
        self.parts.addresses.hear(hello, Instant::now());
    }

    pub(super) fn forget_address(&mut self, node: NodeId) {
        self.parts.addresses.forget(node);
    }

    /// An operator asks to connect to this address, now.
    pub(super) fn dial(&mut self, address: String) {
        self.parts.reports.note(format!("connecting to {address}, as asked"));
        self.parts.addresses.add(address, Instant::now());
        self.connect();
    }

    pub(super) fn look_at_addresses(&mut self) {
        if self.parts.addresses.looked.is_none_or(|looked| looked.elapsed() >= LOOK_EVERY) {
            self.connect();
        }
    }

    fn connect(&mut self) {
        let now = Instant::now();
        let register = self.parts.protocol.register();
        let stays = |node| register.is_some_and(|value| value.names(node));
        self.parts.addresses.looked = Some(now);
        let Some(wanted) = self.parts.addresses.renew(&self.parts.peers.status(), stays, now) else { return };
        if let Err(error) = self.parts.peers.set_peers(wanted) {
            // Some may be connected to. The next look tries all again.
            self.parts.addresses.dialed.clear();
            self.parts.reports.warn(format!("the addresses of other nodes are tried again: {error}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use delaymq_peers::LinkFault;

    use super::*;

    const ME: NodeId = NodeId([1; 16]);
    const OLD: NodeId = NodeId([2; 16]);
    const NEW: NodeId = NodeId([3; 16]);

    fn peer(address: &str) -> PeerAddress {
        PeerAddress { address: address.to_owned(), node: None }
    }

    fn link(address: &str, node: Option<NodeId>, refused: bool) -> LinkStatus {
        let fault = (node.is_none()).then(|| LinkFault { words: "no".to_owned(), is_refusal: refused });
        LinkStatus { address: peer(address), node, queued_bytes: 0, dropped: 0, fault }
    }

    fn hello(node: NodeId, peer_address: &str, others: &[(NodeId, &str)]) -> Hello {
        Hello {
            format_level: 1,
            stream: [7; 16],
            timeline: 0,
            node,
            nonce: 1,
            segment_bytes: 1 << 20,
            client_address: String::new(),
            peer_address: peer_address.to_owned(),
            others: others.iter().map(|(node, address)| (*node, (*address).to_owned())).collect(),
        }
    }

    fn addresses() -> Addresses {
        Addresses::new(ME, vec![peer("127.0.0.1:2")], false)
    }

    fn wanted(addresses: &mut Addresses, links: &[LinkStatus], now: Instant) -> Option<Vec<String>> {
        let wanted = addresses.renew(links, |_| false, now);
        wanted.map(|wanted| wanted.into_iter().map(|address| address.address).collect())
    }

    #[test]
    fn a_node_is_connected_to_where_it_says_and_where_others_say_until_it_is_silent_for_long() {
        let (mut addresses, now) = (addresses(), Instant::now());
        let old = link("127.0.0.1:2", Some(OLD), false);
        assert_eq!(wanted(&mut addresses, &[], now), None);
        addresses.hear(&hello(OLD, "127.0.0.1:2", &[(NEW, "127.0.0.1:3"), (ME, "127.0.0.1:1")]), now);
        let both = vec!["127.0.0.1:2".to_owned(), "127.0.0.1:3".to_owned()];
        assert_eq!(wanted(&mut addresses, std::slice::from_ref(&old), now), Some(both));
        addresses.hear(&hello(NEW, "127.0.0.1:4", &[]), now);
        addresses.hear(&hello(OLD, "127.0.0.1:2", &[(NEW, "127.0.0.1:3")]), now);
        let itself = vec!["127.0.0.1:2".to_owned(), "127.0.0.1:4".to_owned()];
        assert_eq!(wanted(&mut addresses, std::slice::from_ref(&old), now), Some(itself), "the node itself knows best");
        let later = now + KEPT_FOR_SILENT;
        assert_eq!(wanted(&mut addresses, &[link("127.0.0.1:4", Some(NEW), false)], later), None, "it is connected");
        let last = wanted(&mut addresses, std::slice::from_ref(&old), later + KEPT_FOR_SILENT);
        assert_eq!(last, Some(vec!["127.0.0.1:2".to_owned()]));
    }

    #[test]
    fn a_node_that_is_at_a_configured_address_is_connected_to_there_alone() {
        let (mut addresses, now) = (addresses(), Instant::now());
        let (up, down) = (link("127.0.0.1:2", Some(OLD), false), link("127.0.0.1:2", None, false));
        addresses.hear(&hello(OLD, "127.0.0.1:3", &[]), now);
        assert_eq!(wanted(&mut addresses, std::slice::from_ref(&down), now), None, "it may be there, soon");
        assert_eq!(wanted(&mut addresses, &[up], now), None);
        let later = now + CONFIGURED_FIRST;
        addresses.hear(&hello(OLD, "127.0.0.1:3", &[]), later);
        assert_eq!(wanted(&mut addresses, std::slice::from_ref(&down), later), None, "it was there");
        addresses.hear(&hello(OLD, "127.0.0.1:4", &[]), later);
        assert_eq!(wanted(&mut addresses, std::slice::from_ref(&down), later), None, "it moved, and may be known");
        let moved = wanted(&mut addresses, &[down], later + CONFIGURED_FIRST);
        assert_eq!(moved.unwrap(), ["127.0.0.1:2", "127.0.0.1:4"]);
    }

    #[test]
    fn an_address_of_an_operator_is_forgotten_soon_if_its_node_refuses_this_one() {
        let (mut addresses, now) = (addresses(), Instant::now());
        addresses.add("127.0.0.1:3".to_owned(), now);
        assert_eq!(wanted(&mut addresses, &[], now).unwrap().len(), 2);
        let silent = link("127.0.0.1:3", None, false);
        assert_eq!(wanted(&mut addresses, std::slice::from_ref(&silent), now + REFUSED_KEPT), None);
        let refused = link("127.0.0.1:3", None, true);
        assert_eq!(wanted(&mut addresses, std::slice::from_ref(&refused), now + REFUSED_KEPT), None);
        assert_eq!(wanted(&mut addresses, &[refused], now + 2 * REFUSED_KEPT).unwrap().len(), 1);
    }

    #[test]
    fn addresses_that_cannot_be_connected_to_and_too_many_are_not_kept() {
        let (mut addresses, now) = (addresses(), Instant::now());
        addresses.hear(&hello(OLD, "192.0.2.1:1", &[(NEW, "no port")]), now);
        assert_eq!(wanted(&mut addresses, &[], now), None, "there are no certificates");
        for number in 0..100 {
            addresses.hear(&hello(NodeId([number + 10; 16]), "127.0.0.1:9", &[]), now);
            addresses.add(format!("127.0.0.1:{}", 100 + u16::from(number)), now);
        }
        assert_eq!((addresses.said.len(), addresses.added.len()), (ADDRESSES_MAX, ADDRESSES_MAX));
    }
}
