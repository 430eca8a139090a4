//! The requests of an operator, which a node refuses at once or begins to carry out, and the pages of its server.

use std::sync::{Arc, Mutex};

use delaymq_core::replication::{Event, NodeId, RoleName};
use delaymq_peers::{PeerAddress, PeersError, check_address};
use delaymq_server::ClusterPages;

use crate::events::{Events, Incoming};
use crate::held;
use crate::interface::NodeError;
use crate::status::{Foreign, Snapshot};

/// The state that the owner of a node and its servers look at.
pub(crate) struct Shown {
    pub(crate) snapshot: Mutex<Snapshot>,
    pub(crate) events: Arc<Events>,
    pub(crate) has_tls: bool,
}

fn refused<T>(reason: String) -> Result<T, NodeError> {
    Err(NodeError::Refused(reason))
}

impl Shown {
    fn begin(&self, event: Event) {
        self.events.add(Incoming::Protocol(event));
    }

    /// Asks the node to hand over.
    pub(crate) fn begin_switch_over(&self, to: NodeId) -> Result<(), NodeError> {
        let snapshot = held(&self.snapshot);
        must_lead(&snapshot, "hands over")?;
        if to == snapshot.node {
            return refused(format!("the node {to} is the primary already"));
        }
        if snapshot.reading.as_ref().is_none_or(|reading| !reading.value.sync.contains(&to)) {
            return refused(format!("the node {to} is not in the set that has every committed fact"));
        }
        drop(snapshot);
        self.begin(Event::SwitchOver(to));
        Ok(())
    }

    /// Asks the node to connect to another one.
    pub(crate) fn begin_add(&self, address: &str) -> Result<(), NodeError> {
        match check_address(&PeerAddress { address: address.to_owned(), node: None }, self.has_tls) {
            Ok(()) => {
                self.events.add(Incoming::Dial(address.to_owned()));
                Ok(())
            }
            Err(PeersError::InvalidOption { message, .. }) => refused(message),
            Err(error) => Err(error.into()),
        }
    }

    /// Asks the node to forget another one.
    pub(crate) fn begin_remove(&self, node: NodeId, accepts_loss: bool) -> Result<(), NodeError> {
        let snapshot = held(&self.snapshot);
        must_lead(&snapshot, "removes a node")?;
        if node == snapshot.node {
            return refused(format!("the node {node} is the primary: hand over to another node first"));
        }
        if snapshot.connected.contains(&node) {
            return refused(format!("the node {node} is connected: stop it first"));
        }
        let register = snapshot.reading.as_ref().map(|reading| &reading.value);
        let is_named = register.is_some_and(|value| value.names(node));
        if !is_named && snapshot.copies.iter().all(|copy| copy.node != node) {
            return refused(format!("the group has no node {node}"));
        }
        if !accepts_loss && register.is_some_and(|value| value.is_last_holder(node)) {
            return refused(format!(
                "the node {node} is the only other one that has every message that was answered as stored: start it, or \
                 add another copy first. To remove it all the same, accept the loss"
            ));
        }
        drop(snapshot);
        self.begin(Event::Remove(node, accepts_loss));
        Ok(())
    }

    /// Asks the node to demand so many copies of a publish.
    pub(crate) fn begin_min_copies(&self, min_copies: usize) -> Result<(), NodeError> {
        let snapshot = held(&self.snapshot);
        must_lead(&snapshot, "changes min_copies")?;
        if min_copies == 0 {
            return refused("min_copies must be at least 1".to_owned());
        }
        let copies = snapshot.reading.as_ref().map_or(0, |reading| reading.value.sync.len());
        if min_copies > copies {
            return refused(format!(
                "the set has {copies} nodes, and with min_copies = {min_copies} every publish would be refused: add a node, \
                 or start one, and wait until the set has it"
            ));
        }
        drop(snapshot);
        self.begin(Event::MinCopies(min_copies));
        Ok(())
    }

    /// Asks the node to lead, after the set is gone for good.
    pub(crate) fn begin_promote(&self, node: NodeId) -> Result<(), NodeError> {
        let snapshot = held(&self.snapshot);
        if node != snapshot.node {
            return refused(format!("this is the node {}: ask the node {node} itself", snapshot.node));
        }
        if snapshot.role != RoleName::Replica {
            return refused(format!("the node {node} leads the group already"));
        }
        if let Some(primary) = snapshot.leader {
            let address = snapshot.address_of(primary).unwrap_or("an unknown address");
            return refused(format!(
                "the primary {primary} at {address} is heard: let it hand over, or stop it, and all nodes of the set"
            ));
        }
        if snapshot.foreign.is_some() {
            return refused("the register is another one than before: compare and confirm it first".to_owned());
        }
        let Some(value) = snapshot.reading.as_ref().map(|reading| &reading.value) else {
            return refused("the register was not read yet".to_owned());
        };
        if !value.names(node) {
            let names: Vec<String> = value.complete.iter().map(ToString::to_string).collect();
            return refused(format!(
                "the node {node} lacks messages that were answered as stored. These nodes have all: {}. If they are gone for \
                 good, stop this node, and promote it with the loss accepted",
                names.join(", ")
            ));
        }
        let others_may_lead = value.sync.contains(&node) && value.sync.len() > 1;
        if !snapshot.unfit.is_empty() && others_may_lead {
            return refused(format!("the node {node} is not fit to lead: its disk or its clock needs attention"));
        }
        drop(snapshot);
        self.begin(Event::Promote);
        Ok(())
    }

