//! The parts of ranges that are not pieces of the log, for each table.

use std::cell::RefCell;

use delaymq_core::error::Result;
use delaymq_core::message_log::{LogPiece, Stream, segment_path};
use delaymq_core::run::{Run, StagedRun, run_path};
use delaymq_core::storage::Storage;
use delaymq_core::units::{Location, Millis, RunNumber, SegmentNumber, Sequence, SubjectNumber};

use crate::plan::due_stretches::DuePart;
use crate::read::ready_facts::Refused;
use crate::read::ready_numbers::Numbering;

/// The files and facts from which the schedule is built again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Replay {
    pub(crate) checkpoint: Option<u32>,
    /// The end of the log behind it.
    pub(crate) end: Location,
}

/// Which part of the schedule a range is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PendingPart {
    pub(crate) replay: Replay,
    pub(crate) due: DuePart,
}

/// What a range of `ready` needs in addition to its pieces.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ReadyPart {
    pub(crate) replay: Replay,
    /// The log before its pieces: facts that made entries which become ready later.
    pub(crate) before: Vec<LogPiece>,
    /// It begins with ready and unfinished messages whose ready facts are not in the log any more.
    pub(crate) has_older: bool,
    /// No more rows are in it.
    pub(crate) rows: u64,
    pub(crate) numbering: Numbering,
    pub(crate) refused: Refused,
}

/// What a range of `deliveries` needs in addition to its pieces, which reach from its messages to the end of the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct DeliveriesPart {
    pub(crate) replay: Replay,
    /// The first sequence of the log.
    pub(crate) log_first: Sequence,
    /// No more rows are in it.
    pub(crate) rows: u64,
    pub(crate) numbering: Numbering,
    pub(crate) refused: Refused,
}

/// A file, and what a snapshot knows of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum KnownFile {
    Segment(KnownSegment),
    Run(RunNumber),
    Load(KnownLoad),
}

/// A segment as of a snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct KnownSegment {
    pub(crate) number: SegmentNumber,
    pub(crate) first: Sequence,
    pub(crate) end: Sequence,
    /// The trusted time of its last batch.
    pub(crate) trusted_to: Millis,
    pub(crate) is_sealed: bool,
    /// Its first batch is in a hole.
    pub(crate) begins_hollow: bool,
}

impl KnownFile {
    pub(crate) fn path(&self) -> String {
        match self {
            Self::Segment(segment) => segment_path(segment.number),
            Self::Run(run) => run_path(*run),
            Self::Load(load) => load.path(),
        }
    }
}

/// A loaded run in a snapshot: any process with the folder can open it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct KnownLoad {
    pub(crate) number: RunNumber,
    pub(crate) run: StagedRun,
    pub(crate) base: Sequence,
    pub(crate) published: Millis,
}

impl KnownLoad {
    /// What there is to know of a run, if it was loaded.
    pub(crate) fn of(run: &Run) -> Option<Self> {
        let relation = run.relation()?;
        let named =
            StagedRun { name: relation.name, length: run.length(), digest: run.digest(), rows: run.row_count() };
        Some(Self { number: run.number(), run: named, base: relation.base, published: relation.published })
    }

    pub(crate) fn path(&self) -> String {
        self.run.name.path()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.run.length
    }

    /// Opens it with its subjects by their places, from 1, and gives their names.
    pub(crate) fn open(&self, storage: &dyn Storage, stream: &Stream) -> Result<(Run, Vec<String>)> {
        let names = RefCell::new(Vec::new());
        let number_of = |name: &str| {
            let mut names = names.borrow_mut();
            names.push(name.to_owned());
            u32::try_from(names.len()).ok().map(SubjectNumber)
        };
        let (who, place) = ((self.number, &stream.id), (self.base, self.published));
        let run = Run::open_adopted(storage, &self.run, who, place, &number_of)?;
        Ok((run, names.into_inner()))
    }
}
