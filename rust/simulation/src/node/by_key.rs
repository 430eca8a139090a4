//! Publishes with keys and ids, and commands by key.

use delaymq_core::error::Result;
use delaymq_core::message_log::Class;
use delaymq_core::record::terms::{
    ByKey, IfExists, KeyCommand, MessageTerms, TermsLimits, encode_by_key, encode_terms,
};
use delaymq_core::store::{Receipt, command_hash, name_hash};
use delaymq_core::units::{DueKey, Sequence};

use super::draft::Draft;
use super::{Due, NewMessage, Node};

/// The terms of a publish.
#[derive(Clone, Debug)]
pub struct NewTerms {
    /// The key.
    pub key: Option<String>,
    /// What happens if another message has the key.
    pub if_exists: IfExists,
    /// The id that identifies repetitions.
    pub id: Option<String>,
}

/// The id of a command by key, and the limits of remembered ids.
pub type CommandId<'a> = Option<(&'a str, TermsLimits)>;

/// A publish on terms that the log's queue has accepted.
#[derive(Clone, Debug)]
pub struct PublishedOnTerms {
    /// The sequence of the terms, whose outcome is that of the whole batch.
    pub terms: Sequence,
    /// One receipt for each message. The outcome of each message has the sequence of its receipt.
    pub receipts: Vec<Receipt>,
}

/// A move by key that the log's queue has accepted.
#[derive(Clone, Copy, Debug)]
pub struct MovedByKey {
    /// The due time after the move, and the sequence of the command.
    pub key: DueKey,
    /// The message that had the key when the command was submitted.
    pub target: Option<DueKey>,
    /// The delay that was asked for.
    pub delay_ms: Option<u64>,
}

/// A command by key that the log's queue has accepted.
#[derive(Clone, Copy, Debug)]
pub struct CommandByKey {
    /// The sequence of the command and of its outcome.
    pub sequence: Sequence,
    /// The move; `None` for a cancel.
    pub moved: Option<MovedByKey>,
}

/// Commands by key of one subject that the log's queue has accepted.
#[derive(Clone, Debug)]
pub struct AskedByKeys {
    /// The sequence of the terms of commands with an id. Its outcome says whether there is room for their ids.
    pub terms: Option<Sequence>,
    /// One for each key, in order.
    pub commands: Vec<CommandByKey>,
}

impl Node {
    /// Publishes messages of one subject on terms.
    pub fn publish_on_terms(
        &mut self,
        messages: &[(NewMessage<'_>, NewTerms)],
        limits: TermsLimits,
    ) -> Result<Option<PublishedOnTerms>> {
        let Some((first, _)) = messages.first() else { return Ok(None) };
        let (name, mut draft) = (first.subject, Draft::default());
        let subject = self.subject_in(&mut draft, name)?;
        let terms = messages.iter().zip(0..).map(|((_, terms), place)| MessageTerms {
            place,
            key: terms.key.as_ref().map(|key| name_hash(name, key)),
            if_exists: terms.if_exists,
            id: terms.id.as_ref().map(|id| name_hash(name, id)),
        });
        let terms: Vec<MessageTerms> = terms.collect();
        let before = u64::from(draft.count);
        draft.add(|records| encode_terms(records, count_of(messages.len()), limits, &terms));
        let mut named = Vec::new();
        for (message, _) in messages {
            named.push((*message, subject, self.due_time(message.due)?));
        }
        let submitted = self.submit_messages(draft, &named)?;
        Ok(submitted.map(|(range, receipts)| PublishedOnTerms { terms: range.start.plus(before), receipts }))
    }

    /// Submits a cancel of the message that has a key.
    pub fn cancel_key(&mut self, subject: &str, key: &str, id: CommandId<'_>) -> Result<Option<Sequence>> {
        let asked = self.ask_by_keys(subject, &[(key, None)], id)?;
        Ok(asked.and_then(|asked| Some(asked.commands.first()?.sequence)))
    }

    /// Submits a move of the message that has a key.
    pub fn move_key(&mut self, subject: &str, key: &str, due: Due, id: CommandId<'_>) -> Result<Option<MovedByKey>> {
        let asked = self.ask_by_keys(subject, &[(key, Some(due))], id)?;
        Ok(asked.and_then(|asked| asked.commands.first()?.moved))
    }

    /// The entry that has a key, as applied.
    pub fn key_holder(&self, subject: &str, key: &str) -> Option<DueKey> {
        self.owner().state().keys.get(name_hash(subject, key)).map(|held| held.key)
    }

    /// Submits one command for each of these keys of a subject: a move if a due time is given, a cancel otherwise.
    pub fn ask_by_keys(
        &mut self,
        subject: &str,
        asked: &[(&str, Option<Due>)],
        id: CommandId<'_>,
    ) -> Result<Option<AskedByKeys>> {
        let mut commands = Vec::with_capacity(asked.len());
        for (key, due) in asked {
            let command = match due {
                Some(due) => KeyCommand::Move { due: self.due_time(*due)?, delay_ms: due.delay_ms() },
                None => KeyCommand::Cancel,
            };
            commands.push((*key, self.key_holder(subject, key), command));
        }
        let mut draft = Draft::default();
        if let Some((id, limits)) = id {
            let terms = |(place, (key, _, command)): (u32, &(&str, Option<DueKey>, KeyCommand))| {
                let id = Some(command_hash(subject, key, *command, id));
                MessageTerms { place, key: None, if_exists: IfExists::Replace, id }
            };
            let rows: Vec<MessageTerms> = (0..).zip(&commands).map(terms).collect();
            draft.add(|records| encode_terms(records, count_of(rows.len()), limits, &rows));
        }
        let number = self.subject_number(subject).unwrap_or_default();
        let before = u64::from(draft.count);
        for (key, target, command) in &commands {
            let by_key = ByKey { key: name_hash(subject, key), subject: number, target: *target, command: *command };
            draft.add(|records| encode_by_key(records, &by_key));
        }
        let Some(range) = self.submit_draft(&draft, Class::Finishing, false)? else { return Ok(None) };
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
        let commands = (before..).zip(commands).map(accepted).collect();
        Ok(Some(AskedByKeys { terms: id.map(|_| range.start), commands }))
    }
}

fn count_of(rows: usize) -> u32 {
    u32::try_from(rows).unwrap_or(u32::MAX)
}
