//! Series whose next occurrence must be proposed. The core does not know recurrence rules: the caller computes the
//! due time.

use std::sync::Arc;

use crate::record::message::{Message, encode_message};
use crate::record::recurring::{Occurrence, Recur, encode_occurrence, encode_recur};
use crate::store::owner::Owner;
use crate::store::state::recurring::{Recurs, Series};
use crate::units::{Millis, Sequence};

/// A series whose next occurrence must be proposed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Owed {
    /// The sequence of the fact that began it.
    pub series: Sequence,
    /// Its content: subject, name, rule and message.
    pub recurs: Arc<Recurs>,
    /// The next occurrence has a due time after this.
    pub after: Millis,
}

impl Owed {
    /// Appends the facts that begin the next occurrence, which is proposed at `now`; if `due` is `None`, the fact that
    /// ends the series. Returns how many facts these are. They belong in one submission.
    pub fn encode(&self, due: Option<Millis>, now: Millis, out: &mut Vec<u8>) -> u32 {
        let Some(due) = due else {
            encode_recur(out, &Recur::Over { series: self.series });
            return 1;
        };
        encode_occurrence(out, Occurrence { series: self.series, after: self.after });
        let recurs = &self.recurs;
        let message = Message {
            due,
            published: now,
            subject: recurs.subject,
            opaque: true,
            expiry: recurs.expires_after.map(|expires| expires.of(due)),
            meta: &recurs.meta,
            body: &recurs.body,
        };
        encode_message(out, &message);
        2
    }
}

impl Owner {
    /// True if a series needs a next occurrence that is not proposed yet.
    pub fn owes(&self) -> bool {
        self.state.recurring.has_unproposed()
    }

    /// True if a series was added to these since the last call.
    pub fn take_newly_owing(&mut self) -> bool {
        self.state.recurring.take_news()
    }

    /// Returns at most `count_max` series that need a next occurrence that is not proposed yet, by number: those after
    /// `after` first, then from the first one on. A caller that continues after the last one returned reaches every
    /// series.
    pub fn owed(&self, after: Sequence, count_max: usize) -> Vec<Owed> {
        let owed =
            |(series, one): (Sequence, &Series)| Owed { series, recurs: Arc::clone(&one.recurs), after: one.last_due };
        self.state.recurring.unproposed_from(after).take(count_max).map(owed).collect()
    }

    /// Stops returning this series from [`Self::owed`]: the log's queue accepted its facts, and they are not applied
    /// yet; or the caller cannot compute the next due time until the store is opened again.
    pub fn occurrence_submitted(&mut self, series: Sequence) {
        self.state.recurring.is_proposed(series);
    }
}
