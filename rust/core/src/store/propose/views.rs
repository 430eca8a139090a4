//! Looks up the postings of ready numbers: in memory, in what was loaded, or by a load that the caller must do.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::load_request::{LoadRequest, LoadSource};
use super::loaded_postings::Loaded;
use crate::dispatch_log::Posting;
use crate::error::Error;
use crate::queues::Group;
use crate::run::{RUN_FOLDER, Run};
use crate::schedule_log::Entry;
use crate::storage::Storage;
use crate::store::history::{Continuation, HistoryRequest};
use crate::store::state::State;
use crate::units::{GroupNumber, ReadyNumber};

/// The places where a number is looked up.
pub(super) struct Views<'a> {
    pub(super) storage: &'a Arc<dyn Storage>,
    pub(super) state: &'a State,
    pub(super) loaded: &'a Loaded,
    pub(super) reading: &'a mut BTreeMap<GroupNumber, Vec<Continuation>>,
}

/// Where a posting is.
pub(super) enum Found {
    Entry(Entry),
    /// [`Views::load`] says what must be read.
    Unread(Unread),
    Gone,
}

/// A posting that must be read.
pub(super) enum Unread {
    /// This run has so many postings from it on.
    InRun {
        run: Arc<Run>,
        count: u64,
    },
    InLog,
}

impl Views<'_> {
    /// Finds the posting of a number.
    pub(super) fn find(&self, group: &Group, number: ReadyNumber) -> Found {
        if let Some(entry) = self.loaded.get(group.number, number) {
            return Found::Entry(entry);
        }
        match self.state.dispatch.posting(group.subject, number) {
            Posting::Entry(entry) => Found::Entry(entry),
            Posting::InRun { run, count } => Found::Unread(Unread::InRun { run, count }),
            Posting::InLog => Found::Unread(Unread::InLog),
            Posting::Gone => Found::Gone,
        }
    }

    /// The load that reads the unread posting of the first of these numbers, together with some of the others. It takes
    /// along where a reader of the log goes on, with its indexes: another one would have to read them again.
    pub(super) fn load(&mut self, group: &Group, wanted: Range<ReadyNumber>, unread: Unread) -> LoadRequest {
        let (first, rows) = (wanted.start, self.loaded.rows_wanted());
        let (group, subject) = (group.number, group.subject);
        let source = match unread {
            Unread::InRun { run, count: there } => {
                let wanted = there.min(wanted.end.since(first));
                let count = wanted.min(rows).max(1);
                LoadSource::Run { first, run, count, beyond: wanted.saturating_sub(count) }
            }
            Unread::InLog => {
                let (asked, before) = ((subject, first, rows.max(1)), self.reading.get_mut(&group).and_then(Vec::pop));
                LoadSource::Log(Box::new(HistoryRequest::of(self.storage, self.state, asked, before)))
            }
        };
        LoadRequest { group, subject, source }
    }
}

/// Reports an unfinished message without a posting in memory or in any run. The views contradict the log then, and no
/// message may be skipped.
pub(super) fn no_posting(group: &Group, number: ReadyNumber) -> Error {
    let expected = format!("a posting of ready number {number} of subject {}", group.subject);
    Error::corrupt(RUN_FOLDER, 0, expected, "none")
}
