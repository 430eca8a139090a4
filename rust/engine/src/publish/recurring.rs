//! Recurring series: users begin, end and list them.

use delaymq_core::error::{Error, Result};
use delaymq_core::message_log::Class;
use delaymq_core::record::limits::{at_most, check_meta, check_name};
use delaymq_core::record::name::encode_subject;
use delaymq_core::record::recurring::{NewSeries, Recur, encode_recur};
use delaymq_core::schedule_log::DUE_MAX;
use delaymq_core::store::{
    ALL_SERIES_BYTES_MAX, Outcome, Receipt, SERIES_BYTES_MAX, SERIES_MAX, SalvagedSeries, Series, State,
};
use delaymq_core::units::{Millis, Sequence, SubjectNumber};
use delaymq_recurrence::{Refused, Rule};

pub use delaymq_core::record::expire::ExpiresAfter;
pub use delaymq_core::record::recurring::CatchUp;

use crate::commit::inbox::CommitUrgency;
use crate::commit::submissions::submission;
use crate::invalid;
use crate::operate::administration::unknown_subject;
use crate::options::IfExists;
use crate::shared::Shared;
use crate::store::Store;

/// The most bytes of the facts of an occurrence, without its message.
const OVERHEAD_BYTES: usize = 256;

/// The rule of a series.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recurs<'a> {
    /// Every so many milliseconds.
    Every(u64),
    /// By a cron pattern, in the time of a zone.
    Cron(&'a str),
}

/// A series that a caller asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewRecurring<'a> {
    /// Its name, unique in its subject.
    pub name: &'a str,
    /// When it happens.
    pub recurs: Recurs<'a>,
    /// The time zone of a pattern, an IANA name. `UTC` for an interval.
    pub zone: &'a str,
    /// No occurrence is earlier.
    pub start: Option<Millis>,
    /// What happens to missed occurrences.
    pub catch_up: CatchUp,
    /// What happens if the subject has a series of this name.
    pub if_exists: IfExists,
    /// When each message expires, if it does.
    pub expires_after: Option<ExpiresAfter>,
    /// Message id, tags and attributes of each message, encoded.
    pub meta: &'a [u8],
    /// The body of each message.
    pub body: &'a [u8],
}

/// An active series.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecurringListed {
    /// Its unique number: lists are in this order.
    pub number: u64,
    /// Its subject.
    pub subject: String,
    /// Its name in its subject.
    pub name: String,
    /// Its rule: a pattern, or `every …ms`.
    pub rule: String,
    /// The zone of the rule.
    pub zone: String,
    /// What happens to missed occurrences.
    pub catch_up: CatchUp,
    /// When each message expires, if it does.
    pub expires_after: Option<ExpiresAfter>,
    /// Its pending message; `None` if the next occurrence is due to be stored.
    pub pending: Option<Receipt>,
}

