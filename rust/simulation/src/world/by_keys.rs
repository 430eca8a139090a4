//! Producers that cancel and move by keys, one message at a time or many together, and sometimes again, as a client
//! does that has lost the answer.

use std::collections::{BTreeMap, BTreeSet};

use delaymq_core::record::terms::TermsLimits;
use delaymq_core::store::{Outcome, Receipt};
use delaymq_core::units::{Millis, Sequence};

use super::World;
use super::keys::Key;
use crate::node::{AskedByKeys, Due};

/// Keys that a producer may think of; nobody publishes under the last one.
const KEYS: u64 = 5;

/// A command by a key; a time is a move, none a cancel.
#[derive(Clone, Debug)]
struct Row {
    key: String,
    due: Option<Due>,
    /// The first command that asked this under the same id.
    first: Option<Sequence>,
}

/// Commands by keys of one subject, as their producer has them.
#[derive(Clone, Debug)]
struct Asked {
    subject: String,
    rows: Vec<Row>,
    /// What a command that comes again is told by.
    id: Option<String>,
    /// When the first of them were asked.
    since: Millis,
}

/// A command under an id that is not answered yet.
#[derive(Clone, Copy, Debug)]
struct Open {
    is_move: bool,
    first: Option<Sequence>,
    since: Millis,
}

/// What producers know of what they have asked by keys.
#[derive(Default)]
pub(super) struct ByKeys {
    cancels: BTreeMap<Sequence, Key>,
    /// Moves by a key that nothing had.
    moves_of_nothing: BTreeSet<Sequence>,
    /// The commands of each submission with an id.
    submissions: BTreeMap<Sequence, Vec<Sequence>>,
    open: BTreeMap<Sequence, Open>,
    /// What commands under ids were answered.
    answered: BTreeMap<Sequence, Outcome>,
    /// What is asked once more.
    again: Option<Asked>,
}

impl ByKeys {
    /// The log goes on at `first`.
    pub(super) fn reopened(&mut self, first: Sequence) {
        let is_here = |sequence: &Sequence| *sequence < first;
        self.cancels.retain(|sequence, _| is_here(sequence));
        self.moves_of_nothing.retain(is_here);
        self.submissions.retain(|sequence, _| is_here(sequence));
        self.open.retain(|sequence, _| is_here(sequence));
        self.answered.retain(|sequence, _| is_here(sequence));
        for row in self.again.iter_mut().flat_map(|asked| &mut asked.rows) {
            row.first = row.first.filter(is_here);
        }
    }
}

impl World {
    /// Cancels or moves what has some keys of a subject.
    pub(super) fn ask_by_keys(&mut self) {
        let again = self.by_keys.again.take().filter(|_| self.chance.percent(60));
        let Some(mut asked) = again.or_else(|| self.new_asked()) else { return };
        let holders = self.known_holders(&asked);
        // The answer to what has the key now is on its way.
        let is_awaited = |row: &Row| row.due.is_some() && !holders.contains_key(&row.key);
        asked.rows.retain(|row| !is_awaited(row));
        if asked.rows.is_empty() {
            return;
        }
        let ids_max = u32::try_from(self.chance.one_of(&[1, 3, 1_000, 1_000])).unwrap_or(1);
        let limits = TermsLimits { ids_max, id_window_ms: self.plan.id_window_ms, ..TermsLimits::default() };
        let rows: Vec<(&str, Option<Due>)> = asked.rows.iter().map(|row| (row.key.as_str(), row.due)).collect();
        let id = asked.id.as_deref().map(|id| (id, limits));
        let Some(node) = &mut self.node else { return };
        let accepted = node.ask_by_keys(&asked.subject, &rows, id);
        let Some(Some(accepted)) = self.survive("ask by keys", accepted) else { return };
        self.note(&format!("asks by keys {asked:?}: {accepted:?}"));
        self.was_asked(&asked, &accepted, &holders);
        if asked.id.is_some() && self.chance.percent(50) {
            for (row, command) in asked.rows.iter_mut().zip(&accepted.commands) {
                row.first = row.first.or(Some(command.sequence));
            }
            self.by_keys.again = Some(asked);
        }
    }

    fn new_asked(&mut self) -> Option<Asked> {
        let known: BTreeSet<String> = self.keyed.holders.keys().map(|(subject, _)| subject.clone()).collect();
        let known: Vec<String> = known.into_iter().collect();
        let subject = self.chance.pick(&known).cloned()?;
        let id = self.chance.percent(60).then(|| format!("command-{}", self.chance.below(1 << 40)));
        let count = self.chance.one_of(&[1, 1, 2, 3, 4]);
        let kind = self.chance.below(3);
        let (mut rows, first) = (Vec::new(), self.chance.below(KEYS));
        for place in 0..count {
            let moves = kind == 0 || (kind == 2 && self.chance.percent(50));
            let due = if moves { Some(self.due()) } else { None };
            rows.push(Row { key: format!("key-{}", (first + place) % KEYS), due, first: None });
        }
        Some(Asked { subject, rows, id, since: self.node.as_ref()?.reading().now })
    }

