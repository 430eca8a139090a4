//! Searches the rows of one run for payloads in it that are not needed. Payloads are not read: they are stored in row
//! order, and the rows say where each begins and ends.

use std::sync::Arc;

use super::segment_hole_search::{HOLES_IN_FILE_MAX, HoleSizes, Marks, PLACE_BYTES, each_row};
use crate::error::Result;
use crate::run::{Run, RunHole, ScheduleRow};
use crate::units::{LocationFile, RunNumber, padded};

/// A run is searched again once this share more of its payloads can be freed.
const GAIN_SHARE: u64 = 16;

/// A schedule run whose payload area is searched for holes.
#[derive(Debug)]
pub(in crate::store) struct RunTarget {
    pub(in crate::store) run: Arc<Run>,
    /// Bytes that could be freed at the last search and were not.
    left: u64,
    /// The places at which a needed payload begins.
    needed: Marks,
}

impl RunTarget {
    pub(in crate::store) fn new(run: Arc<Run>, left: u64) -> Self {
        Self { run, left, needed: Marks::default() }
    }

    pub(in crate::store) fn number(&self) -> RunNumber {
        self.run.number()
    }

    /// Notes that a needed payload begins at this offset.
    pub(super) fn note_payload(&mut self, offset: u32) {
        self.needed.set(self.place_of(offset));
    }

    fn place_of(&self, offset: u32) -> u64 {
        u64::from(offset).saturating_sub(self.run.payload_start()) / PLACE_BYTES
    }

    /// An upper estimate of the bytes that can be freed: all but the disk blocks in which a needed payload begins.
    fn free_bytes(&self, sizes: HoleSizes) -> u64 {
        let places = (u64::from(sizes.block_bytes) / PLACE_BYTES).max(1);
        let needed = self.needed.count_groups(places).saturating_mul(places).saturating_mul(PLACE_BYTES);
        self.run.payload_bytes().saturating_sub(needed)
    }

    /// Begins a search of the run if enough more of it can be freed than at the last search.
    pub(in crate::store) fn begin(&self, known: &[RunHole], sizes: HoleSizes) -> Option<RunSearch> {
        let free_bytes = self.free_bytes(sizes);
        let in_holes = known.iter().map(RunHole::bytes).fold(0, u64::saturating_add);
        let gain = free_bytes.saturating_sub(in_holes).saturating_sub(self.left);
        let least = (self.run.payload_bytes() / GAIN_SHARE).min(sizes.gain_min).max(sizes.bytes_min);
        (gain >= least).then_some(RunSearch { block: 0, open: None, found: Vec::new(), free_bytes })
    }
}

/// A search of a run under way.
#[derive(Debug)]
pub(in crate::store) struct RunSearch {
    block: u32,
    /// The hole that the next row may extend.
    open: Option<RunHole>,
    found: Vec<RunHole>,
    /// The maximum number of bytes that can be freed.
    free_bytes: u64,
}

impl RunSearch {
    /// Reads at most `blocks` further blocks of rows; true at the end of the run.
    ///
    /// # Errors
    /// The error of a row that cannot be read.
    pub(super) fn go_on(&mut self, target: &RunTarget, blocks: u32) -> Result<bool> {
        let (run, end) = (&target.run, self.block.saturating_add(blocks));
        let next = each_row(run, self.block, end, &mut |row: &ScheduleRow| {
            if row.location.file() != LocationFile::Run(run.number()) {
                return;
            }
            if target.needed.has(target.place_of(row.location.offset())) {
                self.found.extend(self.open.take());
            } else {
                self.empty(run.number(), row);
            }
        })?;
        if next.is_none() {
            self.found.extend(self.open.take());
        }
        self.block = next.unwrap_or_default();
        Ok(next.is_none())
    }

    fn empty(&mut self, run: RunNumber, row: &ScheduleRow) {
        let from = u64::from(row.location.offset());
        let to = from.saturating_add(padded(row.length as usize) as u64);
        match &mut self.open {
            Some(hole) if hole.to == from => hole.to = to,
            open => {
                let before = open.replace(RunHole { run, from, to });
                self.found.extend(before);
            }
        }
    }

