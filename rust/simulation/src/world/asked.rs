//! What users of a store know of their requests.

use std::collections::{BTreeMap, BTreeSet};

use delaymq_core::clock::Reading;
use delaymq_core::record::terms::NameHash;
use delaymq_core::run::{LoadName, StagedRun};
use delaymq_core::store::{Delivery, Outcome, Receipt};
use delaymq_core::units::{ConsumerNumber, GroupNumber, Millis, Sequence, SubjectNumber};

use crate::checker::{Entry, GroupChange, Seen};
use crate::ledger::StagedLine;
use crate::node::{Due, Handed, NewRow, NewTerms, Place};
use crate::rhythm::Rhythm;

/// A receipt, and whether its message is in the log.
pub(super) struct Kept {
    pub(super) receipt: Receipt,
    pub(super) is_here: bool,
}

/// A subject, and a key in it.
pub(super) type Key = (String, String);

/// A command or publish whose outcome is not known yet.
pub(super) enum Command {
    Cancel,
    Move(Receipt),
    /// The terms of a batch, with its messages.
    Batch(Vec<Sequence>),
    /// A message that was published on terms.
    Publish {
        receipt: Receipt,
        key: Option<Key>,
    },
    /// The terms of commands by key that have an id.
    ManyByKey(Vec<Sequence>),
    ByKey {
        /// If it has an id.
        open: Option<Open>,
        asked: ByKey,
    },
    /// The beginning or the end of a series.
    Series,
    /// An occurrence of a series, which comes after an earlier one.
    Occurrence {
        series: Sequence,
        after: Millis,
        receipt: Receipt,
    },
    Load {
        job: NameHash,
        rows: Vec<(SubjectNumber, NewRow)>,
    },
}

/// A command by key.
pub(super) enum ByKey {
    Cancel(Key),
    Move(Key, Receipt),
    /// A move by a key that no message had.
    MoveNothing(Key),
}

/// A command under an id.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    pub(super) is_move: bool,
    /// The first command under the same id.
    pub(super) first: Option<Sequence>,
    pub(super) since: Millis,
}

/// A fact of an operator whose outcome is not known yet.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// A dead letter is brought back.
    Redrive { dead: Sequence },
    /// A group is reset or removed.
    Group(GroupChange),
    /// So many messages expire, at least and at most.
    Expiry { least: usize, most: usize },
}

/// A request whose fact waits for room in the log's queue.
pub(super) enum Ask {
    Assign(Vec<Assigned>),
    /// Filters of a group kept these back, and the others were assigned.
    Judge {
        group: GroupNumber,
        passed_over: Vec<Sequence>,
        assigned: Vec<Assigned>,
    },
    Finish {
        group: GroupNumber,
        entries: Vec<Sequence>,
    },
    GiveBack {
        group: GroupNumber,
        entry: Sequence,
        again: Box<Entry>,
    },
    EndGroup(GroupNumber),
    Nothing,
}

/// A delivery that a consumer holds.
#[derive(Clone, Debug)]
pub(super) struct Assigned {
    pub(super) group: GroupNumber,
    pub(super) consumer: ConsumerNumber,
    pub(super) handle: usize,
    pub(super) delivery: Delivery,
    pub(super) handed: Handed,
    /// The assignment's sequence, once it has one.
    pub(super) fact: Option<Sequence>,
    /// It was acknowledged or given back.
    pub(super) is_done: bool,
}

impl Assigned {
    pub(super) fn key(&self) -> (u32, u32, u64) {
        (self.group.0, self.consumer.0, self.delivery.offset.0)
    }
}

/// One consumer of one group, as its user knows it.
#[derive(Clone, Debug)]
pub(super) struct Handle {
    pub(super) subject: String,
    pub(super) group: String,
    pub(super) name: String,
    /// For a consumer of a retry subject: the subject of its group.
    pub(super) retries_of: Option<String>,
    pub(super) group_number: Option<GroupNumber>,
    pub(super) consumer: Option<ConsumerNumber>,
    pub(super) asked: Option<Sequence>,
    pub(super) from_latest: bool,
}

