//! Holes of runs: records of a payload area that are no longer read, and whose disk space is given back. The
//! bytes of a hole are never read: all, some or none of them may be punched. Rows, cells and the footer have
//! no holes.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::block::BLOCK_BYTES;
use crate::storage::whole_blocks;
use crate::units::{Location, LocationFile, RunNumber};

/// Records of a payload area that are no longer read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct RunHole {
    /// The run.
    pub run: RunNumber,
    /// The offset of its first record in the file.
    pub from: u64,
    /// The offset after its last record.
    pub to: u64,
}

impl RunHole {
    /// Bytes of its records.
    pub fn bytes(&self) -> u64 {
        self.to.saturating_sub(self.from)
    }

    /// Offset and length of the whole blocks in it. A block that it shares with other bytes is kept.
    pub fn whole_blocks(&self, block_bytes: u32) -> Option<(u64, u64)> {
        whole_blocks(self.from, self.to, block_bytes)
    }

    /// True if it contains all of `other`.
    pub fn holds(&self, other: &Self) -> bool {
        self.run == other.run && self.from <= other.from && other.to <= self.to
    }

    /// True if it can be a hole of a run: the header and a block of rows are before every payload.
    fn is_sound(&self) -> bool {
        self.from >= 2 * BLOCK_BYTES as u64
            && self.from < self.to
            && self.from.is_multiple_of(8)
            && self.to.is_multiple_of(8)
    }
}

/// All holes of runs, by run and offset. No two of them touch.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RunHoles {
    all: Arc<Vec<RunHole>>,
}

impl RunHoles {
    /// Makes the list of these holes. `None` if they cannot be the holes of one store.
    pub fn of(all: Vec<RunHole>) -> Option<Self> {
        let is_apart = |pair: &[RunHole]| match pair {
            [before, next] => before.run < next.run || (before.run == next.run && before.to < next.from),
            _ => true,
        };
        (all.iter().all(RunHole::is_sound) && all.windows(2).all(is_apart)).then(|| Self { all: Arc::new(all) })
    }

    /// The holes, by run and offset.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &RunHole> {
        self.all.iter()
    }

    /// The holes of one run.
    pub fn in_run(&self, run: RunNumber) -> &[RunHole] {
        let first = self.all.partition_point(|hole| hole.run < run);
        let end = self.all.partition_point(|hole| hole.run <= run);
        self.all.get(first..end).unwrap_or_default()
    }

    /// The holes of these runs.
    #[must_use]
    pub fn of_runs(&self, runs: &BTreeSet<RunNumber>) -> Self {
        if self.all.iter().all(|hole| runs.contains(&hole.run)) {
            return self.clone();
        }
        Self { all: Arc::new(self.all.iter().filter(|hole| runs.contains(&hole.run)).copied().collect()) }
    }

    /// True if one of the holes contains all of `hole`.
    pub fn hold(&self, hole: &RunHole) -> bool {
        let behind = self.all.partition_point(|other| (other.run, other.from) <= (hole.run, hole.from));
        behind.checked_sub(1).and_then(|place| self.all.get(place)).is_some_and(|other| other.holds(hole))
    }

    /// True if a payload that begins there is in a hole.
    pub fn has(&self, location: Location) -> bool {
        let LocationFile::Run(run) = location.file() else { return false };
        let from = u64::from(location.offset());
        !self.all.is_empty() && self.hold(&RunHole { run, from, to: from.saturating_add(1) })
    }

    /// Bytes of the records in the holes of one run.
    pub fn bytes_in(&self, run: RunNumber) -> u64 {
        self.in_run(run).iter().map(RunHole::bytes).fold(0, u64::saturating_add)
    }

    /// Bytes of the records in all holes.
    pub fn bytes(&self) -> u64 {
        self.all.iter().map(RunHole::bytes).fold(0, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hole(run: u32, from: u64, to: u64) -> RunHole {
        RunHole { run: RunNumber(run), from, to }
    }

    #[test]
    fn only_whole_blocks_are_given_back() {
        let blocks = |from, to| hole(1, from, to).whole_blocks(4_096);
        assert_eq!(blocks(8_192, 16_384), Some((8_192, 8_192)));
        assert_eq!(blocks(8_200, 16_376), None);
        assert_eq!(blocks(8_200, 20_488), Some((12_288, 8_192)));
        assert_eq!(hole(1, 8_200, 8_216).whole_blocks(8), Some((8_200, 16)));
    }

    #[test]
    fn they_are_found_by_run_and_place() {
        let all = vec![hole(1, 8_192, 9_000), hole(1, 9_008, 9_016), hole(3, 8_192, 8_200)];
        let holes = RunHoles::of(all.clone()).unwrap();
        assert_eq!([1, 2, 3].map(|run| holes.in_run(RunNumber(run)).len()), [2, 0, 1]);
        assert_eq!([1, 2, 3].map(|run| holes.bytes_in(RunNumber(run))), [816, 0, 8]);
        assert_eq!(holes.bytes(), 808 + 8 + 8);
        assert!(all.iter().all(|hole| holes.hold(hole)) && holes.hold(&hole(1, 8_200, 8_208)));
        assert!(!holes.hold(&hole(1, 8_200, 9_008)) && !holes.hold(&hole(2, 8_192, 8_200)));
        let has = |run: u32, at: u32| holes.has(Location::in_run(RunNumber(run), at));
        assert_eq!([has(1, 8_192), has(1, 8_999), has(1, 9_000), has(3, 8_192)], [true, true, false, true]);
        assert!(!holes.has(Location(8_192)) && !RunHoles::default().has(Location::in_run(RunNumber(1), 8_192)));
        let kept = holes.of_runs(&BTreeSet::from([RunNumber(2), RunNumber(3)]));
        assert_eq!(kept.iter().collect::<Vec<_>>(), [&all[2]]);
    }

    #[test]
    fn what_cannot_be_the_holes_of_runs_is_refused() {
        let good = hole(2, 8_192, 9_000);
        for bad in [hole(2, 9_000, 8_192), hole(2, 8_192, 8_192), hole(2, 8_184, 9_000), hole(2, 8_193, 9_000)] {
            assert_eq!(RunHoles::of(vec![bad]), None, "{bad:?}");
        }
        for other in [hole(2, 9_000, 9_008), hole(2, 8_200, 9_008), hole(1, 8_192, 9_000), good] {
            assert_eq!(RunHoles::of(vec![good, other]), None, "{other:?}");
        }
        assert!(RunHoles::of(vec![good, hole(2, 9_008, 9_016)]).is_some() && RunHoles::of(Vec::new()).is_some());
    }
}
