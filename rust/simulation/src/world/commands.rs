//! Commands and publishes whose outcome is not known yet, by the sequence of their facts.

use delaymq_core::store::{Outcome, Receipt};
use delaymq_core::units::{Millis, Sequence};

use super::World;
use super::asked::{ByKey, Command, Kept};

impl World {
    /// A command or publish was accepted by the log's queue.
    pub(super) fn await_outcome(&mut self, fact: Sequence, command: Command) {
        self.commands.insert(fact, command);
    }

    /// The outcome of a fact is known. A message that was moved has a receipt like any other message.
    pub(super) fn command_answered(&mut self, fact: Sequence, outcome: Outcome) {
        match self.commands.remove(&fact) {
            None => {}
            Some(Command::Cancel) => self.oracle.answered(fact, outcome),
            Some(Command::Move(receipt)) => self.move_answered(fact, &receipt, outcome),
            Some(Command::Batch(messages)) => {
                for message in messages.into_iter().filter(|_| outcome != Outcome::Done) {
                    self.was_not_stored(message);
                }
            }
            Some(Command::Publish { receipt, key }) => self.publish_answered(fact, receipt, key, outcome),
            Some(Command::ManyByKey(commands)) => {
                for command in commands.into_iter().filter(|_| outcome != Outcome::Done) {
                    self.was_not_asked(command);
                }
            }
            Some(Command::ByKey { open, asked }) => {
                if let Some(open) = open {
                    self.check_with_first(fact, outcome, open);
                    self.by_keys.answered.insert(fact, outcome);
                }
                self.by_key_answered(fact, asked, outcome);
            }
            Some(Command::Series) => self.series_answered(fact, outcome),
            Some(Command::Occurrence { series, after, receipt }) => {
                self.occurrence_answered(fact, (series, after), receipt, outcome);
            }
            Some(Command::Load { job, rows }) => self.load_answered(fact, job, rows, outcome),
        }
    }

    /// A message is not stored, since its batch was refused.
    fn was_not_stored(&mut self, message: Sequence) {
        self.commands.remove(&message);
        self.oracle.was_not_stored(message);
    }

    /// A command by key was not judged, since there was no room for its id.
    fn was_not_asked(&mut self, fact: Sequence) {
        if let Some(Command::ByKey { asked: ByKey::Move(..), .. }) = self.commands.remove(&fact) {
            self.oracle.answered(fact, Outcome::NotFound);
        }
    }

    pub(super) fn move_answered(&mut self, fact: Sequence, receipt: &Receipt, outcome: Outcome) {
        self.oracle.answered(fact, outcome);
        if let Outcome::Moved(key) = outcome
            && key.sequence == fact
            && let Some(moved) = self.receipt_of(key, receipt)
        {
            self.keep(moved);
            self.keyed.moved(receipt.key.sequence, fact);
        }
    }

    /// Keeps the receipt of a message that is in the log.
    pub(super) fn keep(&mut self, receipt: Receipt) {
        self.receipts.push(Kept { receipt, is_here: true });
    }

    /// The trusted time, or the wall clock while no store is open.
    pub(super) fn now(&self) -> Millis {
        self.node.as_ref().map_or(self.clock.read().wall, |node| node.reading().now)
    }
}
