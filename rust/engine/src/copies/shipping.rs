//! The batches that the node sends to others. The owner is asked only for a place that no earlier call has come to: it may be
//! at work, and another node waits.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use delaymq_core::error::{Error, Result};
use delaymq_core::message_log::BatchReader;
use delaymq_core::replication::WantedRecord;
use delaymq_core::run::LOAD_FOLDER;
use delaymq_core::storage::names_in;
use delaymq_core::store::{CHECKPOINT_FOLDER, KeptLog, KeptMessages, OutgoingSnapshot, Shipment, archived_below};
use delaymq_core::units::Sequence;

use crate::held;
use crate::shared::Shared;
use crate::store::Store;

impl Store {
    /// The batches of the log from the one that begins with `first`, one after the other, durable or not: as many as fit
    /// into `bytes_max`, and at least one. Nothing if the log ends there.
    ///
    /// # Errors
    /// `NotKept` if these facts were removed from this log, or if a node that has nothing is to get files; `InvalidArgument` if no batch begins there, or for a store
    /// alone; `Poisoned`, `Closed`, `ForkedProcess`; those of the storage.
    pub fn ship(&self, first: Sequence, bytes_max: usize) -> Result<Vec<u8>> {
        let (shared, copies) = (&self.shared, self.copies()?);
        shared.guard.check()?;
        shared.check_poison()?;
        let written = copies.written();
        if first == written.sequence {
            return Ok(Vec::new());
        }
        if shared.is_copied_by_files(first)? {
            return Err(Error::NotKept { sequence: first.0, first: written.sequence.0 });
        }
        let place = held(&copies.cursors).find(first);
        let shipped = place.map(|place| {
            let storage = Arc::clone(&shared.storage);
            let mut batches = BatchReader::new(storage, shared.log_stream, place.location, written.location);
            Shipment::read(&mut batches, bytes_max)
        });
        let Shipment { bytes, end } = match (shipped, place) {
            (Some(Ok(shipped)), _) => shipped,
            (failed, place) => {
                // Its segment may be gone, and the owner knows what is kept.
                if let (Some(_), Some(place)) = (failed, place) {
                    held(&copies.cursors).forget(place);
                }
                let kept = KeptLog::of(shared.lock_owner()?.get()?.owner.state());
                Shipment::read(&mut kept.batches_from(&shared.storage, first, written)?, bytes_max)?
            }
        };
        if let Some(end) = end {
            held(&copies.cursors).note(end);
        }
        Ok(bytes)
    }

    /// The files of the store, for a node that needs a part of the log which is no longer here. A pin must keep them, from before
    /// this call on.
    ///
    /// # Errors
    /// `MissingFile` if a file was removed before the pin was there; `InvalidArgument` for a store alone; `Poisoned`,
    /// `Closed`, `ForkedProcess`; those of the storage.
    pub fn snapshot(&self) -> Result<OutgoingSnapshot> {
        let (shared, copies) = (&self.shared, self.copies()?);
        shared.guard.check()?;
        shared.check_poison()?;
        OutgoingSnapshot::of(Arc::clone(&shared.storage), shared.log_stream, || copies.written())
    }

    /// The payload of a message that another node has damaged. `None` if this one does not have it whole. May read much of a segment.
    ///
    /// # Errors
    /// `Poisoned`, `Closed`, `ForkedProcess`; those of the storage.
    pub fn payload_of(&self, wanted: &WantedRecord) -> Result<Option<Vec<u8>>> {
        let shared = &self.shared;
        shared.guard.check()?;
        shared.check_poison()?;
        let kept = KeptMessages::of(&shared.lock_owner()?.get()?.owner);
        kept.payload_of(wanted)
    }

    /// Keeps the log from this sequence on, for nodes that lag, whatever it holds. The next checkpoint begins to do so.
    ///
    /// # Errors
    /// `InvalidArgument` for a store alone.
    pub fn keep_log_from(&self, first: Sequence) -> Result<()> {
        self.copies()?.kept_from.store(first.0, Ordering::SeqCst);
        Ok(())
    }
}

impl Shared {
    /// True if a node that lacks the log from `first` on gets files: it has nothing, and a checkpoint spares it the replay of the
    /// log, or facts of the log name other files, for which it would have to ask.
    fn is_copied_by_files(&self, first: Sequence) -> Result<bool> {
        let is_there = |folder: &str| names_in(self.storage.as_ref(), folder).map(|names| !names.is_empty());
        Ok(first == Sequence(1) && (is_there(CHECKPOINT_FOLDER)? || is_there(LOAD_FOLDER)?))
    }

    /// The sequence from which on retention keeps all of the log: for archives, and for nodes that lag. `None` if nothing
    /// awaits it.
    pub(crate) fn awaited_from(&self) -> Option<Sequence> {
        let copies = self.copies.as_ref().map(|copies| copies.kept_from.load(Ordering::SeqCst));
        let lagging = copies.filter(|first| *first < u64::MAX).map(Sequence);
        archived_below(self.storage.as_ref()).into_iter().chain(lagging).min()
    }
}