    /// For each key that has no holder nothing, and for each whose holder's producer knows its receipt that.
    fn known_holders(&self, asked: &Asked) -> BTreeMap<String, Option<Receipt>> {
        let Some(node) = &self.node else { return BTreeMap::new() };
        let mut known = BTreeMap::new();
        for row in &asked.rows {
            let holder = node.key_holder(&asked.subject, &row.key);
            let receipt = self.receipts.iter().find(|kept| Some(kept.receipt.key) == holder);
            match (holder, receipt) {
                (None, _) => known.insert(row.key.clone(), None),
                (Some(_), Some(kept)) => known.insert(row.key.clone(), Some(kept.receipt)),
                (Some(_), None) => None,
            };
        }
        known
    }

    fn was_asked(&mut self, asked: &Asked, accepted: &AskedByKeys, holders: &BTreeMap<String, Option<Receipt>>) {
        if let Some(terms) = accepted.terms {
            let commands = accepted.commands.iter().map(|command| command.sequence).collect();
            self.by_keys.submissions.insert(terms, commands);
            self.commands.insert(terms);
        }
        for (row, command) in asked.rows.iter().zip(&accepted.commands) {
            let sequence = command.sequence;
            self.commands.insert(sequence);
            if asked.id.is_some() {
                let open = Open { is_move: row.due.is_some(), first: row.first, since: asked.since };
                self.by_keys.open.insert(sequence, open);
            }
            let Some(moved) = command.moved else {
                self.by_keys.cancels.insert(sequence, (asked.subject.clone(), row.key.clone()));
                continue;
            };
            let Some(receipt) = holders.get(&row.key).copied().flatten() else {
                self.by_keys.moves_of_nothing.insert(sequence);
                continue;
            };
            self.oracle.move_by_key_submitted(moved.key, receipt.key.sequence, moved.delay_ms);
            self.dues.insert(moved.key.due);
            self.moves.insert(sequence, receipt);
        }
    }

    /// True where it was an answer to what was asked by keys, and nobody else has to hear it.
    pub(super) fn by_keys_answered(&mut self, command: Sequence, outcome: Outcome) -> bool {
        if let Some(commands) = self.by_keys.submissions.remove(&command) {
            if outcome != Outcome::Done {
                for command in commands {
                    self.was_not_asked(command);
                }
            }
            return true;
        }
        let is_known_again = self.replica.as_ref().is_some_and(|replica| replica.is_known_again(command));
        if let Some(open) = self.by_keys.open.remove(&command) {
            self.check_with_first(command, outcome, open);
            self.by_keys.answered.insert(command, outcome);
        }
        if let Some(key) = self.by_keys.cancels.remove(&command) {
            if outcome == Outcome::Done && !is_known_again {
                self.ended_by(command, &key, None);
            }
            return true;
        }
        let was_of_nothing = self.by_keys.moves_of_nothing.remove(&command);
        if was_of_nothing && outcome != Outcome::NotFound && !is_known_again {
            self.oracle.blame(format!("move {command} of nothing: {outcome:?}"));
        }
        was_of_nothing
    }

    /// There was no room for the ids of all of them.
    fn was_not_asked(&mut self, command: Sequence) {
        self.commands.remove(&command);
        self.by_keys.open.remove(&command);
        self.by_keys.cancels.remove(&command);
        self.by_keys.moves_of_nothing.remove(&command);
        if self.moves.remove(&command).is_some() {
            self.oracle.answered(command, Outcome::NotFound);
        }
    }

    /// What comes again while its id is remembered is answered as the first time.
    fn check_with_first(&mut self, command: Sequence, outcome: Outcome, open: Open) {
        let Some(replica) = &self.replica else { return };
        let until = open.since.plus(self.plan.id_window_ms);
        let first = open.first.filter(|_| replica.owner().state().position.trusted < until);
        let Some(before) = first.and_then(|first| self.by_keys.answered.get(&first)) else { return };
        let is_the_same = match (before, outcome) {
            (Outcome::Moved(key) | Outcome::There(key, _), Outcome::There(again, _)) => *key == again,
            // A move that another message had the key of was not judged.
            (Outcome::NotFound, _) if open.is_move => true,
            (before, outcome) => *before == outcome,
        };
        if !is_the_same {
            self.oracle.blame(format!("{command} is answered {outcome:?}, and {:?} was {before:?}", open.first));
        }
    }
}
