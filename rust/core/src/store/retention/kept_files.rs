//! Decides which files are still needed and which may be removed. A file is removed when no unfinished message points
//! into it, no kept checkpoint needs it, and it is old enough; age alone never decides.
//!
//! Everything that is unfinished at a checkpoint is in a run that the checkpoint names, and the footer of a run lists
//! the segments and runs that its rows point into. So the needs of a checkpoint are computed from footers alone,
//! without a count for each message: the segment floor is the smallest segment that a needed run names or that the
//! replay starts in.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::finished_age::Keeping;
use crate::error::{Error, Result};
use crate::message_log::Holes;
use crate::planted::{Planted, is_on};
use crate::run::{LoadName, Run, RunHoles, RunKind, run_path};
use crate::store::state::file_subjects::FileSubjects;
use crate::store::state::{SegmentStart, State};
use crate::units::{LocationFile, Millis, ReadyNumber, RunNumber, SegmentNumber, Sequence, SubjectNumber};

/// The files that one checkpoint needs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeptFiles {
    /// The checkpoint's number.
    pub checkpoint: u32,
    /// The next sequence after the checkpoint: an open from it repeats all adoptions from this sequence on.
    pub next_sequence: Sequence,
    /// Segments below this one are not needed.
    pub floor: SegmentNumber,
    /// The runs that it names.
    pub runs: BTreeSet<RunNumber>,
    /// The loaded runs among them.
    pub loads: BTreeMap<RunNumber, LoadName>,
    /// Batches of segments that it does not need.
    pub holes: Holes,
    /// Payloads of runs that it does not need.
    pub run_holes: RunHoles,
}

impl KeptFiles {
    /// Adds files that live entries need although the checkpoint does not name them.
    pub(in crate::store) fn holding(mut self, files: &BTreeSet<LocationFile>) -> Self {
        for file in files {
            match file {
                LocationFile::Segment(segment) => self.floor = self.floor.min(*segment),
                LocationFile::Run(run) => drop(self.runs.insert(*run)),
            }
        }
        self
    }

    /// Adds the runs that facts after the checkpoint adopted: an open from the checkpoint opens these runs.
    pub(in crate::store) fn holding_loads(mut self, state: &State) -> Self {
        for known in state.runs.values() {
            let opened = known.run.relation().filter(|relation| relation.base >= self.next_sequence);
            if let Some(relation) = opened.filter(|_| !is_on(Planted::AdoptedGoesEarly)) {
                self.runs.insert(relation.number);
                self.loads.insert(relation.number, relation.name);
            }
        }
        self
    }

    /// The path of one of its runs.
    pub(in crate::store) fn path_of(&self, run: RunNumber) -> String {
        self.loads.get(&run).map_or_else(|| run_path(run), LoadName::path)
    }
}

/// The number of checkpoints that are kept; each is sufficient alone.
pub(in crate::store) const CHECKPOINTS_KEPT: usize = 2;

/// The checkpoints whose files are kept.
pub(super) fn holding(kept: &[KeptFiles]) -> &[KeptFiles] {
    match kept {
        [.., newest] if is_on(Planted::NewestHoldsAlone) => std::slice::from_ref(newest),
        _ => kept,
    }
}

/// The segment below which no segment is needed by either of two checkpoints.
pub(in crate::store) fn log_floor(kept: &[KeptFiles]) -> Option<SegmentNumber> {
    holding(kept).iter().map(|files| files.floor).min().filter(|_| kept.len() >= CHECKPOINTS_KEPT)
}

/// Removes runs and segments from the state that no kept checkpoint needs.
pub(in crate::store) fn forget(state: &mut State, kept: &[KeptFiles]) {
    let Some(floor) = log_floor(kept) else { return };
    let is_gone = |run: RunNumber| kept.iter().all(|files| !files.runs.contains(&run));
    state.dispatch.forget_runs(&is_gone);
    let runs: Vec<RunNumber> =
        state.schedule.windows().iter().filter_map(|window| window.run()).map(|run| run.number()).collect();
    for run in runs.into_iter().filter(|run| is_gone(*run)) {
        state.schedule.release(run);
    }
    state.runs.retain(|run, _| !is_gone(*run));
    state.run_holes = state.run_holes.of_runs(&state.runs.keys().copied().collect());
    state.segments.retain(|start| start.segment >= floor);
    state.holes = state.holes.from_segment(floor);
    if let Some(first) = state.segments.first() {
        // The final state of a message is known while the message is kept, in the log or in a run.
        let schedule = state.runs.values().filter(|known| known.run.kind() == RunKind::Schedule);
        let oldest = schedule.map(|known| known.run.first_sequence()).min();
        let known_from = first.position.next_sequence;
        state.schedule.retire(oldest.map_or(known_from, |oldest| oldest.min(known_from)));
    }
}

