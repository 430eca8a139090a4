//! Requests of users with keys and ids.

use delaymq_core::error::Result;
use delaymq_core::message_log::Class;
use delaymq_core::record::message::{Message, encode_message};
use delaymq_core::record::name::encode_subject;
use delaymq_core::record::terms::{
    ByKey, IfExists, KeyCommand, MessageTerms, TermsLimits, encode_by_key, encode_terms,
};
use delaymq_core::store::{Receipt, command_hash, name_hash};
use delaymq_core::units::{DueKey, Sequence};

use super::{Due, NewMessage, Node};

/// On which terms a message is published.
#[derive(Clone, Debug)]
pub struct NewTerms {
    /// Its key.
    pub key: Option<String>,
    /// What becomes of it where that is taken.
    pub if_exists: IfExists,
    /// The id that a repetition is told by.
    pub id: Option<String>,
}

/// The id of a command by a key, where it has one, and how many of which age are remembered.
pub type CommandId<'a> = Option<(&'a str, TermsLimits)>;

/// A publish on terms that the log's queue has accepted.
#[derive(Clone, Debug)]
pub struct PublishedOnTerms {
    /// Under this the answer for the whole is found.
    pub terms: Sequence,
    /// One for each message that is stored, in order; under their sequences the answers for each are found.
    pub receipts: Vec<Receipt>,
}

/// A move by a key that the log's queue has accepted.
#[derive(Clone, Copy, Debug)]
pub struct MovedByKey {
    /// When it is due if it is moved, and the sequence of the command.
    pub key: DueKey,
    /// What had the key when it was asked.
    pub target: Option<DueKey>,
    /// The delay that was asked for.
    pub delay_ms: Option<u64>,
}

/// A command by a key that the log's queue has accepted.
#[derive(Clone, Copy, Debug)]
pub struct CommandByKey {
    /// Under this its answer is found.
    pub sequence: Sequence,
    /// What it asks to move, where that is what it asks.
    pub moved: Option<MovedByKey>,
}

/// Commands by keys of one subject that the log's queue has accepted.
#[derive(Clone, Debug)]
pub struct AskedByKeys {
    /// Where they have an id, the fact that says so; under this it is found whether there is room for their ids.
    pub terms: Option<Sequence>,
    /// One for each key, in order.
    pub commands: Vec<CommandByKey>,
}

