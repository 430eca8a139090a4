//! The table `action`: every fact that is not a message, as it is in the log. It does not say whether a fact changed
//! anything, since apply decides that.

use delaymq_core::error::Result;
use delaymq_core::message_log::Find;
use delaymq_core::record::header::RawRecord;
use delaymq_core::record::message::KIND_MESSAGE;

use crate::plan::range::Range;
use crate::read::log_walk::{At, Walked, each_record, fact_of};
use crate::rows::action_row::{ActionRow, Said};
use crate::rows::row_batches::Gathered;

/// Makes rows of what is found in a piece of the log.
pub(crate) struct ActionRows<'a> {
    range: &'a Range,
    path: &'a str,
}

impl<'a> ActionRows<'a> {
    /// `path` is that of the piece's segment.
    pub(crate) fn new(range: &'a Range, path: &'a str) -> Self {
        Self { range, path }
    }

    /// Takes in what was found next.
    pub(crate) fn take(&self, find: Find<'_>, sink: &mut Gathered) {
        let filter = &self.range.filter;
        each_record(
            find,
            self.path,
            |time| filter.takes_published(time),
            |walked| match walked {
                Walked::Damage(error) => sink.damage(error),
                Walked::Record(record, at) => {
                    if record.header.kind != KIND_MESSAGE
                        && filter.takes_sequence(at.fact)
                        && let Err(error) = self.row(&record, at, sink)
                    {
                        sink.damage(error);
                    }
                }
            },
        );
    }

    fn row(&self, record: &RawRecord<'_>, at: At, sink: &mut Gathered) -> Result<()> {
        let (filter, parties) = (&self.range.filter, &self.range.parties);
        let fact = fact_of(record, &at, self.path)?;
        let Some(said) = Said::of(&fact) else { return Ok(()) };
        let group = said.group_number.and_then(|number| parties.groups.get(&number));
        let subject = said.subject.or(group.map(|(subject, _)| *subject));
        let is_asked = subject.is_some_and(|subject| self.range.names.contains_key(&subject));
        if (filter.only_named && !is_asked) || !filter.takes_due(said.due) {
            return Ok(());
        }
        let name = |number| self.range.names.get(&number).or_else(|| parties.subjects.get(&number));
        let consumer = said.consumer_number.and_then(|number| parties.consumers.get(&number));
        sink.row(&ActionRow {
            at,
            subject: subject.and_then(name).map(String::as_str),
            target_subject: said.target_subject.and_then(name).map(String::as_str),
            group: said.group.or(group.map(|(_, name)| name.as_str())),
            consumer: said.consumer.or(consumer.map(String::as_str)),
            file: self.path,
            said: &said,
        });
        Ok(())
    }
}
