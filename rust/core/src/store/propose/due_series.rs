//! What series owe, for who finds out when that is due.

use std::sync::Arc;

use crate::record::message::{Message, encode_message};
use crate::record::recurring::{Occurrence, Recur, encode_occurrence, encode_recur};
use crate::store::owner::Owner;
use crate::store::state::recurring::{Recurs, Series};
use crate::units::{Millis, Sequence};

/// A series that owes its next occurrence.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Owed {
    /// The sequence of the fact that began it.
    pub series: Sequence,
    /// What it is.
    pub recurs: Arc<Recurs>,
    /// The next occurrence is due after this.
    pub after: Millis,
}

impl Owed {
    /// Appends the facts that say when the next occurrence is due, which is proposed at `now`, or that there is none
    /// any more; how many these are. They belong into one submission.
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
            meta: &recurs.meta,
            body: &recurs.body,
        };
        encode_message(out, &message);
        2
    }
}

impl Owner {
    /// True where a series owes an occurrence that nobody has proposed.
    pub fn owes(&self) -> bool {
        self.state.recurring.has_unproposed()
    }

    /// True where that has become so of one since the last call.
    pub fn take_newly_owing(&mut self) -> bool {
        self.state.recurring.take_news()
    }

    /// Series that owe an occurrence which nobody has proposed, at most `count_max`: in order, those behind `after`
    /// first, then from the first one on. Who goes on behind the last of them comes to each.
    pub fn owed(&self, after: Sequence, count_max: usize) -> Vec<Owed> {
        let owed =
            |(series, one): (Sequence, &Series)| Owed { series, recurs: Arc::clone(&one.recurs), after: one.last_due };
        self.state.recurring.unproposed_from(after).take(count_max).map(owed).collect()
    }

    /// What this series owes is not asked for again: its facts were accepted by the log's queue, until they are
    /// applied; or nobody can tell when it is due, until the store is opened again.
    pub fn occurrence_submitted(&mut self, series: Sequence) {
        self.state.recurring.is_proposed(series);
    }
}
