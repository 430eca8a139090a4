//! Chooses the messages of a consumer that one answer of QMQ contains.
//!
//! The reader of an answer counts offsets from that of its first message, so an answer is one run of neighbouring
//! offsets. New messages were judged before they got offsets. Messages that a consumer holds are judged again when they
//! are sent again, since its filters may be others now. Messages that do not pass the consumer's filters are finished
//! wherever they are. At the front and at the end they shorten the answer. In the middle they end it, and the messages
//! after them come with the next answer.

use std::ops::Range;

use crate::units::PullOffset;

/// A message that may be answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// Its offset; the offsets of a list ascend.
    pub offset: PullOffset,
    /// True if it passes the consumer's filters.
    pub passes: bool,
    /// Its bytes in the answer.
    pub bytes: usize,
}

/// The answer chosen from a list of candidates.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AnswerRun {
    /// The answered messages, by their places in the list.
    pub answered: Range<usize>,
    /// All messages of the list that do not pass.
    pub filtered: Vec<PullOffset>,
}

/// Chooses the longest answer within `bytes_max`, but at least one message.
pub fn choose(candidates: &[Candidate], bytes_max: usize) -> AnswerRun {
    let filtered = candidates.iter().filter(|one| !one.passes).map(|one| one.offset).collect();
    let first = candidates.iter().position(|one| one.passes).unwrap_or(candidates.len());
    let rest = candidates.get(first..).unwrap_or_default();
    let begin = rest.first().map_or(0, |one| one.offset.0);
    let mut bytes = 0_usize;
    let fits = |(one, place): &(&Candidate, u64)| {
        bytes = bytes.saturating_add(one.bytes);
        one.passes && one.offset.0 == *place && (*place == begin || bytes <= bytes_max)
    };
    let count = rest.iter().zip(begin..).take_while(fits).count();
    AnswerRun { answered: first..first.saturating_add(count), filtered }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn candidates(list: &[(u64, bool)]) -> Vec<Candidate> {
        list.iter()
            .map(|(offset, passes)| Candidate { offset: PullOffset(*offset), passes: *passes, bytes: 10 })
            .collect()
    }

    #[test]
    fn an_answer_is_the_first_run_of_what_passes() {
        let list = candidates(&[(3, false), (4, true), (5, true), (6, false), (7, true)]);
        let filtered = vec![PullOffset(3), PullOffset(6)];
        assert_eq!(choose(&list, 1_000), AnswerRun { answered: 1..3, filtered });
        // No message has offset 9.
        assert_eq!(choose(&candidates(&[(7, true), (8, true), (10, true)]), 1_000).answered, 0..2);
        let nothing = choose(&candidates(&[(3, false), (4, false)]), 1_000);
        assert!(nothing.answered.is_empty() && nothing.filtered.len() == 2);
        assert!(choose(&[], 1_000).answered.is_empty());
    }

    #[test]
    fn an_answer_has_its_bytes_or_one_message() {
        let list = candidates(&[(3, true), (4, true), (5, true)]);
        assert_eq!(choose(&list, 20).answered, 0..2);
        assert_eq!(choose(&list, 19).answered, 0..1);
        assert_eq!(choose(&list, 0).answered, 0..1);
    }

    proptest! {
        #[test]
        fn what_passes_is_answered_once_in_the_end_and_nothing_else(
            list in prop::collection::btree_map(0_u64..40, any::<bool>(), 0..30),
            bytes_max in 0_usize..60,
        ) {
            let list: Vec<(u64, bool)> = list.into_iter().collect();
            let mut left = candidates(&list);
            let mut answered: Vec<u64> = Vec::new();
            while !left.is_empty() {
                let run = choose(&left, bytes_max);
                let offsets: Vec<u64> = left[run.answered.clone()].iter().map(|one| one.offset.0).collect();
                prop_assert!(offsets.windows(2).all(|pair| pair[1] == pair[0] + 1));
                answered.extend(&offsets);
                left.retain(|one| !run.filtered.contains(&one.offset) && !offsets.contains(&one.offset.0));
            }
            let passing: Vec<u64> = list.iter().filter(|(_, passes)| *passes).map(|(offset, _)| *offset).collect();
            prop_assert_eq!(answered, passing);
        }
    }
}