impl Handle {
    /// The subject of its group.
    pub(super) fn own_subject(&self) -> &str {
        self.retries_of.as_deref().unwrap_or(&self.subject)
    }

    /// A message of this subject that its consumer was given, or was about to be given, for the checker.
    pub(super) fn seen<'a>(
        &'a self,
        (group, consumer): Place,
        subject: SubjectNumber,
        reading: Reading,
        handed: &'a Handed,
    ) -> Seen<'a> {
        let (group_name, consumer_name) = (self.group.as_str(), self.name.as_str());
        Seen { group, consumer, subject, group_name, consumer_name, reading, handed }
    }
}

/// A batch on terms, as its producer has it.
#[derive(Clone)]
pub(super) struct Batch {
    pub(super) subject: String,
    pub(super) messages: Vec<(Due, Vec<u8>, NewTerms)>,
}

/// What producers know of keys.
#[derive(Default)]
pub(super) struct Keyed {
    /// All messages that were stored under a key, in order.
    pub(super) holders: BTreeMap<Key, Vec<Sequence>>,
    /// A batch to publish once more, as a producer does that was not answered.
    pub(super) again: Option<Batch>,
}

impl Keyed {
    /// A message was moved, and its key with it.
    pub(super) fn moved(&mut self, from: Sequence, to: Sequence) {
        for held in self.holders.values_mut().filter(|held| held.last() == Some(&from)) {
            held.push(to);
        }
    }
}

/// A command by key, as its producer has it. With a due time it is a move, without one a cancel.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) key: String,
    pub(super) due: Option<Due>,
    /// The first command under the same id.
    pub(super) first: Option<Sequence>,
}

/// Commands by key of one subject.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) subject: String,
    pub(super) rows: Vec<Row>,
    /// The id that identifies repetitions.
    pub(super) id: Option<String>,
    /// The time of the first submission.
    pub(super) since: Millis,
}

/// What producers know of their commands by key.
#[derive(Default)]
pub(super) struct ByKeys {
    /// Outcomes of commands under ids.
    pub(super) answered: BTreeMap<Sequence, Outcome>,
    /// Commands to submit once more.
    pub(super) again: Option<Asked>,
}

/// A series, as it was begun.
#[derive(Clone, Debug)]
pub(super) struct Series {
    pub(super) rhythm: Rhythm,
    pub(super) after: Millis,
    pub(super) subject: SubjectNumber,
    pub(super) body: Vec<u8>,
}

/// What users know of their series.
#[derive(Default)]
pub(super) struct Recurs {
    /// By the fact that began it.
    pub(super) asked: BTreeMap<Sequence, Series>,
    /// The stored occurrences of each series: message, and due time by the rule.
    pub(super) stored: BTreeMap<Sequence, Vec<(Sequence, Millis)>>,
}

/// A load job, as its user has it.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) hash: NameHash,
    /// In the order of their sequences.
    pub(super) rows: Vec<NewRow>,
    pub(super) runs: Vec<StagedRun>,
}

/// What users know of their loads.
#[derive(Default)]
pub(super) struct Loading {
    pub(super) jobs: Vec<Job>,
    pub(super) next_job: u64,
    /// The answer to each job: its first sequence, and how many messages it has.
    pub(super) done: BTreeMap<NameHash, (Sequence, u64)>,
    /// All staged runs, for a replica that begins again.
    pub(super) staged: Vec<(LoadName, Vec<u8>, Vec<StagedLine>)>,
}

/// Groups in which a consumer holds an entry.
pub(super) type Holders = BTreeMap<Sequence, BTreeSet<GroupNumber>>;

/// What a closed or crashed store had promised to be there after a restart.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Promised {
    pub(super) visible: Sequence,
    pub(super) synced: Sequence,
    /// The power was cut since.
    pub(super) cut: bool,
}
