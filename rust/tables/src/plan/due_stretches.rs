//! Stretches of the schedule in the order of due times, as far as footers and memory know them without reading rows.
//! The schedule is cut into ranges by them.

use delaymq_core::error::Result;
use delaymq_core::run::{ROW_BYTES, Run, TIME_BUCKET_MS, TimeBucket};
use delaymq_core::schedule_log::{DUE_MAX, Schedule};
use delaymq_core::store::keys_between;
use delaymq_core::units::{DueKey, Millis, RunNumber, Sequence};

use crate::schema::filter::Filter;

/// Entries in memory are counted in groups of so many, or of so many bytes.
const TOLD_ENTRIES: usize = 85;
const TOLD_BYTES: u64 = 1 << 20;
/// Bytes of the header and fixed part of a message's record.
const RECORD_BYTES: u64 = 40;

/// Entries of one source that follow each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stretch {
    /// The key of the first.
    first: DueKey,
    /// None of them has a key above this.
    last: DueKey,
    /// No more are pending.
    rows: u64,
    /// About so many bytes are read for them.
    bytes: u64,
}

/// A run, or the entries in memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Source {
    run: Option<RunNumber>,
    first_sequence: Sequence,
    last_sequence: Sequence,
    stretches: Vec<Stretch>,
}

/// What lies above `after` and up to `to`, which is included.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct DuePart {
    pub(crate) after: DueKey,
    pub(crate) to: DueKey,
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
    pub(crate) runs: Vec<RunNumber>,
}

/// Every source in which something is pending.
pub(crate) fn sources_of(schedule: &Schedule) -> Result<Vec<Source>> {
    let mut sources = Vec::new();
    for run in schedule.windows().iter().filter(|window| window.pending() > 0).filter_map(|window| window.run()) {
        sources.push(source_of_run(run, &run.time_buckets()?));
    }
    let mut recent = Vec::new();
    schedule.each_in_memory(&mut |entry| recent.push((entry.key(), entry.size().unwrap_or_default())));
    sources.extend(source_in_memory(recent));
    Ok(sources)
}

fn source_of_run(run: &Run, buckets: &[TimeBucket]) -> Source {
    let fenced: Vec<(DueKey, u64)> = run.fenced().map(|(key, rows)| (key.due_key(), rows)).collect();
    let end = buckets.last().map_or(DUE_MAX, |hour| Millis(hour.start.0.saturating_add(TIME_BUCKET_MS - 1)));
    let ends = fenced.iter().skip(1).map(|(next, _)| before(*next)).chain([DueKey::end_of(end)]);
    let mut payloads = Payloads { buckets, of_hour: 0 };
    let stretches = fenced.iter().zip(ends).map(|((first, rows), last)| Stretch {
        first: *first,
        last: last.max(*first),
        rows: *rows,
        bytes: rows.saturating_mul(ROW_BYTES as u64).saturating_add(payloads.of_next(*rows)),
    });
    Source {
        run: Some(run.number()),
        first_sequence: run.first_sequence(),
        last_sequence: run.last_sequence(),
        stretches: stretches.collect(),
    }
}

/// Bytes of copied payloads, shared out among the rows of each hour.
struct Payloads<'a> {
    buckets: &'a [TimeBucket],
    /// Rows of the first hour that were passed.
    of_hour: u64,
}

impl Payloads<'_> {
    /// Bytes of the next so many rows.
    fn of_next(&mut self, rows: u64) -> u64 {
        let (mut left, mut bytes) = (rows, 0_u64);
        while let Some(hour) = self.buckets.first().filter(|_| left > 0) {
            let taken = hour.rows.saturating_sub(self.of_hour).min(left);
            let share = hour.payload_bytes.checked_div(hour.rows).unwrap_or(0);
            bytes = bytes.saturating_add(share.saturating_mul(taken));
            left = left.saturating_sub(taken);
            self.of_hour = self.of_hour.saturating_add(taken);
            if self.of_hour >= hour.rows {
                self.buckets = self.buckets.get(1..).unwrap_or_default();
                self.of_hour = 0;
            }
        }
        bytes
    }
}

