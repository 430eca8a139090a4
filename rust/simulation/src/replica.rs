//! A second owner that applies the log from its first fact on, without runs, checkpoints and a feed. It must reach the
//! same state as the store. Since it runs the same `apply`, it is compared with a [`Ledger`], which does not.

use std::collections::BTreeMap;
use std::sync::Arc;

use delaymq_core::error::{Error, Result};
use delaymq_core::message_log::{BatchReader, EpochSource, Identity, SEGMENT_HEADER_BYTES, list_segments};
use delaymq_core::run::LoadName;
use delaymq_core::schedule_log::{Cells, EntryState, Window};
use delaymq_core::storage::{MemoryStorage, Storage};
use delaymq_core::store::{NewStore, Outcome, Owner, OwnerOptions, open_identity, recover};
use delaymq_core::units::{
    DueKey, Epoch, Location, Minute, ReadyNumber, SegmentNumber, Sequence, SubjectNumber, Tally,
};

use crate::ledger::{Ledger, StagedLine};
use crate::node::AppliedBatch;

/// See the module.
pub struct Replica {
    identity: Identity,
    owner: Owner,
    ledger: Ledger,
    batches: Vec<AppliedBatch>,
    outcomes: BTreeMap<Sequence, Outcome>,
    /// The storage in which the owner finds staged runs.
    storage: Arc<dyn Storage>,
    staged: BTreeMap<String, Vec<u8>>,
}

/// A replica begins no epoch.
struct NoEpochs;

impl EpochSource for NoEpochs {
    fn raise(&mut self) -> Result<Epoch> {
        Ok(Epoch(0))
    }
}

fn empty_owner(identity: &Identity) -> Result<(Owner, Arc<dyn Storage>)> {
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new(0));
    let new = NewStore { stream: identity.stream.id, node: identity.node, segment_bytes: identity.segment_bytes };
    let identity = open_identity(storage.as_ref(), Some(new))?;
    let options = OwnerOptions { checkpoint_bytes: u64::MAX, checkpoint_facts: u64::MAX, ..OwnerOptions::default() };
    let owner = recover(&storage, &identity, &mut NoEpochs, options, &mut |_| {}).map(|recovered| recovered.owner)?;
    Ok((owner, storage))
}

impl Replica {
    /// A replica of this stream, before its first fact.
    pub fn new(identity: Identity) -> Result<Self> {
        let ((owner, storage), ledger) = (empty_owner(&identity)?, Ledger::default());
        let (outcomes, staged) = (BTreeMap::new(), BTreeMap::new());
        Ok(Self { identity, owner, ledger, batches: Vec::new(), outcomes, storage, staged })
    }

    /// Applies the next batch. `Corrupt` if it does not follow.
    pub fn apply(&mut self, batch: &AppliedBatch) -> Result<()> {
        self.owner.apply(&batch.visible())?;
        self.outcomes.extend(self.owner.take_outcomes());
        self.owner.take_woken();
        self.ledger.apply(batch);
        self.batches.push(batch.clone());
        Ok(())
    }

    /// Learns of a staged run: its bytes, and its messages in the order of its rows.
    pub fn know_staged(&mut self, name: LoadName, bytes: &[u8], lines: &[StagedLine]) -> Result<()> {
        let path = name.path();
        if !self.staged.contains_key(&path) {
            self.storage.create(&path)?.write_at(0, bytes)?;
            self.staged.insert(path, bytes.to_vec());
            self.ledger.know_staged(name, lines.to_vec());
        }
        Ok(())
    }

    /// Forgets everything from `first` on, which was lost at the end of an epoch.
    pub fn forget_from(&mut self, first: Sequence) -> Result<()> {
        if self.owner.applied() <= first {
            return Ok(());
        }
        let batches = std::mem::take(&mut self.batches);
        let before = std::mem::take(&mut self.ledger);
        self.ledger.learn_staged_of(&before);
        (self.owner, self.storage) = empty_owner(&self.identity)?;
        for (path, bytes) in &self.staged {
            self.storage.create(path)?.write_at(0, bytes)?;
        }
        self.outcomes.clear();
        for batch in batches.iter().filter(|batch| batch.header.base_sequence.get() < first.0) {
            self.apply(batch)?;
        }
        Ok(())
    }

