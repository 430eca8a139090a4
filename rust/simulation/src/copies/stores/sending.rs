//! The snapshots that a store sends while it leads, one to each node. A pin keeps the files of each, as long as its node asks for parts.

use std::collections::BTreeMap;
use std::sync::Arc;

use delaymq_core::error::Result;
use delaymq_core::message_log::Mark;
use delaymq_core::replication::{FilePart, FilePlace, NodeId, SentFile, SnapshotOffer};
use delaymq_core::storage::{Storage, names_in};
use delaymq_core::store::{OutgoingSnapshot, PIN_FOLDER, read_identity};
use delaymq_core::units::Millis;

/// The files are kept for so long after a part was asked for. That is a minute outside of histories.
const PINNED_FOR_MS: u64 = 10_000;

struct Sending {
    number: u64,
    snapshot: OutgoingSnapshot,
    pin: String,
    expires: Millis,
}

/// See the module.
#[derive(Default)]
pub(super) struct Outgoing {
    of: BTreeMap<NodeId, Sending>,
}

impl Outgoing {
    /// Makes a snapshot of this number for a node, instead of an earlier one.
    pub(super) fn offer(
        &mut self,
        storage: &Arc<dyn Storage>,
        (to, number): (NodeId, u64),
        (now, written): (Millis, Mark),
    ) -> Result<SnapshotOffer> {
        let (pin, expires) = leave_pin(storage.as_ref(), number, now)?;
        let stream = read_identity(storage.as_ref())?.stream;
        let snapshot = OutgoingSnapshot::of(Arc::clone(storage), stream, || written)?;
        let offer = snapshot.offer(number);
        let former = self.of.insert(to, Sending { number, snapshot, pin, expires });
        former.map_or(Ok(()), |former| storage.remove(&former.pin)).map(|()| offer)
    }

    /// The part that begins there. `None` if that snapshot is not sent any more. The files are kept until then.
    pub(super) fn part(
        &mut self,
        storage: &dyn Storage,
        (to, place): (NodeId, FilePlace),
        now: Millis,
    ) -> Result<Option<FilePart>> {
        let SentFile::Snapshot { number, .. } = place.file else { return Ok(None) };
        let is_sent = |known: &&mut Sending| known.number == number && known.expires > now;
        let Some(known) = self.of.get_mut(&to).filter(is_sent) else { return Ok(None) };
        if now.plus(PINNED_FOR_MS) > known.expires {
            let (pin, expires) = leave_pin(storage, known.number, now)?;
            known.expires = expires;
            storage.remove(&std::mem::replace(&mut known.pin, pin))?;
        }
        known.snapshot.part(place)
    }

    /// Lets the files go that no node has asked for lately.
    pub(super) fn tend(&mut self, storage: &dyn Storage, now: Millis) -> Result<()> {
        let is_over = |(_, sending): &(NodeId, Sending)| sending.expires <= now;
        let (over, left): (Vec<_>, Vec<_>) = std::mem::take(&mut self.of).into_iter().partition(is_over);
        self.of = left.into_iter().collect();
        over.iter().try_for_each(|(_, sending)| storage.remove(&sending.pin))
    }

    /// The store does not lead any more.
    pub(super) fn end(&mut self, storage: &dyn Storage) -> Result<()> {
        std::mem::take(&mut self.of).into_values().try_for_each(|sending| storage.remove(&sending.pin))
    }
}

/// The name and the end of a new pin.
fn leave_pin(storage: &dyn Storage, number: u64, now: Millis) -> Result<(String, Millis)> {
    let expires = now.plus(PINNED_FOR_MS);
    let pin = format!("{PIN_FOLDER}/{expires}-snapshot-{number}");
    storage.create(&pin).map(|_| (pin, expires))
}

/// The pins of a process that has ended expire. The clock of the machine may be turned back meanwhile, so they are removed.
pub(super) fn remove_pins(storage: &dyn Storage) -> Result<()> {
    names_in(storage, PIN_FOLDER)?.iter().try_for_each(|name| storage.remove(&format!("{PIN_FOLDER}/{name}")))
}
