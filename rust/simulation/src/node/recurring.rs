//! Recurring series: users begin and end them, and the node proposes their occurrences when it is asked to.

use delaymq_core::error::{Error, Result};
use delaymq_core::message_log::Class;
use delaymq_core::record::recurring::{CatchUp, NewSeries, Recur, encode_recur};
use delaymq_core::record::terms::IfExists;
use delaymq_core::store::{Owed, Receipt};
use delaymq_core::units::{DueKey, Millis, Sequence};
use delaymq_recurrence::{Rule, Zones, next_turn};

use super::Node;
use super::draft::{Draft, last_of};

/// A series to begin.
#[derive(Clone, Debug)]
pub struct NewRecurring<'a> {
    /// The name of its subject.
    pub subject: &'a str,
    /// Its own name.
    pub name: &'a str,
    /// What happens if the subject has a series of this name.
    pub if_exists: IfExists,
    /// The rule of its times.
    pub rule: &'a str,
    /// What happens to missed occurrences.
    pub catch_up: CatchUp,
    /// The first occurrence comes after this time.
    pub after: Millis,
    /// The body of each message.
    pub body: &'a [u8],
}

/// An occurrence that the log's queue has accepted.
#[derive(Clone, Debug)]
pub struct ProposedOccurrence {
    /// The occurrence that was due.
    pub owed: Owed,
    /// The trusted time at which it was proposed.
    pub now: Millis,
    /// The receipt of its message; `None` if the series is over.
    pub receipt: Option<Receipt>,
}

impl Node {
    /// Submits the beginning of a series, in UTC.
    pub fn begin_series(&mut self, new: &NewRecurring<'_>) -> Result<Option<Sequence>> {
        let mut draft = Draft::default();
        let series = NewSeries {
            subject: self.subject_in(&mut draft, new.subject)?,
            name: new.name,
            if_exists: new.if_exists,
            rule: new.rule,
            zone: "UTC",
            catch_up: new.catch_up,
            expires_after: None,
            after: new.after,
            meta: b"",
            body: new.body,
        };
        draft.add(|records| encode_recur(records, &Recur::Begin(series)));
        Ok(self.submit_draft(&draft, Class::Growing, false)?.map(last_of))
    }

    /// Submits the end of a series.
    pub fn end_series(&mut self, subject: &str, name: &str) -> Result<Option<Sequence>> {
        let subject = self.subject_number(subject).unwrap_or_default();
        self.submit_one(Class::Finishing, false, |records| encode_recur(records, &Recur::End { subject, name }))
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

    /// Proposes the occurrences that are due, of at most `series_max` series, as the engine does. Adds to `proposed`
    /// what was accepted, also before an error. With `is_told_twice` the owner does not learn of the proposals, so the
    /// next call makes them again. Nothing is proposed while the clock holds dispatch.
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
    let rule = Rule::parse(&owed.recurs.rule, &owed.recurs.zone, &Zones::bundled());
    let due = rule.and_then(|rule| next_turn(&rule, catch_up, owed.after.0, now.0));
    due.map(|due| due.map(Millis)).map_err(|refused| Error::InvalidArgument {
        argument: "rule",
        expected: refused.expected,
        found: refused.found,
    })
}