    /// Reads the batches that were not applied, up to `end`, applies them and returns them.
    pub fn catch_up(&mut self, storage: &Arc<dyn Storage>, end: Location) -> Result<Vec<AppliedBatch>> {
        let mut from = self.owner.state().position.end;
        if self.batches.is_empty() {
            // The log's first segments are empty if nothing was published before a restart.
            let first = list_segments(storage.as_ref())?.first().copied().unwrap_or(SegmentNumber(1));
            from = from.max(Location::in_segment(first, SEGMENT_HEADER_BYTES));
        }
        let mut reader = BatchReader::new(Arc::clone(storage), self.identity.stream, from, end);
        let mut read = Vec::new();
        while let Some(scanned) = reader.next_batch()? {
            let batch = AppliedBatch { header: scanned.header, start: scanned.start, bytes: scanned.bytes };
            self.apply(&batch)?;
            read.push(batch);
        }
        Ok(read)
    }

    /// The identity of the store.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// The owner.
    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    /// The pending messages by the ledger, in log order, with their subjects.
    pub fn waiting(&self) -> Vec<(DueKey, &str)> {
        self.ledger.waiting()
    }

    /// The outcome of a command.
    pub fn outcome(&self, sequence: Sequence) -> Option<Outcome> {
        self.outcomes.get(&sequence).copied()
    }

    /// True if this command got the outcome of an earlier one under its id and did nothing else.
    pub fn is_known_again(&self, command: Sequence) -> bool {
        self.ledger.is_known_again(command)
    }

    /// The differences between the state of `live` and this one, in words.
    pub fn differences(&self, live: &Owner) -> Vec<String> {
        let mut found = self.ledger.differences(&self.owner);
        found.extend(self.compare_commands());
        let (ours, theirs) = (self.owner.state(), live.state());
        let mut compare = |what: &str, ours: String, theirs: String| {
            if ours != theirs {
                found.push(format!("{what}: replica {ours}, store {theirs}"));
            }
        };
        let position = |state: &delaymq_core::store::State| {
            format!("{} {:08x} {}", state.position.next_sequence, state.position.chain, state.position.epoch)
        };
        compare("position", position(ours), position(theirs));
        compare("epochs", format!("{:?}", ours.epochs), format!("{:?}", theirs.epochs));
        compare("subjects", subjects_of(ours), subjects_of(theirs));
        compare("groups", format!("{:?}", ours.groups), format!("{:?}", theirs.groups));
        compare("ended groups", format!("{:?}", ours.ended_groups), format!("{:?}", theirs.ended_groups));
        let numbers = |state: &delaymq_core::store::State| {
            format!("{} {} {} {}", state.next_group, state.next_consumer, state.voided, state.delay_ms_max)
        };
        compare("next numbers", numbers(ours), numbers(theirs));
        compare("keys", format!("{}", ours.keys == theirs.keys), "true".to_owned());
        let is_same = ours.dispatched_keys == theirs.dispatched_keys;
        compare("dispatched keys", is_same.to_string(), "true".to_owned());
        compare("ids", format!("{}", ours.ids == theirs.ids), "true".to_owned());
        compare("what was loaded", format!("{}", ours.load_jobs == theirs.load_jobs), "true".to_owned());
        compare("what recurs", format!("{}", ours.recurring == theirs.recurring), "true".to_owned());
        compare("pending", ours.schedule.pending().to_string(), theirs.schedule.pending().to_string());
        compare("pending by subject", format!("{:?}", ours.pending_counts()), format!("{:?}", theirs.pending_counts()));
        let due =
            |state: &delaymq_core::store::State| format!("{:?}", state.due_by_minute(Minute(0), Minute(u32::MAX)));
        compare("due by minute", due(ours), due(theirs));
        // Damaged or unreadable blocks cannot be compared.
        let told = theirs.horizon(None).read(&|_| 0).ok().filter(|told| told.hidden_rows == 0);
        if let (Ok(expected), Some(told)) = (ours.horizon(None).read(&|_| 0), told) {
            compare("due by subject and minute", format!("{:?}", expected.cells), format!("{:?}", told.cells));
            for (subject, _) in ours.subjects.iter() {
                let Ok(told) = theirs.horizon(Some(subject)).read(&|_| 0) else { continue };
                let of_it: Cells = expected.cells.iter().filter(|((of, _), _)| *of == subject).map(copied).collect();
                if told.hidden_rows == 0 {
                    compare("due of a subject by minute", format!("{of_it:?}"), format!("{:?}", told.cells));
                }
            }
        }
        self.compare_entries(live, &mut found);
        self.compare_ready(live, &mut found);
        found
    }

