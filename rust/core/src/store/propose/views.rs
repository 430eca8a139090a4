//! Looks up the postings of ready numbers: in memory, in what was loaded, or by a load that the caller must do.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::load_request::{LoadRequest, LoadSource};
use super::loaded_postings::Loaded;
use crate::dispatch_log::Posting;
use crate::queues::Group;
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
    Load(LoadRequest),
    Gone,
}

impl Views<'_> {
    /// Finds the posting of the first of these numbers, or the load that reads it together with some of the others.
    pub(super) fn find(&mut self, group: &Group, wanted: Range<ReadyNumber>) -> Found {
        let first = wanted.start;
        if let Some(entry) = self.loaded.get(group.number, first) {
            return Found::Entry(entry);
        }
        let (group, subject) = (group.number, group.subject);
        let rows = self.loaded.rows_wanted();
        match self.state.dispatch.posting(subject, first) {
            Posting::Entry(entry) => Found::Entry(entry),
            Posting::InRun { run, count: there } => {
                let wanted = there.min(wanted.end.since(first));
                let count = wanted.min(rows).max(1);
                let source = LoadSource::Run { first, run, count, beyond: wanted.saturating_sub(count) };
                Found::Load(LoadRequest { group, subject, source })
            }
            Posting::InLog => {
                let (asked, before) = ((subject, first, rows.max(1)), self.reading.get_mut(&group).and_then(Vec::pop));
                let request = HistoryRequest::of(self.storage, self.state, asked, before);
                Found::Load(LoadRequest { group, subject, source: LoadSource::Log(Box::new(request)) })
            }
            Posting::Gone => Found::Gone,
        }
    }
}
