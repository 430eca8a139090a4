//! Histories of logs: where each epoch began, and up to where two logs agree.

use crate::planted::{Planted, is_on};
use crate::units::{Epoch, Sequence};

/// The beginning of one epoch in a log, from its epoch start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EpochEntry {
    /// The epoch.
    pub epoch: Epoch,
    /// The sequence of its first fact.
    pub first: Sequence,
    /// The chain of the last batch before it.
    pub chain_before: u32,
}

/// The epochs of a log, in order, and its end.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct History {
    /// One entry for each epoch that has facts.
    pub epochs: Vec<EpochEntry>,
    /// The sequence after the last fact.
    pub end: Sequence,
}

impl History {
    /// The epoch of the last fact. 0 if there is none.
    pub fn last_epoch(&self) -> Epoch {
        self.epochs.last().map_or(Epoch(0), |last| last.epoch)
    }

    /// The sequence after the last fact of the epoch at this place.
    fn end_of(&self, place: usize) -> Sequence {
        self.epochs.get(place.saturating_add(1)).map_or(self.end, |next| next.first)
    }
}

/// What two logs have in common.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Agreement {
    /// Both have the same facts before this sequence, the last of them in this epoch (0 if there is none).
    Until(Epoch, Sequence),
    /// Both have this epoch, and it does not begin at the same place after the same facts. That is a defect or rot,
    /// since (stream, epoch, sequence) names one content.
    Diverged(Epoch),
}

/// Finds up to where two logs of one stream agree. An epoch has one primary, and its log alone grows in it, so of the last
/// epoch that both have, the shorter part is the beginning of the longer one.
pub fn agreement(ours: &History, theirs: &History) -> Agreement {
    if is_on(Planted::MatchedBySequence) {
        return Agreement::Until(ours.last_epoch(), ours.end.min(theirs.end));
    }
    for (place, entry) in theirs.epochs.iter().enumerate().rev() {
        let Some(here) = ours.epochs.iter().position(|own| own.epoch == entry.epoch) else { continue };
        if ours.epochs.get(here) != Some(entry) {
            return Agreement::Diverged(entry.epoch);
        }
        return Agreement::Until(entry.epoch, ours.end_of(here).min(theirs.end_of(place)));
    }
    Agreement::Until(Epoch(0), Sequence(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(epochs: &[(u32, u64, u32)], end: u64) -> History {
        let entry = |(epoch, first, chain_before): &(u32, u64, u32)| EpochEntry {
            epoch: Epoch(*epoch),
            first: Sequence(*first),
            chain_before: *chain_before,
        };
        History { epochs: epochs.iter().map(entry).collect(), end: Sequence(end) }
    }

    #[test]
    fn logs_agree_up_to_the_shorter_part_of_the_last_epoch_that_both_have() {
        let ours = history(&[(1, 1, 0), (2, 10, 7), (4, 15, 9)], 30);
        let agree = |theirs: &History| agreement(&ours, theirs);
        assert_eq!(agree(&history(&[(1, 1, 0), (2, 10, 7)], 12)), Agreement::Until(Epoch(2), Sequence(12)));
        assert_eq!(agree(&history(&[(1, 1, 0), (2, 10, 7)], 20)), Agreement::Until(Epoch(2), Sequence(15)));
        let branched = history(&[(1, 1, 0), (2, 10, 7), (3, 14, 8)], 40);
        assert_eq!(agree(&branched), Agreement::Until(Epoch(2), Sequence(14)));
        assert_eq!(agree(&history(&[], 1)), Agreement::Until(Epoch(0), Sequence(1)));
        assert_eq!(agree(&history(&[(3, 1, 0)], 9)), Agreement::Until(Epoch(0), Sequence(1)));
    }

    #[test]
    fn an_epoch_that_begins_after_other_facts_is_a_defect() {
        let ours = history(&[(1, 1, 0), (2, 10, 7)], 30);
        assert_eq!(agreement(&ours, &history(&[(1, 1, 0), (2, 10, 8)], 30)), Agreement::Diverged(Epoch(2)));
        assert_eq!(agreement(&ours, &history(&[(1, 1, 0), (2, 11, 7)], 30)), Agreement::Diverged(Epoch(2)));
    }
}
