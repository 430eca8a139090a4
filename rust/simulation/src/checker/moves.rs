//! Checks of moves: one message under several keys in turn.

use delaymq_core::store::Outcome;
use delaymq_core::units::{DueKey, Millis, Sequence};

use super::{Entry, Made, MoveNote, Oracle};

impl Oracle {
    /// The log's queue has accepted a message on terms. Its outcome says whether it is stored.
    pub fn submitted_on_terms(&mut self, sequence: Sequence, mut entry: Entry) {
        entry.made = Made::Perhaps;
        self.submitted(sequence, entry);
    }

    /// A message on terms is stored.
    pub fn was_stored(&mut self, sequence: Sequence) {
        if let Some(entry) = self.entries.get_mut(&sequence) {
            entry.made = Made::Otherwise;
            self.counts.published += 1;
        }
    }

    /// A message on terms is not stored.
    pub fn was_not_stored(&mut self, sequence: Sequence) {
        if self.handed.keys().any(|(_, entry)| *entry == sequence) {
            self.blame(format!("{sequence} was answered as not stored, and was handed over"));
        }
        self.entries.remove(&sequence);
    }

    /// The log's queue has accepted a move. Its outcome says whether its entry exists.
    pub fn move_submitted(&mut self, key: DueKey, target: Sequence, delay_ms: Option<u64>) {
        self.note_move(key, MoveNote { target, due: key.due, delay_ms, is_by_key: false, outcome: None });
    }

    /// As [`Self::move_submitted`], for a move by key.
    pub fn move_by_key_submitted(&mut self, key: DueKey, target: Sequence, delay_ms: Option<u64>) {
        self.note_move(key, MoveNote { target, due: key.due, delay_ms, is_by_key: true, outcome: None });
    }

    fn note_move(&mut self, key: DueKey, note: MoveNote) {
        let target = note.target;
        self.moves.insert(key.sequence, note);
        if let Some(entry) = self.entries.get(&target) {
            let mut moved = Entry::new(entry.subject, key.due, &entry.body, entry.origin);
            (moved.published_to, moved.expiry) = (entry.published_to, entry.expiry);
            moved.made = Made::Perhaps;
            self.submitted(key.sequence, moved);
        }
    }

    /// The outcome of a cancel or a move.
    pub fn answered(&mut self, command: Sequence, outcome: Outcome) {
        let Some(note) = self.moves.get_mut(&command) else { return self.cancel_answered(command, outcome) };
        if note.outcome == Some(outcome) {
            return;
        }
        if let Some(before) = note.outcome.replace(outcome) {
            return self.blame(format!("move {command} was answered {before:?}, then {outcome:?}"));
        }
        let note = *note;
        let is_new = matches!(outcome, Outcome::Moved(key) if key.sequence == command);
        if !is_new && self.handed.keys().any(|(_, entry)| *entry == command) {
            self.blame(format!("move {command} was answered {outcome:?}, and what it made was handed over"));
        }
        if !is_new {
            self.entries.remove(&command);
        }
        match outcome {
            Outcome::Moved(key) if is_new => self.was_moved(command, &note, key.due),
            Outcome::Moved(key) => self.was_moved_before(command, &note, key),
            // Another message may have had the key since: see `dispatched_by_key`.
            Outcome::AlreadyDispatched if note.is_by_key => {}
            Outcome::AlreadyDispatched => self.was_dispatched(command, note.target),
            // The message no longer has the key. The ledger checks why.
            _ if note.is_by_key => {}
            _ if self.is_owed(note.target) => {
                self.blame(format!("move {command} of {}: not found, and somebody is still owed it", note.target));
            }
            _ if self.repeats(&note).is_some() => {
                self.blame(format!("move {command} of {}: not found, as if it had not been moved", note.target));
            }
            _ => {}
        }
    }

    fn was_moved(&mut self, command: Sequence, note: &MoveNote, due: Millis) {
        let handed = self.handed.iter();
        let mut handed = handed.filter(|((_, entry), _)| *entry == note.target).flat_map(|(_, overs)| overs);
        let was_handed = handed.any(|over| !over.before_loss);
        let Some(entry) = self.entries.get_mut(&note.target) else {
            return self.blame(format!("move {command} of {}, which is not in the log, was done", note.target));
        };
        let ended = entry.known_dispatched || entry.cancelled.is_some() || entry.moved.is_some();
        if was_handed || ended || due != note.due {
            let found = format!("{entry:?}");
            return self.blame(format!("move {command} of {} to {due}: done, {was_handed} {found}", note.target));
        }
        entry.moved = Some(command);
        if let Some(entry) = self.entries.get_mut(&command) {
            entry.made = Made::ByMove;
        }
        self.counts.moved += 1;
    }

    /// The entry that an earlier move of the target has made, if that move asked for the same.
    fn repeats(&self, note: &MoveNote) -> Option<Sequence> {
        let first = self.entries.get(&note.target)?.moved?;
        let before = self.moves.get(&first)?;
        let is_same = before.delay_ms == note.delay_ms && (note.delay_ms.is_some() || before.due == note.due);
        is_same.then_some(first)
    }

    fn was_moved_before(&mut self, command: Sequence, note: &MoveNote, key: DueKey) {
        if self.repeats(note) != Some(key.sequence) {
            self.blame(format!("move {command} of {} was answered as {key:?} was", note.target));
        }
    }

    /// A command by key was answered that the last message with the key, `holder`, became ready.
    pub fn dispatched_by_key(&mut self, command: Sequence, holder: Option<Sequence>) {
        match holder {
            Some(holder) => self.was_dispatched(command, holder),
            None => self.blame(format!("{command} by a key that no message had: dispatched")),
        }
    }

    fn was_dispatched(&mut self, command: Sequence, target: Sequence) {
        let Some(entry) = self.entries.get_mut(&target) else { return };
        if entry.cancelled.is_some() || entry.moved.is_some() {
            self.blame(format!("{command} of {target}: dispatched, after it was cancelled or moved"));
            return;
        }
        entry.known_dispatched = true;
    }
}