impl Store {
    /// Begins a series of messages, of which one is pending at a time. Returns the series of that name when it is
    /// durable: the new one, or, with [`IfExists::Keep`], the one that existed.
    ///
    /// # Errors
    /// `InvalidArgument` naming `subject`, `name`, `every`, `cron`, `zone`, `start` or `expires_after`, and `name` if one
    /// exists and [`IfExists::Refuse`] was given; `TooLarge` naming `body` or `series`; `NamesFull` naming `name`; `DiskFull`,
    /// `Poisoned`, `Closed`, `ForkedProcess`. Nothing is stored then.
    pub fn recur(&self, subject: &str, new: &NewRecurring<'_>) -> Result<RecurringListed> {
        let shared = &self.shared;
        shared.check()?;
        shared.check_intake()?;
        check_name("subject", subject)?;
        check_name("name", new.name)?;
        check_meta(new.meta)?;
        new.expires_after.map_or(Ok(()), ExpiresAfter::check)?;
        let (rule, after) = shared.rule_of(new)?;
        let lengths = [new.name.len(), rule.len(), new.zone.len(), new.meta.len(), new.body.len()];
        let bytes = lengths.into_iter().fold(0, usize::saturating_add);
        at_most("body", SERIES_BYTES_MAX.min(shared.submission_bytes_max().saturating_sub(OVERHEAD_BYTES)), bytes)?;
        let series = NewSeries {
            subject: SubjectNumber(0),
            name: new.name,
            if_exists: new.if_exists,
            rule: &rule,
            zone: new.zone,
            catch_up: new.catch_up,
            after,
            expires_after: new.expires_after,
            meta: new.meta,
            body: new.body,
        };
        let (number, outcome) = shared.begin_series(subject, series)?;
        match outcome {
            Some(Outcome::SeriesBegun(_)) => shared.propose_first_occurrence(number, new.name)?,
            Some(Outcome::SeriesThere) if new.if_exists == IfExists::Keep => {}
            refused => return Err(refusal(subject, new.name, refused)),
        }
        let listed = self.look(|state| Ok(shared.listed(state, number, new.name)))?;
        // Another thread has ended it meanwhile.
        listed.ok_or_else(|| unknown_series(subject, new.name))
    }

    /// Begins a series that was salvaged from another store, behind its salvaged messages.
    /// Fails with `TooLarge` naming `series`, `NamesFull` naming `name`, `DiskFull`, `Poisoned`, `Closed`.
    pub(crate) fn begin_salvaged(&self, saved: &SalvagedSeries) -> Result<()> {
        let recurs = &saved.recurs;
        let series = NewSeries {
            subject: SubjectNumber(0),
            name: &recurs.name,
            if_exists: IfExists::Replace,
            rule: &recurs.rule,
            zone: &recurs.zone,
            catch_up: recurs.catch_up,
            after: saved.last_due,
            expires_after: recurs.expires_after,
            meta: &recurs.meta,
            body: &recurs.body,
        };
        match self.shared.begin_series(&saved.subject, series)? {
            (_, Some(Outcome::SeriesBegun(_))) => Ok(()),
            (_, refused) => Err(refusal(&saved.subject, &recurs.name, refused)),
        }
    }

    /// Ends a series; its pending message is cancelled. False if there is none of that name. Returns when it is
    /// durable.
    ///
    /// # Errors
    /// `InvalidArgument` naming `subject` or `name`; `Poisoned`, `Closed`, `ForkedProcess`.
    pub fn end_recurring(&self, subject: &str, name: &str) -> Result<bool> {
        let shared = &self.shared;
        shared.check()?;
        check_name("subject", subject)?;
        check_name("name", name)?;
        let Some(subject) = shared.names.subject_if_known(subject) else { return Ok(false) };
        let mut records = Vec::new();
        encode_recur(&mut records, &Recur::End { subject, name });
        shared.check_intake()?;
        let found = shared.ask_to_keep(submission(&records, 1, Class::Finishing), CommitUrgency::URGENT)?;
        Ok(matches!(found.first(), Some(Some(Outcome::SeriesEnded(_)))))
    }

    /// Series with a number above `after`, of one subject or of all, by number, at most `count_max`.
    ///
    /// # Errors
    /// `InvalidArgument` naming `subject` if the store has none of that name; `Poisoned`, `Closed`,
    /// `ForkedProcess`.
    pub fn recurring(&self, subject: Option<&str>, after: u64, count_max: usize) -> Result<Vec<RecurringListed>> {
        if let Some(subject) = subject {
            check_name("subject", subject)?;
        }
        self.look(|state| {
            let number = subject.map(|name| state.subjects.number(name).ok_or_else(|| unknown_subject(name)));
            let number = number.transpose()?;
            let all = state.recurring.after(Sequence(after));
            let of_it = all.filter(|(_, series)| number.is_none_or(|number| series.recurs.subject == number));
            Ok(of_it.take(count_max).map(|(number, series)| self.shared.row(number, series)).collect())
        })
    }
}

