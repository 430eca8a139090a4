//! Recurring series: users begin and end them, and the node proposes occurrences whenever it is asked to.

use delaymq_core::error::{Error, Result};
use delaymq_core::message_log::Class;
use delaymq_core::record::name::encode_subject;
use delaymq_core::record::recurring::{CatchUp, NewSeries, Recur, encode_recur};
use delaymq_core::record::terms::IfExists;
use delaymq_core::store::{Owed, Receipt};
use delaymq_core::units::{DueKey, Millis, Sequence};
use delaymq_recurrence::turn_of;

use super::Node;

/// A series to begin.
#[derive(Clone, Debug)]
pub struct NewRecurring<'a> {
    /// The name of its subject.
    pub subject: &'a str,
    /// Its own.
    pub name: &'a str,
    /// What becomes of it where there is one of its name.
    pub if_exists: IfExists,
    /// When it happens.
    pub rule: &'a str,
    /// What is done about what is missed.
    pub catch_up: CatchUp,
    /// The first occurrence comes after this.
    pub after: Millis,
    /// The body of each message.
    pub body: &'a [u8],
}

/// An occurrence that the log's queue has accepted.
#[derive(Clone, Debug)]
pub struct ProposedOccurrence {
    /// What was owed.
    pub owed: Owed,
    /// The trusted time at which it was proposed.
    pub now: Millis,
    /// Of the message; `None` where the series is over.
    pub receipt: Option<Receipt>,
}

impl Node {
    /// Asks for a series, in UTC. The sequence is that of the fact, under which its answer is found; `None` where it
    /// must wait for room.
    ///
    /// # Errors
    /// As [`Self::submit`].
    pub fn begin_series(&mut self, new: &NewRecurring<'_>) -> Result<Option<Sequence>> {
        let subject = self.names.assign(new.subject)?;
        let mut records = Vec::new();
        if subject.needs_fact {
            encode_subject(&mut records, subject.number, new.subject);
        }
        let series = NewSeries {
            subject: subject.number,
            name: new.name,
            if_exists: new.if_exists,
            rule: new.rule,
            zone: "UTC",
            catch_up: new.catch_up,
            after: new.after,
            meta: b"",
            body: new.body,
        };
        encode_recur(&mut records, &Recur::Begin(series));
        let count = 1 + u32::from(subject.needs_fact);
        let Some(range) = self.submit(&records, count, Class::Growing, false)? else { return Ok(None) };
        self.names.confirm(new.subject);
        Ok(Some(Sequence(range.end.0.saturating_sub(1))))
    }

    /// Asks for the end of a series, as [`Self::begin_series`] asks.
    ///
    /// # Errors
    /// As [`Self::submit`].
    pub fn end_series(&mut self, subject: &str, name: &str) -> Result<Option<Sequence>> {
        let subject = self.subject_number(subject).unwrap_or_default();
        let mut records = Vec::new();
        encode_recur(&mut records, &Recur::End { subject, name });
        Ok(self.submit(&records, 1, Class::Finishing, false)?.map(|range| range.start))
    }

    /// The number of the series of this name, and the receipt of its pending message.
    pub fn series_named(&self, subject: &str, name: &str) -> Option<(Sequence, Option<Receipt>)> {
        let state = self.owner.state();
        let number = state.recurring.named(state.subjects.number(subject)?, name)?;
        let series = state.recurring.get(number)?;
        let size = u32::try_from(series.recurs.body.len()).unwrap_or(u32::MAX);
        let receipt = series.pending.and_then(|key| self.receipts.receipt_of(key, series.recurs.subject, size));
        Some((number, receipt))
    }

    /// Proposes what is owed, of at most so many series, as an engine does, and adds to `proposed` what was accepted,
    /// also before an error; where it `is_told_twice` it forgets that, and proposes the same when it looks again. A
    /// clock that holds dispatch says nothing of what is due.
    ///
    /// # Errors
    /// As [`Self::submit`]; `InvalidArgument` where a rule is none.
    pub fn propose_occurrences(
        &mut self,
        series_max: usize,
        is_told_twice: bool,
        proposed: &mut Vec<ProposedOccurrence>,
    ) -> Result<()> {
        let now = self.reading.now;
        if self.reading.held {
            return Ok(());
        }
        for owed in self.owner.owed(Sequence(0), series_max) {
            let due = due_of(&owed, now)?;
            let mut records = Vec::new();
            let count = owed.encode(due, now, &mut records);
            let Some(range) = self.submit(&records, count, Class::Growing, false)? else { break };
            if !is_told_twice {
                self.owner.occurrence_submitted(owed.series);
            }
            let size = u32::try_from(owed.recurs.body.len()).unwrap_or(u32::MAX);
            let receipt = due.and_then(|due| {
                let key = DueKey { due, sequence: range.start.next() };
                self.receipts.receipt_of(key, owed.recurs.subject, size)
            });
            proposed.push(ProposedOccurrence { owed, now, receipt });
        }
        Ok(())
    }
}

fn due_of(owed: &Owed, now: Millis) -> Result<Option<Millis>> {
    let catch_up = match owed.recurs.catch_up {
        CatchUp::One => delaymq_recurrence::CatchUp::One,
        CatchUp::Skip => delaymq_recurrence::CatchUp::Skip,
        CatchUp::All => delaymq_recurrence::CatchUp::All,
    };
    let due = turn_of(&owed.recurs.rule, &owed.recurs.zone, catch_up, owed.after.0, now.0);
    due.map(|due| due.map(Millis)).map_err(|refused| Error::InvalidArgument {
        argument: "rule",
        expected: refused.expected,
        found: refused.found,
    })
}