impl Node {
    /// Publishes messages of one subject on terms. `None` where they must wait for room.
    ///
    /// # Errors
    /// As [`Self::publish`].
    pub fn publish_on_terms(
        &mut self,
        messages: &[(NewMessage<'_>, NewTerms)],
        limits: TermsLimits,
    ) -> Result<Option<PublishedOnTerms>> {
        let Some((first, _)) = messages.first() else { return Ok(None) };
        let name = first.subject;
        let subject = self.names.assign(name)?;
        let mut records = Vec::new();
        let mut facts = 1_usize;
        if subject.needs_fact {
            encode_subject(&mut records, subject.number, name);
            facts = 2;
        }
        let terms = messages.iter().zip(0..).map(|((_, terms), place)| MessageTerms {
            place,
            key: terms.key.as_ref().map(|key| name_hash(name, key)),
            if_exists: terms.if_exists,
            id: terms.id.as_ref().map(|id| name_hash(name, id)),
        });
        let terms: Vec<MessageTerms> = terms.collect();
        encode_terms(&mut records, u32::try_from(messages.len()).unwrap_or(u32::MAX), limits, &terms);
        let published = self.reading.now;
        let mut dues = Vec::new();
        for (message, _) in messages {
            let due = self.due_time(message.due)?;
            dues.push(due);
            let stored =
                Message { due, published, subject: subject.number, opaque: true, meta: b"", body: message.body };
            encode_message(&mut records, &stored);
        }
        let count = u32::try_from(messages.len().saturating_add(facts)).unwrap_or(u32::MAX);
        let Some(range) = self.submit(&records, count, Class::Growing, false)? else { return Ok(None) };
        if subject.needs_fact {
            self.names.confirm(name);
        }
        let first = range.start.plus(facts as u64);
        let receipts = messages.iter().zip(dues).zip(0_u64..).map(|(((message, _), due), place)| {
            let key = DueKey { due, sequence: first.plus(place) };
            let size = u32::try_from(message.body.len()).unwrap_or(u32::MAX);
            Receipt::new(self.identity.stream.id, self.epoch, key, subject.number, size, &self.nonce)
        });
        let terms = range.start.plus(facts as u64 - 1);
        Ok(Some(PublishedOnTerms { terms, receipts: receipts.collect() }))
    }

    /// Asks to cancel the message that has a key, as [`Self::cancel`] asks.
    ///
    /// # Errors
    /// As [`Self::submit`].
    pub fn cancel_key(&mut self, subject: &str, key: &str, id: CommandId<'_>) -> Result<Option<Sequence>> {
        let asked = self.ask_by_keys(subject, &[(key, None)], id)?;
        Ok(asked.and_then(|asked| Some(asked.commands.first()?.sequence)))
    }

    /// Asks to move the message that has a key, as [`Self::cancel`] asks; beside the command, what it asks to move.
    ///
    /// # Errors
    /// As [`Self::move_to`].
    pub fn move_key(&mut self, subject: &str, key: &str, due: Due, id: CommandId<'_>) -> Result<Option<MovedByKey>> {
        let asked = self.ask_by_keys(subject, &[(key, Some(due))], id)?;
        Ok(asked.and_then(|asked| asked.commands.first()?.moved))
    }

    /// The entry that has a key, as applied.
    pub fn key_holder(&self, subject: &str, key: &str) -> Option<DueKey> {
        self.owner().state().keys.get(name_hash(subject, key)).map(|held| held.key)
    }

    /// Asks to cancel the messages of a subject that have these keys, or to move those that have a time, as one call for
    /// many does. `None` where they must wait for room.
    ///
    /// # Errors
    /// As [`Self::move_to`].
    pub fn ask_by_keys(
        &mut self,
        subject: &str,
        asked: &[(&str, Option<Due>)],
        id: CommandId<'_>,
    ) -> Result<Option<AskedByKeys>> {
        let mut commands = Vec::with_capacity(asked.len());
        for (key, due) in asked {
            let delay_ms = if let Some(Due::After(delay_ms)) = due { Some(*delay_ms) } else { None };
            let command = match due {
                Some(due) => KeyCommand::Move { due: self.due_time(*due)?, delay_ms },
                None => KeyCommand::Cancel,
            };
            commands.push((*key, self.key_holder(subject, key), command));
        }
        let mut records = Vec::new();
        let count = u32::try_from(commands.len()).unwrap_or(u32::MAX);
        if let Some((id, limits)) = id {
            let terms = |(place, (key, _, command)): (u32, &(&str, Option<DueKey>, KeyCommand))| {
                let id = Some(command_hash(subject, key, *command, id));
                MessageTerms { place, key: None, if_exists: IfExists::Replace, id }
            };
            let rows: Vec<MessageTerms> = (0..).zip(&commands).map(terms).collect();
            encode_terms(&mut records, count, limits, &rows);
        }
        let number = self.subject_number(subject).unwrap_or_default();
        for (key, target, command) in &commands {
            let key = name_hash(subject, key);
            encode_by_key(&mut records, &ByKey { key, subject: number, target: *target, command: *command });
        }
        let ahead = u32::from(id.is_some());
        let range = self.submit(&records, ahead.saturating_add(count), Class::Finishing, false)?;
        let Some(range) = range else { return Ok(None) };
        let accepted = |(place, (_, target, command)): (u64, (&str, Option<DueKey>, KeyCommand))| {
            let sequence = range.start.plus(place);
            let moved = match command {
                KeyCommand::Move { due, delay_ms } => {
                    Some(MovedByKey { key: DueKey { due, sequence }, target, delay_ms })
                }
                KeyCommand::Cancel => None,
            };
            CommandByKey { sequence, moved }
        };
        let commands = (u64::from(ahead)..).zip(commands).map(accepted).collect();
        Ok(Some(AskedByKeys { terms: id.map(|_| range.start), commands }))
    }
}
