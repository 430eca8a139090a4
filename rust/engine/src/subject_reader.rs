//! Reading what becomes ready in a subject by its numbers, for nobody's account: no group, no
//! acknowledgement, nothing on disk, and nothing is kept for it.

use std::sync::Arc;

use delaymq_core::error::Result;
use delaymq_core::units::{ReadyNumber, SubjectNumber};

use crate::delivery::Delivered;
use crate::listener::Listener;
use crate::store::Store;

/// What a subject had from a number on.
#[derive(Clone, Debug)]
pub enum ReadNumbers {
    /// Messages with neighbouring numbers, the first of them `first`, which is above what was asked for
    /// only where the messages between were given up.
    Messages {
        /// The number of the first.
        first: ReadyNumber,
        /// The messages, at least one.
        messages: Vec<Delivered>,
    },
    /// Nothing yet from that number on; `next` is the next that there will be. The listener is told.
    Nothing {
        /// From where to read on.
        next: ReadyNumber,
    },
    /// What was asked for is finished by all groups and not kept any more: it goes on at `floor`.
    BelowFloor {
        /// The first number that there still is.
        floor: ReadyNumber,
    },
    /// It would have to wait: the waiting twin does. That one never answers this.
    WouldWait,
}

/// See the module. The newest messages are kept in memory for it for as long as it lives, so that one
/// that keeps up misses none that groups have finished before it came.
pub struct SubjectReader {
    _private: (),
}

impl Store {
    /// A reader of this subject, which need not exist yet. Waits for other threads, never for the disk.
    ///
    /// # Errors
    /// `InvalidArgument` naming `subject`; `TooLarge` naming `subjects` where no more may be made;
    /// `Poisoned`, `Closed`, `ForkedProcess`.
    pub fn subject_reader(&self, _subject: &str) -> Result<Arc<SubjectReader>> {
        unimplemented!()
    }
}

impl SubjectReader {
    /// The number of the subject.
    pub fn subject_number(&self) -> SubjectNumber {
        unimplemented!()
    }

    /// The number that the next message will have, as of when the reader began.
    pub fn began_at(&self) -> ReadyNumber {
        unimplemented!()
    }

    /// From now on this listener is told, under this token, whenever the subject gets something.
    ///
    /// # Errors
    /// `ForkedProcess`.
    pub fn watch_by(&self, _listener: &Listener, _token: u64) -> Result<()> {
        unimplemented!()
    }

    /// Up to `count_max` messages from `from` on, with payloads of `bytes_max` together or one message
    /// more; never waits.
    ///
    /// # Errors
    /// `Poisoned`, `Closed`, `ForkedProcess`.
    pub fn try_read(&self, _from: ReadyNumber, _count_max: usize, _bytes_max: usize) -> Result<ReadNumbers> {
        unimplemented!()
    }

    /// As [`Self::try_read`], waiting for the disk, though not for messages.
    ///
    /// # Errors
    /// As [`Self::try_read`]; `Storage` where the first cannot be read now.
    pub fn read(&self, _from: ReadyNumber, _count_max: usize, _bytes_max: usize) -> Result<ReadNumbers> {
        unimplemented!()
    }
}