    /// Lets the node go on with the register of this coordinator.
    pub(crate) fn begin_confirm(&self, coordinator: u64) -> Result<(), NodeError> {
        let snapshot = held(&self.snapshot);
        let Some(Foreign { reading, is_restored }) = &snapshot.foreign else {
            let believed = snapshot.coordinator;
            return if believed == coordinator {
                Ok(())
            } else {
                refused(format!(
                    "this node believes the register of the coordinator {believed}, and reads no other one"
                ))
            };
        };
        let (found, value) = (reading.coordinator, &reading.value);
        if found != coordinator {
            return refused(format!("the register is that of the coordinator {found}, and not of {coordinator}"));
        }
        if (value.stream, value.timeline) != (snapshot.stream, snapshot.timeline) {
            return refused("the register holds another group, or another timeline of this one".to_owned());
        }
        if let Some(primary) = snapshot.leader.filter(|leader| *leader != snapshot.node) {
            let address = snapshot.address_of(primary).unwrap_or("an unknown address");
            return refused(format!(
                "the primary {primary} at {address} is heard: confirm the register there, and this node follows"
            ));
        }
        if !is_restored && found == snapshot.coordinator {
            return refused(format!(
                "the register was set back, and its coordinator is {found} as before: restore it under another number, as                  etcd does with another --initial-cluster-token"
            ));
        }
        if !is_restored {
            let (primary, epoch) = (value.primary, value.epoch);
            return refused(format!(
                "the register was confirmed already: the group goes on from the node {primary}, epoch {epoch}, and this                  node follows that one"
            ));
        }
        drop(snapshot);
        self.begin(Event::Confirm(coordinator));
        Ok(())
    }

    /// The status as JSON text.
    pub(crate) fn status_text(&self) -> String {
        held(&self.snapshot).shown().to_string()
    }
}

fn must_lead(snapshot: &Snapshot, what: &str) -> Result<(), NodeError> {
    if snapshot.role == RoleName::Primary {
        return Ok(());
    }
    let primary = snapshot.leader.and_then(|leader| snapshot.address_of(leader)).unwrap_or("no known node");
    refused(format!("only the primary {what}, which is {primary}"))
}

/// Carries out a request about the node with this id.
fn asked(digits: &str, begin: impl FnOnce(NodeId) -> Result<(), NodeError>) -> Result<(), String> {
    let node = node_of(digits).ok_or_else(|| format!("{digits:?} is not the id of a node: 32 hexadecimal digits"))?;
    begin(node).map_err(|error| error.to_string())
}

impl ClusterPages for Shown {
    fn status(&self) -> String {
        self.status_text()
    }

    fn metrics(&self) -> String {
        held(&self.snapshot).metrics()
    }

    fn switch_over(&self, node: &str) -> Result<(), String> {
        asked(node, |node| self.begin_switch_over(node))
    }

    fn add(&self, address: &str) -> Result<(), String> {
        self.begin_add(address).map_err(|error| error.to_string())
    }

    fn remove(&self, node: &str, accepts_loss: bool) -> Result<(), String> {
        asked(node, |node| self.begin_remove(node, accepts_loss))
    }

    fn set_min_copies(&self, min_copies: usize) -> Result<(), String> {
        self.begin_min_copies(min_copies).map_err(|error| error.to_string())
    }

    fn promote(&self, node: &str) -> Result<(), String> {
        asked(node, |node| self.begin_promote(node))
    }

    fn confirm(&self, coordinator: u64) -> Result<(), String> {
        self.begin_confirm(coordinator).map_err(|error| error.to_string())
    }
}

