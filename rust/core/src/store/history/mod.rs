//! The history of a subject: messages that all groups have finished, and that a group reads again.
//!
//! In: the log and the schedule runs that are kept, and a ready number. Out: entries by ready number, as a dispatch run
//! would have them. No run keeps rows of what is finished, so a store in which nobody reads again writes nothing more.
//! The log has every message that became ready, in the order of the ready numbers; the two bits of each sequence say
//! which facts counted. Read `ready_facts` (what a fact makes ready), then `reading` (a piece of the log, without the
//! owner), `payload_places` and `segment_index` (where the payloads are), then `numbering` (the owner gives the numbers).
//! `start` says where a group begins, and `start_search` finds that place by a time or a receipt, with `start_from_end`
//! where the end of a segment is nearer.

mod numbering;
mod payload_places;
mod reading;
pub(super) mod ready_facts;
mod segment_index;
#[cfg(test)]
mod segment_index_tests;
pub(super) mod start;
mod start_from_end;
pub(super) mod start_search;

use crate::error::Result;
use crate::schedule_log::Entry;
use crate::store::owner::Owner;
use crate::units::{ReadyNumber, SubjectNumber};

pub(in crate::store) use numbering::{Continuation, find_in_log};
pub(in crate::store) use reading::{HistoryPiece, HistoryRequest};

impl Owner {
    /// The entry of an unfinished ready message, wherever it is. May read much of the log. `None` if nothing has it.
    ///
    /// # Errors
    /// `Storage`; `Corrupt` if the row of the message is damaged.
    pub fn ready_entry(&mut self, subject: SubjectNumber, number: ReadyNumber) -> Result<Option<Entry>> {
        match find_in_log(&self.effects.storage, &mut self.state, subject, number)? {
            Some(entry) => Ok(Some(entry)),
            None => self.state.dispatch.find(subject, number),
        }
    }
}
