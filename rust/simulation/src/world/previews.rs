//! Previews of pending messages: all or some, as a list and as counts. The ledger says what they must show.

use std::collections::BTreeMap;

use delaymq_core::store::{PendingOf, PendingQuery, retry_subject};
use delaymq_core::units::{DueKey, Millis};

use super::World;
use crate::replica::Replica;

/// Entries on a page of a list that is compared.
const LISTED_AT_ONCE: usize = 5;

impl World {
    /// Compares lists and counts of all pending messages, and of a part that chance chooses.
    pub(super) fn compare_lists(&mut self) {
        self.compare_list(&PendingQuery { of: PendingOf::Prefix(String::new()), ..PendingQuery::default() });
        let query = self.some_query();
        self.compare_list(&query);
        // A forecast makes runs due for rewriting if their rows had to be read for it.
        if let Some(node) = &mut self.node {
            node.ask_for_forecast();
        }
    }

    fn some_query(&mut self) -> PendingQuery {
        let number = self.looking.below(self.plan.subjects);
        let subject = Self::subject_name(number);
        let of = match self.looking.below(6) {
            0 => PendingOf::Users,
            1 => PendingOf::Prefix("%".to_owned()),
            2 => PendingOf::Prefix("subject-".to_owned()),
            3 => PendingOf::Subject("nobody".to_owned()),
            4 => PendingOf::Subject(retry_subject(&subject, "group-0")),
            _ => PendingOf::Subject(subject),
        };
        let waiting = self.replica.as_ref().map(Replica::waiting).unwrap_or_default();
        let dues: Vec<u64> = waiting.iter().map(|(key, _)| key.due.0).collect();
        let mut some_due = || -> Option<u64> {
            let due = *self.looking.pick(&dues)?;
            self.looking.percent(50).then(|| due.saturating_add(self.looking.below(2)))
        };
        let (from, before) = (some_due(), some_due());
        let (from, before) = match (from, before) {
            (Some(from), Some(before)) => (Some(from.min(before)), Some(from.max(before))),
            open => open,
        };
        PendingQuery { of, due_from: from.map(Millis), due_before: before.map(Millis), after: None }
    }

    fn compare_list(&mut self, query: &PendingQuery) {
        let (Some(node), Some(replica)) = (&mut self.node, &self.replica) else { return };
        let Ok((listed, is_whole)) = node.list(query, LISTED_AT_ONCE) else { return };
        let waiting = replica.waiting();
        let asked = || waiting.iter().filter(|(_, subject)| is_of(&query.of, subject));
        let is_within = |key: &DueKey| {
            query.due_from.is_none_or(|from| key.due >= from) && query.due_before.is_none_or(|before| key.due < before)
        };
        let mut expected: Vec<DueKey> = asked().map(|(key, _)| *key).filter(is_within).collect();
        expected.sort_unstable();
        if !listed.is_sorted() || (is_whole && listed != expected) {
            self.oracle.blame(format!("the list {query:?}: replica {expected:?}, store {listed:?}"));
        }
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for (_, subject) in asked() {
            *counts.entry((*subject).to_owned()).or_default() += 1;
        }
        let told = node.owner().state().list_pending_counts(&query.of);
        let told: BTreeMap<String, u64> = told.into_iter().filter(|(_, count)| *count > 0).collect();
        if told != counts {
            self.oracle.blame(format!("counts of {:?}: replica {counts:?}, store {told:?}", query.of));
        }
    }
}

fn is_of(of: &PendingOf, subject: &str) -> bool {
    match of {
        PendingOf::Users => !subject.starts_with('%'),
        PendingOf::Subject(name) => subject == name,
        PendingOf::Prefix(prefix) => subject.starts_with(prefix.as_str()),
    }
}