fn source_in_memory(mut recent: Vec<(DueKey, u32)>) -> Option<Source> {
    recent.sort_unstable();
    let sequences = || recent.iter().map(|(key, _)| key.sequence);
    let (first_sequence, last_sequence) = (sequences().min()?, sequences().max()?);
    let mut stretches: Vec<Stretch> = Vec::new();
    for (key, size) in recent {
        let bytes = RECORD_BYTES.saturating_add(ROW_BYTES as u64).saturating_add(u64::from(size));
        match stretches.last_mut() {
            Some(last) if last.rows < TOLD_ENTRIES as u64 && last.bytes < TOLD_BYTES => {
                last.last = key;
                last.rows = last.rows.saturating_add(1);
                last.bytes = last.bytes.saturating_add(bytes);
            }
            _ => stretches.push(Stretch { first: key, last: key, rows: 1, bytes }),
        }
    }
    Some(Source { run: None, first_sequence, last_sequence, stretches })
}

/// The parts that have all entries which may be asked for, in the order of due times, each of about `split_bytes`.
pub(crate) fn parts_of(sources: &[Source], filter: &Filter, split_bytes: u64) -> Vec<DuePart> {
    let (after, to) = keys_between(filter.due_from, filter.due_before);
    if after >= to {
        return Vec::new();
    }
    let may_have = |source: &&Source| {
        filter.first_sequence.is_none_or(|first| source.last_sequence >= first)
            && filter.end_sequence.is_none_or(|end| source.first_sequence < end)
    };
    let of = |source: &Source| source.stretches.iter().map(|one| (*one, source.run)).collect::<Vec<_>>();
    let mut all: Vec<(Stretch, Option<RunNumber>)> = sources.iter().filter(may_have).flat_map(of).collect();
    all.retain(|(one, _)| one.last > after && one.first <= to);
    all.sort_unstable_by_key(|(one, run)| (one.first, *run));
    let (mut parts, mut reaching): (Vec<DuePart>, Vec<(Stretch, Option<RunNumber>)>) = (Vec::new(), Vec::new());
    for (one, run) in all {
        match parts.last_mut() {
            Some(part) if one.first <= after || part.bytes.saturating_add(one.bytes) <= split_bytes => {
                part.take(&one, run);
                part.bytes = part.bytes.saturating_add(one.bytes);
            }
            last => {
                let begins = last.map_or(after, |part| {
                    part.to = before(one.first);
                    part.to
                });
                let mut part = DuePart { after: begins, to, rows: 0, bytes: one.bytes, runs: Vec::new() };
                reaching.retain(|(other, _)| other.last > begins);
                for (other, run) in &reaching {
                    part.take(other, *run);
                }
                part.take(&one, run);
                parts.push(part);
            }
        }
        reaching.push((one, run));
    }
    parts
}

impl DuePart {
    fn take(&mut self, one: &Stretch, run: Option<RunNumber>) {
        self.rows = self.rows.saturating_add(one.rows);
        self.runs.extend(run.filter(|run| !self.runs.contains(run)));
    }
}