impl Shared {
    /// Proposes a series on the subject of this name. Returns its outcome.
    fn begin_series(&self, subject: &str, series: NewSeries<'_>) -> Result<(SubjectNumber, Option<Outcome>)> {
        let named = self.names.subject(subject)?;
        let mut records = Vec::new();
        if named.needs_fact {
            encode_subject(&mut records, named.number, &named.name);
        }
        encode_recur(&mut records, &Recur::Begin(NewSeries { subject: named.number, ..series }));
        let submission = submission(&records, 1 + usize::from(named.needs_fact), Class::Growing);
        let found = self.ask_to_keep(submission, CommitUrgency::URGENT)?;
        if named.needs_fact {
            self.names.submitted(std::slice::from_ref(&named));
        }
        Ok((named.number, found.last().copied().flatten()))
    }

    /// The text of the rule, and the time after which its first occurrence comes.
    fn rule_of(&self, new: &NewRecurring<'_>) -> Result<(String, Millis)> {
        let zones = self.time_zones.current();
        let (part, text, rule) = match new.recurs {
            Recurs::Every(interval_ms) => {
                let text = Rule::every_text(interval_ms);
                let rule = Rule::parse(&text, new.zone, &zones);
                ("every", text, rule)
            }
            Recurs::Cron(pattern) => ("cron", pattern.to_owned(), Rule::cron(pattern, new.zone, &zones)),
        };
        let rule = rule.map_err(refused_rule)?;
        let (now, from) = self.now();
        let start = new.start.unwrap_or_default();
        self.options.check_ahead("start", start, from)?;
        let after = rule.counts_from(now.0, new.start.map(|start| start.0));
        let after = after
            .ok_or_else(|| invalid("start", "a time that is an interval and more after 1970", start.to_string()))?;
        let first = rule.next_after(after).map_err(refused_rule)?;
        let Some(first) = first.map(Millis).filter(|first| *first <= DUE_MAX) else {
            return Err(invalid(part, "a rule that happens within ten years", format!("{text:?}, which does not")));
        };
        self.options.check_ahead(part, first, from)?;
        Ok((text, Millis(after)))
    }

    fn listed(&self, state: &State, subject: SubjectNumber, name: &str) -> Option<RecurringListed> {
        let number = state.recurring.named(subject, name)?;
        Some(self.row(number, state.recurring.get(number)?))
    }

    fn row(&self, number: Sequence, series: &Series) -> RecurringListed {
        let recurs = &series.recurs;
        let size = u32::try_from(recurs.body.len()).unwrap_or(u32::MAX);
        let pending = series.pending.and_then(|key| self.receipt(key, recurs.subject, size).ok());
        RecurringListed {
            number: number.0,
            subject: self.names.name_of(recurs.subject).to_string(),
            name: recurs.name.clone(),
            rule: recurs.rule.clone(),
            zone: recurs.zone.clone(),
            catch_up: recurs.catch_up,
            expires_after: recurs.expires_after,
            pending,
        }
    }
}

fn refused_rule(refused: Refused) -> Error {
    let Refused { part, expected, found } = refused;
    invalid(part, expected, found)
}

fn unknown_series(subject: &str, name: &str) -> Error {
    invalid("name", "a series of the subject", format!("{name:?}, which {subject:?} does not have"))
}

fn refusal(subject: &str, name: &str, found: Option<Outcome>) -> Error {
    match found {
        Some(Outcome::SeriesThere) => {
            invalid("name", "a name that no series of the subject has", format!("{name:?}, which {subject:?} has"))
        }
        Some(Outcome::SeriesFull) => Error::NamesFull { argument: "name", limit: SERIES_MAX as u64 },
        Some(Outcome::SeriesTooLarge) => {
            let limit = ALL_SERIES_BYTES_MAX as u64;
            Error::TooLarge { argument: "series", limit, found: limit.saturating_add(1) }
        }
        _ => Error::Closed,
    }
}

#[cfg(test)]
#[path = "recurring_tests.rs"]
mod tests;