/// A run as a checkpoint considers it.
#[derive(Clone, Debug)]
pub(in crate::store) struct Candidate {
    pub(in crate::store) run: Arc<Run>,
    /// True if a row in it is unfinished as of the checkpoint.
    pub(in crate::store) unfinished: bool,
    /// True if an open from the checkpoint before this one opens the run, since a fact between both adopts it.
    pub(in crate::store) adopted_since: bool,
    pub(in crate::store) created: Millis,
    pub(in crate::store) subjects: FileSubjects,
}

/// Returns the runs and the segment floor that a checkpoint needs. An open replays the log from the segment
/// `replay_from` on; `read_again_from` is that of [`State::read_again_from`].
///
/// # Errors
/// `Corrupt` if a needed run points into an unknown run.
pub(in crate::store) fn needed(
    candidates: &[Candidate],
    segments: &[SegmentStart],
    (replay_from, read_again_from): (SegmentNumber, Option<SegmentNumber>),
    keeping: &Keeping,
) -> Result<(BTreeSet<RunNumber>, SegmentNumber)> {
    let known: BTreeSet<RunNumber> = candidates.iter().map(|candidate| candidate.run.number()).collect();
    let mut runs = BTreeSet::new();
    let mut floor = replay_from;
    let holds = |candidate: &&Candidate| candidate.unfinished && !is_on(Planted::RetentionByAge);
    for candidate in candidates.iter().filter(holds) {
        runs.insert(candidate.run.number());
        for run in run_references(&candidate.run) {
            if is_on(Planted::MergeHoldsNothing) {
                break;
            }
            if !known.contains(&run) {
                let path = run_path(candidate.run.number());
                return Err(Error::corrupt(&path, 0, "references to known runs", format!("run {run}")));
            }
            runs.insert(run);
        }
        if let Some(segment) = segment_references(&candidate.run).min() {
            floor = floor.min(segment);
        }
    }
    let is_young = |candidate: &&Candidate| keeping.is_young(candidate.created, &candidate.subjects);
    runs.extend(candidates.iter().filter(is_young).map(|candidate| candidate.run.number()));
    let is_opened = |candidate: &&Candidate| candidate.adopted_since && !is_on(Planted::AdoptedGoesEarly);
    runs.extend(candidates.iter().filter(is_opened).map(|candidate| candidate.run.number()));
    let mut floor = aged_floor(segments, floor, keeping);
    let of_runs: BTreeMap<_, _> = candidates.iter().map(|one| (one.run.number(), &one.subjects)).collect();
    let (readable_from, files) = held_by_ready(segments, read_again_from, keeping, &|run| of_runs.get(&run).copied());
    floor = floor.min(readable_from.unwrap_or(floor));
    for file in files {
        match file {
            LocationFile::Segment(segment) => floor = floor.min(segment),
            LocationFile::Run(run) if known.contains(&run) => drop(runs.insert(run)),
            LocationFile::Run(_) => {}
        }
    }
    let floor = floor.max(segments.first().map_or(floor, |first| first.segment));
    runs.extend(loaded_since(candidates, segments, floor));
    Ok((runs, floor))
}