/// The last key below this one.
fn before(key: DueKey) -> DueKey {
    match (key.sequence.0.checked_sub(1), key.due.0.checked_sub(1)) {
        (Some(sequence), _) => DueKey { due: key.due, sequence: Sequence(sequence) },
        (None, Some(due)) => DueKey::end_of(Millis(due)),
        (None, None) => DueKey::START,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(due: u64, sequence: u64) -> DueKey {
        DueKey { due: Millis(due), sequence: Sequence(sequence) }
    }

    fn stretch(first: DueKey, last: DueKey, rows: u64, bytes: u64) -> Stretch {
        Stretch { first, last, rows, bytes }
    }

    fn run(number: u32, stretches: Vec<Stretch>) -> Source {
        let (first_sequence, last_sequence) = (Sequence(u64::from(number) * 10), Sequence(u64::from(number) * 10 + 9));
        Source { run: Some(RunNumber(number)), first_sequence, last_sequence, stretches }
    }

    fn sources() -> Vec<Source> {
        let first = vec![stretch(key(100, 10), key(199, 9), 5, 50), stretch(key(200, 11), key(400, 19), 4, 40)];
        let second = vec![stretch(key(150, 20), key(350, 29), 3, 30)];
        let memory = source_in_memory(vec![(key(300, 31), 2), (key(90, 30), 1)]).unwrap();
        vec![run(1, first), run(2, second), memory]
    }

    #[test]
    fn parts_follow_each_other_and_know_all_that_reaches_into_them() {
        let sources = sources();
        let one = parts_of(&sources, &Filter::default(), u64::MAX);
        assert_eq!(one.iter().map(|part| part.rows).collect::<Vec<_>>(), [14]);
        let parts = parts_of(&sources, &Filter::default(), 1);
        let found: Vec<_> = parts.iter().map(|part| (part.after, part.to, part.rows, part.runs.len())).collect();
        let end = DueKey::end_of(DUE_MAX);
        // What is in memory is one stretch from 90 to 300.
        let expected = [
            (DueKey::START, key(100, 9), 2, 0),
            (key(100, 9), key(150, 19), 7, 1),
            (key(150, 19), key(200, 10), 10, 2),
            (key(200, 10), end, 9, 2),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn what_is_not_asked_for_is_in_no_part() {
        let sources = sources();
        let due = |from, before| Filter { due_from: Some(Millis(from)), due_before: before, ..Filter::default() };
        let from_360 = parts_of(&sources, &due(360, None), 1);
        assert_eq!(
            from_360.iter().map(|part| (part.rows, part.runs.clone())).collect::<Vec<_>>(),
            [(4, vec![RunNumber(1)])]
        );
        assert_eq!(from_360.first().map(|part| part.after), Some(DueKey::end_of(Millis(359))));
        assert_eq!(parts_of(&sources, &due(401, None), 1), []);
        assert_eq!(parts_of(&sources, &due(0, Some(Millis(90))), 1), []);
        assert_eq!(parts_of(&sources, &due(0, Some(Millis(0))), 1), []);
        let sequences = Filter { first_sequence: Some(Sequence(30)), ..Filter::default() };
        assert!(parts_of(&sources, &sequences, 1).iter().all(|part| part.runs.is_empty()));
        let below = Filter { end_sequence: Some(Sequence(20)), ..Filter::default() };
        assert!(parts_of(&sources, &below, 1).iter().all(|part| part.runs == [RunNumber(1)]));
    }

    #[test]
    fn payloads_are_shared_out_hour_by_hour() {
        let hour = |rows, payload_bytes| TimeBucket { start: Millis(0), rows, payload_bytes };
        let hours = [hour(10, 1_000), hour(2, 0), hour(4, 40)];
        let mut payloads = Payloads { buckets: &hours, of_hour: 0 };
        let found: Vec<u64> = [6, 5, 3, 9].into_iter().map(|rows| payloads.of_next(rows)).collect();
        assert_eq!(found, [600, 400, 20, 20]);
    }

    #[test]
    fn many_recent_entries_are_many_stretches() {
        let recent: Vec<(DueKey, u32)> = (1..=200).rev().map(|at| (key(7, at), 0)).collect();
        let source = source_in_memory(recent).unwrap();
        assert_eq!(source.stretches.iter().map(|one| one.rows).collect::<Vec<_>>(), [85, 85, 30]);
        assert_eq!((source.first_sequence, source.last_sequence), (Sequence(1), Sequence(200)));
        assert_eq!(source_in_memory(Vec::new()), None);
    }
}
