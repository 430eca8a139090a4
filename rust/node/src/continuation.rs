//! A group that goes on from a copy which may lack answered messages, because all others are gone for good and an operator accepts
//! the loss. It is another timeline of the stream: copies of the former one do not follow it, and are never mistaken for its own.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use delaymq_coordinator::Coordinator;
use delaymq_core::message_log::{Identity, OPENING_SEGMENT_BYTES, Stream};
use delaymq_core::replication::{GroupState, NodeId, Reading, Register, SwapAnswer, Version};
use delaymq_core::storage::Storage;
use delaymq_core::store::{Follower, adopt_snapshot, read_identity};
use delaymq_core::units::Sequence;
use delaymq_engine::{FileStorage, Options, StoreLock};

use crate::group::other_group;
use crate::interface::{CoordinatorOptions, NodeError};

/// How a group goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupContinued {
    /// The timeline from now on.
    pub timeline: u32,
    /// Messages of this sequence and later ones that were answered as stored may be missing.
    pub first_missing: Sequence,
}

/// Lets the group of the register go on from the copy in the folder `path`, whose node does not run. The copy becomes the only one
/// of a new timeline, and the first primary when its node starts. A call that was interrupted can be repeated.
///
/// # Errors
/// `NoGroup`, `OtherGroup`; `Refused` if the copy is of another node, or lacks nothing, or if the register changes meanwhile; errors
/// of the store, of which `Locked` if the node runs, and of the coordinator.
pub fn continue_group(
    path: &Path,
    coordinator: &CoordinatorOptions,
    node: NodeId,
) -> Result<GroupContinued, NodeError> {
    let register = coordinator.open()?;
    let place = coordinator.place();
    let reading = register.read()?.ok_or_else(|| NodeError::NoGroup { register: place.clone() })?;
    let storage: Arc<dyn Storage> = Arc::new(FileStorage::open(path, false)?);
    let _lock = StoreLock::take(path)?;
    // A process may have ended while a snapshot took the place of the copy.
    adopt_snapshot(storage.as_ref())?;
    let identity = read_identity(storage.as_ref())?;
    if identity.node != node.0 || !identity.clustered {
        let its_node = format!("the copy of the node {}", NodeId(identity.node));
        let found = if identity.clustered { its_node } else { "a store that stands alone".to_owned() };
        return Err(NodeError::Refused(format!("{} is {found}, and not the copy of the node {node}", path.display())));
    }
    let first_missing = committed_of(&storage, &identity)?;
    let (value, timeline) = (&reading.value, identity.stream.timeline.saturating_add(1));
    let is_done = value.timeline == timeline && value.primary == node;
    if value.stream != identity.stream.id || (value.timeline != identity.stream.timeline && !is_done) {
        return Err(other_group(path, place, value, &identity));
    }
    let seen = if is_done {
        (reading.coordinator, reading.version)
    } else {
        continue_in_register(register.as_ref(), &reading, &identity)?
    };
    let stream = Stream { timeline, ..identity.stream };
    Identity { stream, seen, ..identity }.write(storage.as_ref())?;
    Ok(GroupContinued { timeline, first_missing })
}

/// The sequence after the last fact that the copy knows to be committed.
fn committed_of(storage: &Arc<dyn Storage>, identity: &Identity) -> Result<Sequence, NodeError> {
    let (options, opening_bytes) = (Options::default().owner, OPENING_SEGMENT_BYTES.min(identity.segment_bytes));
    let follower = Follower::open(Arc::clone(storage), identity, options, opening_bytes, &mut |_| {})?;
    Ok(follower.owner().applied())
}

/// Swaps the register. Returns the coordinator and the version of the new value.
fn continue_in_register(
    register: &dyn Coordinator,
    reading: &Reading,
    identity: &Identity,
) -> Result<(u64, Version), NodeError> {
    let (value, node) = (&reading.value, NodeId(identity.node));
    if value.names(node) {
        return Err(NodeError::Refused(format!(
            "the node {node} has every message that was answered as stored: start it, and promote it without a loss"
        )));
    }
    let only: BTreeSet<NodeId> = [node].into();
    let next = Register {
        timeline: identity.stream.timeline.saturating_add(1),
        epoch: value.epoch.max(identity.promised_epoch).next(),
        primary: node,
        sync: only.clone(),
        complete: only,
        state: GroupState::Promoting,
        made_for: reading.coordinator,
        ..value.clone()
    };
    match register.swap(reading.version, &next)? {
        SwapAnswer::Won(coordinator, version) => Ok((coordinator, version)),
        SwapAnswer::Lost(_) | SwapAnswer::Unknown => {
            Err(NodeError::Refused("the register has changed meanwhile: look at it, and try again".to_owned()))
        }
    }
}