/// Returns the first segment whose messages a group can read again or reads again, and all files with the payloads and
/// the rows of messages that became ready from there on. A message can be read again for as long as finished messages
/// of its subject are kept, counted from when it became ready: so a file is held for the subjects of its own messages.
/// `of_run` says the subjects of a run.
pub(in crate::store) fn held_by_ready<'a>(
    segments: &'a [SegmentStart],
    read_again_from: Option<SegmentNumber>,
    keeping: &Keeping,
    of_run: &dyn Fn(RunNumber) -> Option<&'a FileSubjects>,
) -> (Option<SegmentNumber>, BTreeSet<LocationFile>) {
    if is_on(Planted::ReadyHoldsNothing) {
        return (read_again_from, BTreeSet::new());
    }
    let of_file = |file: &LocationFile| match file {
        LocationFile::Run(run) => of_run(*run),
        LocationFile::Segment(segment) => {
            let place = segments.binary_search_by_key(segment, |start| start.segment).ok()?;
            segments.get(place).map(|start| &start.subjects)
        }
    };
    let (mut first, mut files) = (None, BTreeSet::new());
    for (start, end) in segments.iter().zip(ends(segments)) {
        let is_read_again = read_again_from.is_some_and(|from| start.segment >= from);
        if !is_read_again && !keeping.is_young_segment(end, &start.subjects) {
            continue;
        }
        first = first.or(Some(start.segment));
        let is_held = |file: &LocationFile| {
            is_read_again || of_file(file).is_none_or(|subjects| keeping.is_young_segment(end, subjects))
        };
        files.extend(start.ready.files().filter(is_held));
    }
    (first, files)
}

/// When each segment was last written; `None` for the one that is being written.
fn ends(segments: &[SegmentStart]) -> impl Iterator<Item = Option<Millis>> {
    segments.iter().skip(1).map(|next| next.position.trusted).map(Some).chain([None])
}

/// Returns the number of the first message of the subject that a segment made ready which is young enough for it.
pub(in crate::store) fn first_kept(
    segments: &[SegmentStart],
    subject: SubjectNumber,
    keeping: &Keeping,
) -> Option<ReadyNumber> {
    let mut alone = FileSubjects::none();
    alone.note(subject);
    let mut kept = segments.iter().zip(ends(segments)).filter(|(_, end)| keeping.is_young_segment(*end, &alone));
    kept.find_map(|(start, _)| start.ready.first(subject))
}

/// Returns the loaded runs whose adopting facts are in the log from this segment on: a reader of such a fact finds the
/// messages in the run.
fn loaded_since(
    candidates: &[Candidate],
    segments: &[SegmentStart],
    floor: SegmentNumber,
) -> impl Iterator<Item = RunNumber> {
    let first = segments.iter().find(|start| start.segment >= floor).map(|start| start.position.next_sequence);
    let runs = candidates.iter().map(|candidate| &candidate.run);
    runs.filter(move |run| {
        let is_there = run.relation().zip(first).is_some_and(|(relation, first)| relation.base >= first);
        is_there && !is_on(Planted::AdoptedGoesEarly)
    })
    .map(|run| run.number())
}

fn run_references(run: &Run) -> impl Iterator<Item = RunNumber> {
    run.references().iter().filter_map(|reference| match reference.file {
        LocationFile::Run(run) => Some(run),
        LocationFile::Segment(_) => None,
    })
}

fn segment_references(run: &Run) -> impl Iterator<Item = SegmentNumber> {
    run.references().iter().filter_map(|reference| match reference.file {
        LocationFile::Segment(segment) => Some(segment),
        LocationFile::Run(_) => None,
    })
}

