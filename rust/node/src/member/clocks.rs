//! The wall clocks of the nodes: what is reported when they disagree.

use std::collections::BTreeMap;

use delaymq_core::replication::{CopyKnown, Unfit};

use super::Member;

impl Member {
    /// Reports once that a clock disagrees with that of the group, and once that it agrees again.
    pub(super) fn look_at_clocks(&mut self) {
        let (protocol, me) = (&self.parts.protocol, self.parts.copy.node());
        let copies = protocol.copies_known();
        let mut apart: BTreeMap<_, _> =
            copies.iter().filter(|copy| copy.is_clock_apart).map(|copy| (copy.node, words_of(copy))).collect();
        if protocol.unfit().contains(&Unfit::Clock) {
            let by = distance(protocol.clock_ahead_ms());
            let words = format!(
                "the wall clock of this node is at least {by} that of the group: set it right; the node takes over only if \
                 no other node can"
            );
            apart.insert(me, words);
        }
        for node in self.clocks_apart.iter().filter(|node| !apart.contains_key(node)) {
            self.parts.reports.note(format!("the wall clock of the node {node} agrees with the others again"));
        }
        for (_, words) in apart.iter().filter(|(node, _)| !self.clocks_apart.contains(node)) {
            self.parts.reports.warn(words.clone());
        }
        self.clocks_apart = apart.into_keys().collect();
    }
}

fn words_of(copy: &CopyKnown) -> String {
    let by = distance(copy.clock_offset_ms);
    format!("the wall clock of the node {} is {by} that of this node, and disagrees with that of the group", copy.node)
}

fn distance(ahead_ms: Option<i64>) -> String {
    let ahead_ms = ahead_ms.unwrap_or(0);
    format!("{} ms {}", ahead_ms.unsigned_abs(), if ahead_ms < 0 { "behind" } else { "ahead of" })
}