/// The id of a node, from its 32 hexadecimal digits.
fn node_of(digits: &str) -> Option<NodeId> {
    if digits.len() != 32 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    u128::from_str_radix(digits, 16).ok().map(|number| NodeId(number.to_be_bytes()))
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use delaymq_core::replication::{Reading, Register, Unfit, Version};
    use delaymq_core::units::{Epoch, Sequence};

    use super::*;

    const ME: NodeId = NodeId([1; 16]);
    const OTHER: NodeId = NodeId([2; 16]);

    /// A replica that is in the set with another node, which is the primary and silent.
    fn replica() -> Snapshot {
        let set: BTreeSet<NodeId> = [ME, OTHER].into();
        let first = Register::first([7; 16], OTHER, Epoch(3), 2);
        let value = Register { sync: set.clone(), complete: set, ..first };
        Snapshot {
            node: ME,
            stream: [7; 16],
            timeline: 0,
            role: RoleName::Replica,
            epoch: Epoch(3),
            log_epoch: Epoch(3),
            committed: Sequence(1),
            end: Sequence(1),
            durable: Sequence(1),
            leader: None,
            accepts_publishes: false,
            unfit: Vec::new(),
            clock_ahead_ms: None,
            foreign: None,
            coordinator: 1,
            reading: Some(Reading { coordinator: 1, version: Version(1), value }),
            copies: Vec::new(),
            links: Vec::new(),
            connected: BTreeSet::new(),
            client_addresses: BTreeMap::new(),
            role_changes: 0,
            messages_repaired: 0,
        }
    }

    /// The register of the replica, from this coordinator and made for that one.
    fn backup(coordinator: u64, made_for: u64) -> Foreign {
        let reading = replica().reading.unwrap();
        let value = Register { made_for, ..reading.value };
        Foreign { is_restored: coordinator != made_for, reading: Reading { coordinator, value, ..reading } }
    }

    fn confirmed(coordinator: u64, snapshot: Snapshot) -> String {
        let shown = Shown { snapshot: Mutex::new(snapshot), events: Arc::default(), has_tls: false };
        shown.begin_confirm(coordinator).map_or_else(|refused| refused.to_string(), |()| "begun".to_owned())
    }

    #[test]
    fn a_restored_register_is_confirmed_and_no_other_one() {
        let waiting = |foreign| Snapshot { foreign: Some(foreign), ..replica() };
        assert_eq!(confirmed(2, waiting(backup(2, 1))), "begun");
        assert_eq!(confirmed(1, replica()), "begun", "the node believes it already");
        let mut of_other_group = backup(2, 1);
        of_other_group.reading.value.stream = [8; 16];
        for (snapshot, words) in [
            (replica(), "believes the register of the coordinator 1"),
            (waiting(backup(3, 1)), "is that of the coordinator 3, and not of 2"),
            (waiting(of_other_group), "holds another group"),
            (Snapshot { leader: Some(OTHER), ..waiting(backup(2, 1)) }, "is heard: confirm the register there"),
            (Snapshot { coordinator: 2, ..waiting(backup(2, 2)) }, "was set back"),
            (waiting(backup(2, 2)), &format!("goes on from the node {OTHER}, epoch 3")),
        ] {
            let refused = confirmed(2, snapshot);
            assert!(refused.contains(words), "{refused}");
        }
    }

    fn demanded(min_copies: usize, snapshot: Snapshot) -> String {
        let shown = Shown { snapshot: Mutex::new(snapshot), events: Arc::default(), has_tls: false };
        shown.begin_min_copies(min_copies).map_or_else(|refused| refused.to_string(), |()| "begun".to_owned())
    }

    #[test]
    fn as_many_copies_are_demanded_as_the_set_has_nodes_and_by_the_primary() {
        let primary = || Snapshot { role: RoleName::Primary, ..replica() };
        assert_eq!((demanded(1, primary()), demanded(2, primary())), ("begun".to_owned(), "begun".to_owned()));
        for (min_copies, snapshot, words) in [
            (0, primary(), "at least 1"),
            (3, primary(), "the set has 2 nodes"),
            (1, Snapshot { reading: None, ..primary() }, "the set has 0 nodes"),
            (1, replica(), "only the primary changes min_copies"),
        ] {
            let refused = demanded(min_copies, snapshot);
            assert!(refused.contains(words), "{refused}");
        }
    }

    fn promoted(node: NodeId, snapshot: Snapshot) -> String {
        let shown = Shown { snapshot: Mutex::new(snapshot), events: Arc::default(), has_tls: false };
        shown.begin_promote(node).map_or_else(|refused| refused.to_string(), |()| "begun".to_owned())
    }

    #[test]
    fn a_node_is_promoted_unless_another_leads_or_it_lacks_something() {
        assert_eq!(promoted(ME, replica()), "begun");
        for (snapshot, words) in [
            (Snapshot { leader: Some(OTHER), ..replica() }, "is heard"),
            (Snapshot { role: RoleName::Promoting, ..replica() }, "leads the group already"),
            (Snapshot { foreign: Some(backup(2, 1)), ..replica() }, "confirm it first"),
            (Snapshot { reading: None, ..replica() }, "was not read yet"),
            (Snapshot { unfit: vec![Unfit::Disk], ..replica() }, "not fit"),
        ] {
            let refused = promoted(ME, snapshot);
            assert!(refused.contains(words), "{refused}");
        }
        assert!(promoted(OTHER, replica()).contains("itself"));
    }

    #[test]
    fn a_complete_node_is_promoted_also_if_it_is_not_fit_and_one_that_is_not_complete_is_not() {
        let with = |sync: &[NodeId], complete: &[NodeId]| {
            let mut snapshot = Snapshot { unfit: vec![Unfit::Disk], ..replica() };
            let reading = snapshot.reading.as_mut().unwrap();
            reading.value.sync = sync.iter().copied().collect();
            reading.value.complete = complete.iter().copied().collect();
            promoted(ME, snapshot)
        };
        assert_eq!(with(&[OTHER], &[ME, OTHER]), "begun");
        assert!(
            with(&[OTHER], &[OTHER])
                .contains(&format!("lacks messages that were answered as stored. These nodes have all: {OTHER}."))
        );
    }
}
