//! The share of each subject in the entries that a lane has in hand, estimated from a sample.

use std::collections::BTreeMap;

use crate::schedule_log::entry::Entry;
use crate::units::SubjectNumber;

/// A subject with an eighth is a flood, whatever the others have.
const ALONE_SHARE: usize = 8;
/// In a flood of several subjects, each has at least a 512th. The sample is too small to tell smaller shares
/// from quiet subjects.
const SMALLEST_SHARE: usize = 512;
/// A share is tested only if a subject with this share is expected to have this many samples.
const SAMPLES_OF_SHARE: usize = 4;

/// Takes about one of each `stride` entries, at pseudorandom distances. Fixed distances could miss subjects
/// that publish in turn.
pub(super) fn sampled<'a>(
    mut entries: impl Iterator<Item = &'a Entry>,
    stride: usize,
) -> impl Iterator<Item = &'a Entry> {
    let steps = (stride as u64).saturating_mul(2).saturating_sub(1).max(1);
    let mut state = 1_u64;
    std::iter::from_fn(move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        entries.nth(usize::try_from((state >> 33) % steps).unwrap_or_default())
    })
}

/// The number of samples of each subject.
#[derive(Debug)]
pub(in crate::schedule_log) struct Shares {
    counts: BTreeMap<SubjectNumber, usize>,
    samples: usize,
}

impl Shares {
    pub(in crate::schedule_log) fn of<'a>(sample: impl Iterator<Item = &'a Entry>) -> Self {
        let (mut counts, mut samples) = (BTreeMap::<SubjectNumber, usize>::new(), 0_usize);
        for entry in sample {
            let count = counts.entry(entry.subject()).or_default();
            (*count, samples) = (count.saturating_add(1), samples.saturating_add(1));
        }
        Self { counts, samples }
    }

    /// The number of samples.
    pub(in crate::schedule_log) fn samples(&self) -> usize {
        self.samples
    }

    /// The subjects that make a flood, in order. Empty if there is no flood.
    ///
    /// The search begins with a share of a half, then a quarter and so on, until all subjects with at least
    /// that share have a half together, or one has an eighth. Subjects with at least a `near`-th of that
    /// share belong to the flood. This way chance does not separate subjects of equal weight, and lighter
    /// subjects do not wait for much heavier ones.
    pub(super) fn flooding(&self, near: usize) -> Vec<SubjectNumber> {
        let has = |count: usize, share: usize| count.saturating_mul(share) >= self.samples;
        let is_told = |share: usize| share <= ALONE_SHARE || share * SAMPLES_OF_SHARE <= self.samples;
        let shares = std::iter::successors(Some(2_usize), |share| Some(share * 2));
        for share in shares.take_while(|share| *share <= SMALLEST_SHARE && is_told(*share)) {
            let heavy: usize = self.counts.values().filter(|count| has(**count, share)).sum();
            if heavy > 0 && (has(heavy, 2) || share == ALONE_SHARE) {
                let belongs = |count: usize| has(count, share.saturating_mul(near));
                return self.counts.iter().filter(|(_, count)| belongs(**count)).map(|(subject, _)| *subject).collect();
            }
        }
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{DueKey, Location, Millis, Sequence};

    fn of(subjects: impl Iterator<Item = u32>) -> Vec<Entry> {
        let key = DueKey { due: Millis(1), sequence: Sequence(1) };
        subjects.map(|subject| Entry::new(key, 1, key.sequence, Location(0), SubjectNumber(subject))).collect()
    }

    /// The subjects, numbered from 1, that flood if each has this many samples.
    fn flooding(counts: &[usize], near: usize) -> Vec<u32> {
        let subjects = (1_u32..).zip(counts).flat_map(|(subject, count)| vec![subject; *count]);
        let shares = Shares::of(of(subjects).iter());
        assert_eq!(shares.samples(), counts.iter().sum::<usize>());
        shares.flooding(near).into_iter().map(|subject| subject.0).collect()
    }

    #[test]
    fn who_has_much_more_than_all_others_floods_alone() {
        assert_eq!(flooding(&[10, 2_000, 30, 40], 2), [2]);
        // A quarter of the heaviest is not a flood next to it, but may be one after the heaviest has its own
        // lane.
        assert_eq!(flooding(&[2_000, 500, 10], 2), [1]);
        assert_eq!(flooding(&[500, 10], 2), [1]);
        // An eighth, next to very many subjects that have almost nothing.
        let mut counts = vec![1; 3_500];
        counts.push(550);
        assert_eq!(flooding(&counts, 2), [3_501]);
    }

    #[test]
    fn equal_subjects_flood_together_and_who_has_much_less_does_not() {
        for subjects in [2_u32, 3, 6, 7, 8, 9, 10, 16, 40, 200, 500] {
            let mut counts = vec![4_096 / subjects as usize; subjects as usize];
            counts.push(1);
            assert_eq!(flooding(&counts, 2), (1..=subjects).collect::<Vec<_>>(), "{subjects}");
            // Samples are uneven: some subjects have a little more, and some less.
            let uneven = |place: usize, count: &mut usize| *count -= *count / 4 * (place % 2);
            counts.iter_mut().enumerate().for_each(|(place, count)| uneven(place, count));
            assert_eq!(flooding(&counts, 2), (1..=subjects).collect::<Vec<_>>(), "{subjects}, unevenly");
        }
    }

    #[test]
    fn those_who_publish_by_turns_are_all_seen() {
        for subjects in [2_u32, 8, 16, 32, 40, 64, 200] {
            for stride in [32, 64, 200, 500] {
                let entries = of((0..4_096 * stride as u32).map(|place| place % subjects + 1));
                let shares = Shares::of(sampled(entries.iter(), stride));
                assert!((3_900..4_300).contains(&shares.samples()), "{}", shares.samples());
                assert_eq!(shares.flooding(2).len(), subjects as usize, "{subjects}, each {stride}-th of them");
            }
        }
        assert_eq!(Shares::of(sampled(of(1..100).iter(), 1)).samples(), 99);
    }

    #[test]
    fn very_many_with_little_each_make_no_flood() {
        assert_eq!(flooding(&[3; 1_300], 2), [0_u32; 0]);
        assert_eq!(flooding(&[], 2), [0_u32; 0]);
        assert_eq!(flooding(&[1; 16], 2), [0_u32; 0], "so few samples tell nothing of sixteenths");
    }

    #[test]
    fn chance_does_not_part_a_set_again_and_a_flood_within_it_does() {
        assert_eq!(flooding(&[100, 60, 100, 40, 100, 100], 4), [1, 2, 3, 4, 5, 6]);
        assert_eq!(flooding(&[100, 1, 100, 0, 100, 100], 4), [1, 3, 5, 6]);
        assert_eq!(flooding(&[20, 20, 900, 20, 20, 20], 4), [3]);
    }
}