/// Lowers the floor to the first segment whose end is young or not archived. A segment ends where the next one begins.
fn aged_floor(segments: &[SegmentStart], floor: SegmentNumber, keeping: &Keeping) -> SegmentNumber {
    let mut aged = segments.first().map_or(floor, |first| first.segment);
    for pair in segments.windows(2) {
        let [segment, next] = pair else { continue };
        let is_awaited = keeping.is_awaited(next.position.next_sequence);
        if segment.segment >= floor || is_awaited || keeping.is_young(next.position.trusted, &segment.subjects) {
            break;
        }
        aged = next.segment;
    }
    aged.min(floor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message_log::segment_path;
    use crate::store::Removable;
    use crate::store::checkpoint_path;
    use crate::store::names::subjects::Subjects;
    use crate::store::retention::finished_age::KeepFinished;
    use crate::store::retention::removable::removable;
    use crate::store::state::LogPosition;
    use crate::store::state::segment_ready::SegmentReady;
    use crate::units::SubjectNumber;

    fn start(segment: u32, trusted: u64) -> SegmentStart {
        let position = LogPosition { trusted: Millis(trusted), ..LogPosition::default() };
        let (subjects, ready) = (FileSubjects::none(), SegmentReady::none());
        SegmentStart { segment: SegmentNumber(segment), position, subjects, ready }
    }

    fn kept(checkpoint: u32, floor: u32, runs: &[u32]) -> KeptFiles {
        let runs = runs.iter().map(|run| RunNumber(*run)).collect();
        KeptFiles {
            checkpoint,
            next_sequence: Sequence(0),
            floor: SegmentNumber(floor),
            runs,
            loads: BTreeMap::new(),
            holes: Holes::default(),
            run_holes: RunHoles::default(),
        }
    }

    #[test]
    fn a_file_goes_when_neither_kept_checkpoint_needs_it() {
        let mut all = vec![kept(1, 1, &[1, 2]), kept(2, 3, &[2, 3])];
        assert_eq!(removable(&mut all, Some(SegmentNumber(1))), Removable::default());
        all.push(kept(3, 5, &[3, 4]));
        let gone = removable(&mut all, Some(SegmentNumber(1)));
        assert_eq!(gone.checkpoints, vec![checkpoint_path(1)]);
        let files = [run_path(RunNumber(1)), segment_path(SegmentNumber(1)), segment_path(SegmentNumber(2))];
        assert_eq!(gone.files, files);
    }

    #[test]
    fn age_holds_a_finished_segment_and_never_lets_an_unfinished_one_go() {
        let segments = [start(1, 0), start(2, 100), start(3, 200)];
        let floor = |replay_from: u32, now: u64| {
            let keeping = keeping(200, &[], now);
            needed(&[], &segments, (SegmentNumber(replay_from), None), &keeping).unwrap().1.0
        };
        assert_eq!([floor(3, 250), floor(3, 310), floor(3, 10_000), floor(2, 10_000)], [1, 2, 3, 2]);
    }

    #[test]
    fn a_segment_is_kept_until_its_facts_are_archived() {
        let mut segments = [start(1, 0), start(2, 100), start(3, 200)];
        for (segment, first) in segments.iter_mut().zip([1, 10, 20]) {
            segment.position.next_sequence = Sequence(first);
        }
        let floor = |archived: Option<u64>, replay_from: u32| {
            let mut keeping = keeping(0, &[], 10_000);
            keeping.await_archives(archived.map(Sequence));
            needed(&[], &segments, (SegmentNumber(replay_from), None), &keeping).unwrap().1.0
        };
        assert_eq!(
            [None, Some(0), Some(9), Some(10), Some(19), Some(20)].map(|from| floor(from, 3)),
            [3, 1, 1, 2, 2, 3]
        );
        assert_eq!(floor(Some(20), 2), 2, "what is archived and needed stays");
    }

    fn keeping(rest_ms: u64, of: &[(&str, u64)], now: u64) -> Keeping {
        let mut subjects = Subjects::default();
        for (number, name) in (1_u32..).zip(["settlement", "noise", "order", "%RETRY%settlement%billing"]) {
            subjects.add(SubjectNumber(number), name);
        }
        let of = of.iter().map(|(name, keep_ms)| ((*name).to_owned(), *keep_ms)).collect();
        KeepFinished { rest_ms, of }.at(&subjects, Millis(now))
    }

    fn with(subjects: &[u32], start: SegmentStart) -> SegmentStart {
        let mut start = start;
        for number in subjects {
            start.subjects.note(SubjectNumber(*number));
        }
        start
    }

    #[test]
    fn a_segment_is_kept_for_its_longest_subject_and_holds_those_behind_it() {
        let segments = [
            with(&[2], start(1, 0)),
            with(&[2, 3], start(2, 100)),
            with(&[4], start(3, 200)),
            with(&[2], start(4, 300)),
        ];
        let unknown = segments.clone().map(|start| SegmentStart { subjects: FileSubjects::unknown(), ..start });
        let of = [("settlement", 5_000), ("noise", 0)];
        let floor = |segments: &[SegmentStart], now: u64| {
            needed(&[], segments, (SegmentNumber(4), None), &keeping(200, &of, now)).unwrap().1.0
        };
        // A segment with only noise goes at once, one with an order after the time of orders; the retry belongs to
        // settlement.
        assert_eq!([50, 100, 399, 400, 5_299, 5_300].map(|now| floor(&segments, now)), [1, 2, 2, 3, 3, 4]);
        assert_eq!([5_099, 5_100, 5_200, 5_300].map(|now| floor(&unknown, now)), [1, 2, 3, 4]);
    }
}
