//! Producers that cancel and move by key, one message or many at a time. Sometimes they submit the same commands again,
//! as a client does that was not answered.

use std::collections::{BTreeMap, BTreeSet};

use delaymq_core::record::terms::TermsLimits;
use delaymq_core::store::{Outcome, Receipt};
use delaymq_core::units::Sequence;

use super::World;
use super::asked::{Asked, ByKey, Command, Open, Row};
use crate::node::{AskedByKeys, Due};

/// Keys that a producer may think of. No message has the last one.
const KEYS: u64 = 5;

impl World {
    /// Cancels or moves the messages that have some keys of a subject.
    pub(super) fn ask_by_keys(&mut self) {
        let again = self.by_keys.again.take().filter(|_| self.chance.percent(60));
        let Some(mut asked) = again.or_else(|| self.new_rows()) else { return };
        let holders = self.known_holders(&asked);
        // The receipt of the message that has the key now is not known yet.
        let is_awaited = |row: &Row| row.due.is_some() && !holders.contains_key(&row.key);
        asked.rows.retain(|row| !is_awaited(row));
        if asked.rows.is_empty() {
            return;
        }
        let ids_max = u32::try_from(self.chance.one_of(&[1, 3, 1_000, 1_000])).unwrap_or(1);
        let limits = TermsLimits { ids_max, id_window_ms: self.plan.id_window_ms, ..TermsLimits::default() };
        let rows: Vec<(&str, Option<Due>)> = asked.rows.iter().map(|row| (row.key.as_str(), row.due)).collect();
        let id = asked.id.as_deref().map(|id| (id, limits));
        let accepted = self.call("ask by keys", |node| node.ask_by_keys(&asked.subject, &rows, id)).flatten();
        let Some(accepted) = accepted else { return };
        self.note(&format!("asks by keys {asked:?}: {accepted:?}"));
        self.was_asked(&asked, &accepted, &holders);
        if asked.id.is_some() && self.chance.percent(50) {
            for (row, command) in asked.rows.iter_mut().zip(&accepted.commands) {
                row.first = row.first.or(Some(command.sequence));
            }
            self.by_keys.again = Some(asked);
        }
    }

    fn new_rows(&mut self) -> Option<Asked> {
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

    /// For each key: `None` if no message has it, or the receipt of its message. Keys whose message has an unknown
    /// receipt are left out.
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
            self.await_outcome(terms, Command::ManyByKey(commands));
        }
        for (row, command) in asked.rows.iter().zip(&accepted.commands) {
            let open = Open { is_move: row.due.is_some(), first: row.first, since: asked.since };
            let holder = holders.get(&row.key).copied().flatten();
            let key = (asked.subject.clone(), row.key.clone());
            let by_key = match (command.moved, holder) {
                (None, _) => ByKey::Cancel(key),
                (Some(_), None) => ByKey::MoveNothing(key),
                (Some(moved), Some(receipt)) => {
                    self.oracle.move_by_key_submitted(moved.key, receipt.key.sequence, moved.delay_ms);
                    self.dues.insert(moved.key.due);
                    ByKey::Move(key, receipt)
                }
            };
            let open = asked.id.is_some().then_some(open);
            self.await_outcome(command.sequence, Command::ByKey { open, asked: by_key });
        }
    }

    pub(super) fn by_key_answered(&mut self, fact: Sequence, asked: ByKey, outcome: Outcome) {
        let is_known_again = self.replica.as_ref().is_some_and(|replica| replica.is_known_again(fact));
        if let ByKey::Cancel(key) | ByKey::Move(key, _) | ByKey::MoveNothing(key) = &asked
            && outcome == Outcome::AlreadyDispatched
            && !is_known_again
        {
            let holder = self.keyed.holders.get(key).and_then(|held| held.last());
            self.oracle.dispatched_by_key(fact, holder.copied());
        }
        match asked {
            ByKey::Move(_, receipt) => self.move_answered(fact, &receipt, outcome),
            ByKey::Cancel(key) if outcome == Outcome::Done && !is_known_again => self.ended_by(fact, &key, None),
            ByKey::MoveNothing(_)
                if !matches!(outcome, Outcome::NotFound | Outcome::AlreadyDispatched) && !is_known_again =>
            {
                self.oracle.blame(format!("move {fact} of nothing: {outcome:?}"));
            }
            ByKey::Cancel(_) | ByKey::MoveNothing(_) => {}
        }
    }

    /// A repeated command gets the outcome of the first one while its id is remembered.
    pub(super) fn check_with_first(&mut self, command: Sequence, outcome: Outcome, open: Open) {
        let Some(replica) = &self.replica else { return };
        let until = open.since.plus(self.plan.id_window_ms);
        let first = open.first.filter(|_| replica.owner().state().position.trusted < until);
        let Some(before) = first.and_then(|first| self.by_keys.answered.get(&first)) else { return };
        let is_the_same = match (before, outcome) {
            (Outcome::Moved(key) | Outcome::There(key, _), Outcome::There(again, _)) => *key == again,
            // A move whose key another message had was not judged.
            (Outcome::NotFound, _) if open.is_move => true,
            (before, outcome) => *before == outcome,
        };
        if !is_the_same {
            self.oracle.blame(format!("{command} is answered {outcome:?}, and {:?} was {before:?}", open.first));
        }
    }
}