    /// The outcomes of commands.
    fn compare_commands(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (command, outcome) in &self.outcomes {
            if let Some(expected) = self.ledger.outcome(*command).filter(|expected| expected != outcome) {
                found.push(format!("command {command}: ledger {expected:?}, replica {outcome:?}"));
            }
        }
        found
    }

    /// The fate of each sequence. The store may have forgotten finished messages.
    fn compare_entries(&self, live: &Owner, found: &mut Vec<String>) {
        let (ours, theirs) = (&self.owner.state().schedule, &live.state().schedule);
        let known_from = theirs.windows().first().map_or(Sequence(u64::MAX), Window::first);
        let mut sequence = Sequence(1);
        while sequence < ours.next_sequence() {
            let (expected, is) = (ours.state(sequence), theirs.state(sequence));
            let forgotten = sequence < known_from && is == EntryState::Nothing && expected != EntryState::Pending;
            if expected != is && !forgotten {
                found.push(format!("what became of sequence {sequence}: replica {expected:?}, store {is:?}"));
            }
            sequence = sequence.next();
        }
    }

    /// Every ready message that is not finished must be in memory or in a run.
    fn compare_ready(&self, live: &Owner, found: &mut Vec<String>) {
        let (ours, theirs) = (&self.owner.state().dispatch, &live.state().dispatch);
        for (subject, _) in self.owner.state().subjects.iter() {
            let bounds =
                |log: &delaymq_core::dispatch_log::DispatchLog| (log.finished_below(subject), log.next_number(subject));
            if bounds(ours) != bounds(theirs) {
                found.push(format!("ready of subject {subject}: {:?} {:?}", bounds(ours), bounds(theirs)));
            }
            let (mut number, end) = bounds(ours);
            while number < end {
                let expected = ready_words(&self.owner, subject, number);
                let is = ready_words(live, subject, number);
                let unread = is.starts_with(UNREAD);
                if expected != is && !unread {
                    found.push(format!("ready {number} of subject {subject}: replica {expected}, store {is}"));
                }
                number = number.next();
            }
        }
    }
}

fn copied(cell: (&(SubjectNumber, Minute), &Tally)) -> ((SubjectNumber, Minute), Tally) {
    (*cell.0, *cell.1)
}

/// Begins the words of an entry that a planned fault made unreadable.
const UNREAD: &str = "unread";

/// An entry without its location, which differs between copies.
fn ready_words(owner: &Owner, subject: SubjectNumber, number: ReadyNumber) -> String {
    match owner.state().dispatch.find(subject, number) {
        Ok(Some(entry)) => {
            format!("{:?} {} {} {}", entry.key(), entry.attempt(), entry.payload_sequence(), entry.subject())
        }
        Ok(None) => "nothing".to_owned(),
        Err(error @ Error::Storage { .. }) => format!("{UNREAD}: {error}"),
        Err(error) => error.to_string(),
    }
}

fn subjects_of(state: &delaymq_core::store::State) -> String {
    format!("{:?}", state.subjects.iter().collect::<Vec<_>>())
}