    /// Returns the holes of the run, and the bytes that could be freed and are not. Existing holes stay, however small;
    /// of the new ones the largest are taken.
    pub(in crate::store) fn finish(self, known: &[RunHole], sizes: HoleSizes) -> (Vec<RunHole>, u64) {
        let (mut all, mut fresh): (Vec<RunHole>, Vec<RunHole>) =
            self.found.into_iter().partition(|hole| known.iter().any(|known| hole.holds(known)));
        fresh.retain(|hole| hole.bytes() >= sizes.bytes_min && hole.whole_blocks(sizes.block_bytes).is_some());
        fresh.sort_unstable_by_key(|hole| std::cmp::Reverse(hole.bytes()));
        fresh.truncate(HOLES_IN_FILE_MAX.saturating_sub(all.len()));
        all.extend(fresh);
        all.sort_unstable();
        let bytes = all.iter().map(RunHole::bytes).fold(0, u64::saturating_add);
        (all, self.free_bytes.saturating_sub(bytes))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::record::{encode_record, seal_record};
    use crate::run::tests_storage::TestStorage;
    use crate::run::{RunHead, RunHoles, RunWriter};
    use crate::units::{DueKey, Location, Millis, SegmentNumber, Sequence, SubjectNumber};

    const NUMBER: RunNumber = RunNumber(3);

    /// A row as the plain loop sees it.
    #[derive(Clone, Copy, Debug)]
    struct Plain {
        from: u64,
        to: u64,
        is_needed: bool,
    }

    /// Makes a run with a row for each size; rows with `Some` size have a payload in the run, whose place is returned.
    fn run_of(sizes: &[Option<usize>]) -> (Arc<Run>, Vec<Option<(u64, u64)>>) {
        let storage = TestStorage::default();
        let head = RunHead { number: NUMBER, stream: [1; 16], row_count: sizes.len() as u64 };
        let mut writer = RunWriter::create(&storage, head).unwrap();
        let mut places = Vec::new();
        for (at, size) in sizes.iter().enumerate() {
            let sequence = Sequence(at as u64 + 1);
            let mut record = Vec::new();
            let place = size.map(|size| {
                encode_record(&mut record, 1, 8, &[1; 24], &[&vec![7; size]]);
                seal_record(&mut record, sequence).unwrap();
                let offset = writer.push_payload(&record).unwrap().unwrap();
                (u64::from(offset), u64::from(offset) + record.len() as u64)
            });
            places.push(place);
            let row = ScheduleRow {
                key: DueKey { due: Millis(at as u64), sequence },
                payload_sequence: sequence,
                location: place.map_or(Location::in_segment(SegmentNumber(1), 4_096), |(from, _)| {
                    Location::in_run(NUMBER, from as u32)
                }),
                subject: SubjectNumber(1),
                attempt: 1,
                length: record.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes)),
                size: None,
            };
            writer.push_row(&row).unwrap();
        }
        (Arc::new(writer.finish(&storage).unwrap()), places)
    }

    /// The holes that a search finds in steps of `blocks` blocks.
    fn found(run: &Arc<Run>, rows: &[Plain], known: &[RunHole], sizes: HoleSizes, blocks: u32) -> Vec<RunHole> {
        let mut target = RunTarget::new(Arc::clone(run), 0);
        rows.iter().filter(|row| row.is_needed).for_each(|row| target.note_payload(row.from as u32));
        let mut search = RunSearch { block: 0, open: None, found: Vec::new(), free_bytes: target.free_bytes(sizes) };
        while !search.go_on(&target, blocks).unwrap() {}
        search.finish(known, sizes).0
    }

    /// The same by a loop over all payloads that do not begin in a place where a needed payload begins.
    fn expected(rows: &[Plain], known: &[RunHole], sizes: HoleSizes) -> Vec<RunHole> {
        let first = rows.first().map_or(0, |row| row.from);
        let place = |row: &Plain| (row.from - first) / PLACE_BYTES;
        let needed: Vec<u64> = rows.iter().filter(|row| row.is_needed).map(place).collect();
        let mut all: Vec<RunHole> = Vec::new();
        for row in rows.iter().filter(|row| !needed.contains(&place(row))) {
            match all.last_mut() {
                Some(hole) if hole.to == row.from => hole.to = row.to,
                _ => all.push(RunHole { run: NUMBER, from: row.from, to: row.to }),
            }
        }
        let is_large =
            |hole: &RunHole| hole.bytes() >= sizes.bytes_min && hole.whole_blocks(sizes.block_bytes).is_some();
        all.retain(|hole| is_large(hole) || known.iter().any(|known| hole.holds(known)));
        all
    }

    fn plain(places: &[Option<(u64, u64)>], needed: &[bool]) -> Vec<Plain> {
        let with_place = places.iter().zip(needed).filter_map(|(place, is_needed)| Some((((*place)?), *is_needed)));
        with_place.map(|((from, to), is_needed)| Plain { from, to, is_needed }).collect()
    }

    proptest! {
        /// Runs two searches, the second with more finished rows. Each finds the same holes as a plain loop, covers no
        /// needed payload, and includes all earlier holes.
        #[test]
        fn holes_are_those_of_a_plain_loop(
            rows in prop::collection::vec((any::<bool>(), 0_usize..700, 0_u8..8, any::<bool>()), 1..400),
            bytes_min in prop::sample::select(vec![1_u64, 400, 3_000]),
            block_bytes in prop::sample::select(vec![8_u32, 64, 512, 4_096]),
            blocks in 1_u32..4,
        ) {
            let sizes = HoleSizes { bytes_min, block_bytes, gain_min: 1 };
            let of_rows: Vec<_> = rows.iter().map(|(own, size, ..)| own.then_some(*size)).collect();
            let (run, places) = run_of(&of_rows);
            let mut known: Vec<RunHole> = Vec::new();
            for finished_below in [3, 7] {
                let needed: Vec<bool> = rows.iter().map(|row| row.2 >= finished_below && row.3).collect();
                let plain = plain(&places, &needed);
                let holes = found(&run, &plain, &known, sizes, blocks);
                prop_assert_eq!(&holes, &expected(&plain, &known, sizes));
                let of_store = RunHoles::of(holes.clone());
                prop_assert!(of_store.is_some(), "{:?}", holes);
                let is_covered = |row: &Plain| holes.iter().any(|hole| hole.from < row.to && row.from < hole.to);
                prop_assert!(!plain.iter().any(|row| row.is_needed && is_covered(row)));
                prop_assert!(known.iter().all(|hole| of_store.as_ref().is_some_and(|all| all.hold(hole))));
                known = holes;
            }
        }
    }

    #[test]
    fn where_there_are_too_many_the_largest_are_taken_and_those_that_are_there_stay() {
        let count = HOLES_IN_FILE_MAX + 60;
        // Every other payload is needed; each payload has a place of its own.
        let (run, places) = run_of(&(0..2 * count).map(|at| Some(100 + at % 4 * 100)).collect::<Vec<_>>());
        let needed: Vec<bool> = (0..2 * count).map(|at| at % 2 == 1).collect();
        let (rows, sizes) = (plain(&places, &needed), HoleSizes { bytes_min: 1, block_bytes: 8, gain_min: 1 });
        let small = |row: &Plain| RunHole { run: NUMBER, from: row.from, to: row.to };
        let known: Vec<RunHole> = rows.iter().step_by(4).take(3).map(small).collect();
        let holes = found(&run, &rows, &known, sizes, 1_000);
        assert_eq!(holes.len(), HOLES_IN_FILE_MAX);
        assert!(known.iter().all(|hole| holes.contains(hole)), "they are among the smallest");
        let left_out = rows.iter().filter(|row| !row.is_needed).map(small).filter(|hole| !holes.contains(hole));
        let largest = left_out.map(|hole| hole.bytes()).max().unwrap();
        assert!(holes.iter().all(|hole| known.contains(hole) || hole.bytes() >= largest));
    }

    #[test]
    fn a_run_is_looked_through_where_a_sixteenth_more_may_be_given_back() {
        let (run, places) = run_of(&[Some(984); 32]);
        let bytes = run.payload_bytes();
        assert_eq!(bytes, 32 * 1_024, "each payload has blocks of its own");
        let sizes = HoleSizes { bytes_min: 1, block_bytes: 512, gain_min: u64::MAX };
        let begins = |finished: usize, left: u64, known: &[RunHole]| {
            let mut target = RunTarget::new(Arc::clone(&run), left);
            places.iter().skip(finished).flatten().for_each(|(from, _)| target.note_payload(*from as u32));
            target.begin(known, sizes).is_some()
        };
        let free = |finished: usize| finished as u64 * 1_024 + (32 - finished as u64) * 512;
        // Each needed payload counts as one of its two blocks.
        assert!(!begins(2, free(0), &[]) && !begins(3, free(0), &[]) && begins(4, free(0), &[]));
        let known = [RunHole { run: NUMBER, from: places[0].unwrap().0, to: places[3].unwrap().1 }];
        assert!(!begins(4, free(4) - 4 * 1_024, &known) && begins(8, free(4) - 4 * 1_024, &known));
    }
}
