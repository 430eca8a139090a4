//! Replies that wait until the log is visible up to a position.

use std::collections::BTreeMap;

use delaymq_core::units::Sequence;

/// The replies, by position.
#[derive(Debug)]
pub(crate) struct PendingReplies<T> {
    waiting: BTreeMap<(Sequence, u64), T>,
    next: u64,
}

impl<T> Default for PendingReplies<T> {
    fn default() -> Self {
        Self { waiting: BTreeMap::new(), next: 0 }
    }
}

impl<T> PendingReplies<T> {
    /// Adds something that waits until everything below `position` is visible. Returns its number among those of the
    /// position, and true if nothing waits for an earlier position.
    pub(crate) fn add(&mut self, position: Sequence, waiting: T) -> (u64, bool) {
        let is_first = self.first().is_none_or(|first| position < first);
        let number = self.next;
        self.waiting.insert((position, number), waiting);
        self.next = number.wrapping_add(1);
        (number, is_first)
    }

    /// Removes one that waits no longer.
    pub(crate) fn take(&mut self, position: Sequence, number: u64) -> Option<T> {
        self.waiting.remove(&(position, number))
    }

    /// The smallest position that anything waits for.
    pub(crate) fn first(&self) -> Option<Sequence> {
        self.waiting.first_key_value().map(|((position, _), _)| *position)
    }

    /// Removes the next one whose position is reached.
    pub(crate) fn take_reached(&mut self, visible: Sequence) -> Option<T> {
        let first = self.waiting.first_entry()?;
        (first.key().0 <= visible).then(|| first.remove())
    }

    /// Removes all, in order.
    pub(crate) fn take_all(&mut self) -> Vec<T> {
        std::mem::take(&mut self.waiting).into_values().collect()
    }

    /// The replies, by position.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.waiting.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_comes_by_position_and_among_equals_in_its_order() {
        let mut pending_replies = PendingReplies::default();
        let firsts = [5, 7, 5, 3].map(|position| pending_replies.add(Sequence(position), position).1);
        assert_eq!(firsts, [true, false, false, true]);
        pending_replies.add(Sequence(5), 55);
        let (number, _) = pending_replies.add(Sequence(5), 555);
        assert_eq!(
            (pending_replies.take(Sequence(7), number), pending_replies.take(Sequence(5), number)),
            (None, Some(555))
        );
        assert_eq!(pending_replies.take_reached(Sequence(2)), None);
        let reached: Vec<_> = std::iter::from_fn(|| pending_replies.take_reached(Sequence(5))).collect();
        assert_eq!(
            (reached, pending_replies.first(), pending_replies.iter().count()),
            (vec![3, 5, 5, 55], Some(Sequence(7)), 1)
        );
        assert_eq!(pending_replies.take_all(), [7]);
        assert_eq!(pending_replies.first(), None);
    }
}
