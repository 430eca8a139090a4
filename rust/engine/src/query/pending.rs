//! Pending messages: look-up by receipt, lists, counts. They do not delay what is due: the owner lock is held for a
//! bounded time, and files are read without it.

use std::collections::HashMap;
use std::sync::Arc;

use delaymq_core::error::{Error, Result};
use delaymq_core::schedule_log::{Entry, EntryState, HiddenBlock};
use delaymq_core::store::{
    PendingCursor, PendingLook, PendingOf, PendingPiece, PendingQuery, PendingScan, Receipt, SIZE_UNKNOWN,
};
use delaymq_core::units::{Millis, Sequence, SubjectNumber};

use crate::shared::Shared;
use crate::store::Store;

/// The most looks at the state for one page. If few messages match, a page may be empty rather than late.
const LOOKS_MAX: usize = 256;

/// The state of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It waits for its time.
    Pending,
    /// It became ready.
    Dispatched,
    /// It was cancelled.
    Cancelled,
    /// It belongs to another store, or this store does not know it any more.
    NotFound,
}

/// The result of a look-up by receipt.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LookedUp {
    /// The state of the message.
    pub fate: Fate,
    /// Its subject, as the receipt names it. Empty if this store does not know it.
    pub subject: Arc<str>,
    /// When it is or was due, as the receipt says.
    pub due: Millis,
    /// Bytes of its body, as the receipt says; `None` if it does not.
    pub size: Option<u32>,
}

/// A message that is pending.
#[derive(Clone, Debug)]
pub struct Pending {
    /// Its subject: the retry subject if a group gave it back.
    pub subject: Arc<str>,
    /// Its receipt, without a size. It cancels as any other.
    pub receipt: Receipt,
    /// The number of the delivery that it waits for, from 1.
    pub attempt: u16,
    /// The sequence of the published message.
    pub published: Sequence,
}

/// A page of a list.
#[derive(Clone, Debug, Default)]
pub struct PendingPage {
    /// In the order of due time and sequence.
    pub entries: Vec<Pending>,
    /// Blocks of runs that cannot be read, so that their entries are missing.
    pub hidden: Vec<HiddenBlock>,
}

/// A list of pending messages, page by page.
pub struct PendingReader {
    shared: Arc<Shared>,
    scan: PendingScan,
    /// Names by number; a list asks for few of them many times.
    names: HashMap<SubjectNumber, Arc<str>>,
}

impl Store {
    /// The state of a message. Reads nothing from the disk.
    ///
    /// # Errors
    /// `InvalidArgument` for a receipt that no store has given out; `Poisoned`, `Closed`, `ForkedProcess`.
    pub fn look_up(&self, receipt: &Receipt) -> Result<LookedUp> {
        let found = self.look_up_many(std::slice::from_ref(receipt))?;
        found.into_iter().next().ok_or(Error::Closed)
    }

    /// The states of messages, in the order of the receipts, as of one moment.
    ///
    /// # Errors
    /// As [`Self::look_up`].
    pub fn look_up_many(&self, receipts: &[Receipt]) -> Result<Vec<LookedUp>> {
        let shared = &self.shared;
        shared.check()?;
        let book = shared.receipts.get().ok_or(Error::Closed)?;
        let here = receipts.iter().map(|receipt| book.may_be_here(receipt)).collect::<Result<Vec<bool>>>()?;
        // What was answered before this call is found. Waits for nothing.
        shared.apply_until(shared.positions.visible())?;
        let states: Vec<EntryState> = {
            let mut guard = shared.lock_owner()?;
            let schedule = &guard.get()?.owner.state().schedule;
            receipts.iter().map(|receipt| schedule.state(receipt.key.sequence)).collect()
        };
        let found = receipts.iter().zip(here).zip(states).map(|((receipt, here), state)| LookedUp {
            fate: if here { fate_of(state) } else { Fate::NotFound },
            subject: if here { shared.names.name_of(receipt.subject) } else { Arc::from("") },
            due: receipt.key.due,
            size: receipt.known_size(),
        });
        Ok(found.collect())
    }

    /// Begins a list of pending messages, in the order of due time and sequence. A message that stays pending until the
    /// list reaches it appears once. A message that arrives, is cancelled or becomes ready meanwhile may appear.
    ///
    /// # Errors
    /// `InvalidArgument` naming `due_before`, `after` or `subject`; `Poisoned`, `Closed`, `ForkedProcess`.
    pub fn pending(&self, query: &PendingQuery) -> Result<PendingReader> {
        let shared = &self.shared;
        shared.check()?;
        let scan = PendingScan::new(shared.issuer.stream, query)?;
        shared.apply_until(shared.positions.visible())?;
        Ok(PendingReader { shared: Arc::clone(shared), scan, names: HashMap::new() })
    }

    /// How many messages are pending, by the name of each matching subject.
    ///
    /// # Errors
    /// As `PendingOf::check`; `Poisoned`, `Closed`, `ForkedProcess`.
    pub fn pending_counts(&self, of: &PendingOf) -> Result<Vec<(String, u64)>> {
        let shared = &self.shared;
        shared.check()?;
        of.check()?;
        shared.apply_until(shared.positions.visible())?;
        let mut guard = shared.lock_owner()?;
        Ok(guard.get()?.owner.state().list_pending_counts(of))
    }
}

impl PendingReader {
    /// The next page, of at most `limit` messages; `None` at the end. A page may be empty although more follow.
    ///
    /// # Errors
    /// `Storage` if a run could not be read, and then nothing was skipped; `Poisoned`, `Closed`, `ForkedProcess`.
    pub fn next_page(&mut self, limit: usize) -> Result<Option<PendingPage>> {
        self.shared.check()?;
        let mut hidden = Vec::new();
        for _ in 0..LOOKS_MAX {
            let look = self.shared.lock_owner()?.get()?.owner.look_at_pending(&mut self.scan);
            match look {
                PendingLook::Again => {}
                PendingLook::End if hidden.is_empty() => return Ok(None),
                PendingLook::End => return Ok(Some(PendingPage { entries: Vec::new(), hidden })),
                PendingLook::View(view) => {
                    let PendingPiece { entries, hidden: found } = self.scan.read(view, limit)?;
                    hidden.extend(found);
                    if !entries.is_empty() {
                        let entries = entries.iter().map(|entry| self.tell(entry)).collect::<Result<Vec<_>>>()?;
                        return Ok(Some(PendingPage { entries, hidden }));
                    }
                }
            }
        }
        Ok(Some(PendingPage { entries: Vec::new(), hidden }))
    }

    /// The place of the list, to go on from later.
    pub fn cursor(&self) -> PendingCursor {
        self.scan.cursor()
    }

    /// True if the list is at its end.
    pub fn is_done(&self) -> bool {
        self.scan.is_done()
    }

    fn tell(&mut self, entry: &Entry) -> Result<Pending> {
        let (number, shared) = (entry.subject(), &self.shared);
        let subject = Arc::clone(self.names.entry(number).or_insert_with(|| shared.names.name_of(number)));
        let receipt = shared.receipt(entry.key(), number, SIZE_UNKNOWN)?;
        Ok(Pending { subject, receipt, attempt: entry.attempt(), published: entry.payload_sequence() })
    }
}

fn fate_of(state: EntryState) -> Fate {
    match state {
        EntryState::Pending => Fate::Pending,
        EntryState::Dispatched => Fate::Dispatched,
        EntryState::Cancelled => Fate::Cancelled,
        EntryState::Nothing => Fate::NotFound,
    }
}
