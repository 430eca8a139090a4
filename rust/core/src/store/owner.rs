//! The owner of the state. It applies every fact in the order of the log, and proposes new facts as time passes
//! and as requests arrive. It is single-threaded: the caller drives it. It never waits for a sync and has no clock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::apply::apply_record;
use super::apply::effects::{Effects, Outcome};
use super::options::OwnerOptions;
use super::propose::load_request::LoadedPostings;
use super::propose::proposals::Proposals;
use super::propose::pull::{Deciding, Pull, PullRequest};
use super::propose::step::{Budget, Progress, Window, step};
use super::recovery::ready_rescue::rescue_ready;
use super::recovery::rescue::Rescue;
use super::retention::finished_age::{KeepFinished, Keeping};
use super::retention::free_room::Reclaiming;
use super::retention::hole_punching::Hollowing;
use super::retention::kept_files::KeptFiles;
use super::state::awaited::Standing;
use super::state::file_subjects::FileSubjects;
use super::state::segment_ready::SegmentReady;
use super::state::{SegmentStart, State};
use crate::clock::Reading;
use crate::error::{Error, Result};
use crate::message_log::{SEGMENT_HEADER_BYTES, ScannedBatch};
use crate::planted::failpoint::{Failpoint, reached};
use crate::record::adopt::sequences_of;
use crate::record::batch::{BATCH_HEADER_BYTES, BatchHeader};
use crate::record::{RecordFault, Records};
use crate::schedule_log::Feed;
use crate::storage::Storage;
use crate::store::apply::placement::{Arrival, BatchTime};
use crate::store::propose::rest::Rest;
use crate::units::{
    ConsumerNumber, DueKey, Epoch, GroupNumber, Location, Millis, PullOffset, ReadyNumber, Sequence, SubjectNumber,
};

/// A visible batch: it is as durable as the store promises, so it may be applied.
#[derive(Clone, Copy, Debug)]
pub struct VisibleBatch<'a> {
    /// Its header.
    pub header: BatchHeader,
    /// Where its header begins.
    pub start: Location,
    /// Its records: all bytes after the header.
    pub records: &'a [u8],
}

impl<'a> From<&'a ScannedBatch> for VisibleBatch<'a> {
    fn from(batch: &'a ScannedBatch) -> Self {
        Self { header: batch.header, start: batch.start, records: batch.records() }
    }
}

/// Applies facts, and proposes new ones. The module describes it.
pub struct Owner {
    pub(super) state: State,
    pub(super) effects: Effects,
    pub(super) deciding: Deciding,
    pub(super) options: OwnerOptions,
    /// The retention of finished messages for single subjects, in milliseconds.
    keep_finished_of: BTreeMap<String, u64>,
    /// Log bytes that were applied since the open, now and as of the last freeze.
    pub(super) bytes_applied: u64,
    pub(super) bytes_at_freeze: u64,
    pub(super) sequence_at_freeze: Sequence,
    pub(super) freezing: bool,
    /// True if a checkpoint would free disk space.
    pub(super) reclaims: bool,
    /// True if the last merge failed. The next merge then waits for the next ordinary checkpoint.
    pub(super) merging_rests: bool,
    /// The next sequence at the last search for disk space to free.
    pub(super) looked_at: Sequence,
    pub(super) rest: Rest,
    pub(super) reclaiming: Reclaiming,
    pub(super) hollowing: Hollowing,
    pub(super) next_checkpoint: u32,
    pub(super) loads_changed: u64,
    pub(super) kept: Vec<KeptFiles>,
}

impl Owner {
    pub(super) fn with_state(
        storage: &Arc<dyn Storage>,
        state: State,
        options: OwnerOptions,
        kept: Vec<KeptFiles>,
        next_checkpoint: u32,
        feed_from: DueKey,
    ) -> Self {
        let sequence_at_freeze = state.position.next_sequence;
        let now = state.position.trusted;
        let mut owner = Self {
            state,
            effects: Effects::new(Arc::clone(storage), Feed::new(feed_from, now)),
            deciding: Deciding::default(),
            options,
            keep_finished_of: BTreeMap::new(),
            bytes_applied: 0,
            bytes_at_freeze: 0,
            sequence_at_freeze,
            freezing: false,
            reclaims: false,
            merging_rests: false,
            looked_at: sequence_at_freeze,
            rest: Rest::default(),
            reclaiming: Reclaiming::default(),
            hollowing: Hollowing::default(),
            next_checkpoint,
            loads_changed: 0,
            kept,
        };
        owner.open_payloads_anew();
        owner
    }

    /// Sets the retention of finished messages of these subjects, in milliseconds. Other subjects have that of the
    /// options.
    pub fn keep_finished_of(&mut self, times: BTreeMap<String, u64>) {
        self.keep_finished_of = times;
    }

    /// Returns which files are too young to be removed now.
    pub(super) fn keeping(&self) -> Keeping {
        self.keeping_in(0)
    }

    /// The same, after some time.
    pub(super) fn keeping_in(&self, later_ms: u64) -> Keeping {
        let keep = KeepFinished { rest_ms: self.options.keep_finished_ms, of: self.keep_finished_of.clone() };
        keep.at(&self.state.subjects, self.reclaiming.aged_at(self.state.position.trusted.plus(later_ms)))
    }

    /// Applies one batch. Batches come in the order of the log, each once. An empty batch (a witness or a seal) only
    /// moves the position.
    ///
    /// # Errors
    /// `Corrupt` if the batch does not continue the log, or if a fact cannot be read: the store must stop. `Storage`
    /// if an entry had to be looked up on disk and could not be read.
    pub fn apply(&mut self, batch: &VisibleBatch<'_>) -> Result<()> {
        self.apply_facts(batch)?;
        self.settle_counts()
    }

    /// As [`Self::apply`], without settling the counts of pending messages.
    pub(super) fn apply_facts(&mut self, batch: &VisibleBatch<'_>) -> Result<()> {
        let header = &batch.header;
        let position = self.state.position;
        if header.base_sequence.get() != position.next_sequence.0 || header.chain_before.get() != position.chain {
            return Err(self.misfit(batch));
        }
        self.note_segment(batch.start);
        // Terms hold for messages of the same batch only, and are never saved.
        self.state.terms = Standing::default();
        self.state.awaited = None;
        let time = BatchTime::of(header);
        let first = batch.start.offset().saturating_add(BATCH_HEADER_BYTES as u32);
        let mut next = position.next_sequence;
        for record in Records::new(batch.records, position.next_sequence) {
            let (at, record) = record.map_err(|fault| unreadable(batch.start, fault))?;
            let location = Location(batch.start.0 - u64::from(batch.start.offset()) + u64::from(first) + at as u64);
            let arrival = Arrival { sequence: record.sequence, location, time };
            apply_record(&mut self.state, &mut self.effects, arrival, &record)?;
            next = next.plus(sequences_of(&record));
        }
        self.hold_adopted();
        if next.since(position.next_sequence) != u64::from(header.count.get()) {
            return Err(self.misfit(batch));
        }
        let position = &mut self.state.position;
        position.end = Location(batch.start.0.saturating_add(u64::from(header.length.get())));
        position.chain = header.chain.get();
        position.next_sequence = position.next_sequence.plus(u64::from(header.count.get()));
        position.epoch = Epoch(header.epoch.get());
        if header.record_count.get() > 0 {
            position.trusted = position.trusted.max(Millis(header.trusted_ms.get()));
        }
        self.state.moves.forget_by_batch(position.trusted);
        self.bytes_applied = self.bytes_applied.saturating_add(u64::from(header.length.get()));
        self.look_again();
        reached(Failpoint::Applied);
        Ok(())
    }

    fn misfit(&self, batch: &VisibleBatch<'_>) -> Error {
        let path = batch.start.segment().map(crate::message_log::segment_path).unwrap_or_default();
        let position = &self.state.position;
        Error::corrupt(
            &path,
            u64::from(batch.start.offset()),
            format!("a batch from sequence {} after chain {:08x}", position.next_sequence, position.chain),
            format!("sequence {} after chain {:08x}", batch.header.base_sequence, batch.header.chain_before),
        )
    }

    fn note_segment(&mut self, start: Location) {
        let Some(segment) = start.segment() else { return };
        if self.state.segments.last().is_none_or(|last| last.segment < segment) {
            let mut position = self.state.position;
            position.end = Location::in_segment(segment, SEGMENT_HEADER_BYTES);
            self.state.segments.push(SegmentStart {
                segment,
                position,
                subjects: FileSubjects::none(),
                ready: SegmentReady::none(),
            });
        }
    }

    /// Takes the outcomes of every cancel, move, group and consumer fact since the last call.
    pub fn take_outcomes(&mut self) -> Vec<(Sequence, Outcome)> {
        std::mem::take(&mut self.effects.outcomes)
    }

    /// Takes the damaged blocks that were found in runs since the last call, and what became of their entries.
    pub fn take_rescues(&mut self) -> Vec<Rescue> {
        std::mem::take(&mut self.effects.rescues)
    }

    /// Takes the groups whose parked pulls may go on, since the last call.
    pub fn take_woken(&mut self) -> Vec<GroupNumber> {
        self.effects.take_woken(&self.state.subjects).into_iter().collect()
    }

    /// Takes the subjects that were named by facts since the last call, in the order of the log.
    pub fn take_named(&mut self) -> Vec<SubjectNumber> {
        std::mem::take(&mut self.effects.named)
    }

    /// Feeds the wheel and proposes due messages as ready, limited by the budget.
    ///
    /// # Errors
    /// Those of reading a run.
    pub fn step(&mut self, reading: Reading, budget: Budget, proposals: &mut Proposals) -> Result<Progress> {
        let window = Window {
            ahead_ms: self.options.window_ms,
            entries_max: self.options.window_entries_max,
            ready_entries_max: self.options.ready_fact_entries(),
        };
        let progress = step(&mut self.state, &mut self.effects, window, reading, budget, proposals)?;
        Ok(self.rest(reading.now, progress))
    }

    /// Decides which messages a consumer gets now, and proposes the facts for this.
    ///
    /// # Errors
    /// `Corrupt` if the views lack an unfinished message: the store must stop.
    pub fn pull(&mut self, request: PullRequest, proposals: &mut Proposals) -> Result<Pull> {
        let count_max = request.count_max.min(self.options.assign_fact_numbers());
        let request = PullRequest { count_max, ..request };
        self.deciding.pull((&self.effects.storage, &self.state), request, proposals)
    }

    /// How many messages a consumer has in flight: those that it holds, and those that were decided and are not applied
    /// yet.
    pub fn in_flight(&self, group: GroupNumber, consumer: ConsumerNumber) -> u64 {
        self.deciding.in_flight(&self.state, group, consumer)
    }

    /// Takes the postings that a load read. Messages with damaged postings are recovered from the log if it is kept.
    /// The other damaged ones are proposed to be voided, and returned. Numbers that the group has finished are not kept.
    ///
    /// # Errors
    /// `Storage` if the log could not be read. The pull may be tried again.
    pub fn loaded(&mut self, mut postings: LoadedPostings, proposals: &mut Proposals) -> Result<Vec<ReadyNumber>> {
        let subject = postings.subject;
        let Some(group) = self.state.groups.get(&postings.group) else { return Ok(Vec::new()) };
        let finished_below = ReadyNumber(group.done.below());
        let is_piece = postings.piece.is_some();
        if let Some(piece) = postings.piece.take() {
            let (found, next) = piece.numbered(&mut self.state);
            postings.found = found;
            if next.number < self.state.dispatch.listed_from(subject) {
                self.deciding.goes_on(postings.group, next);
            }
        }
        postings.found.forget_below(finished_below);
        if !is_piece && !postings.found.damaged.is_empty() {
            let read = &mut postings.found;
            let storage = &self.effects.storage;
            let found = rescue_ready(storage, &mut self.state, subject, &read.damaged, &read.entries)?;
            let again: BTreeSet<ReadyNumber> = found.into_iter().map(|(number, _)| number).collect();
            read.damaged.retain(|number| !again.contains(number));
        }
        let lost = self.deciding.loaded(postings);
        for number in &lost {
            self.void_ready(subject, *number, proposals);
        }
        Ok(lost)
    }

    /// The next sequence to apply. All facts below it are in the state.
    pub fn applied(&self) -> Sequence {
        self.state.position.next_sequence
    }

    /// The applied state, for reading.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// How many postings were read from runs for pulls and not delivered yet.
    pub fn loaded_postings(&self) -> usize {
        self.deciding.loaded_count()
    }

    /// How many entries the feed holds.
    pub fn window_entries(&self) -> usize {
        self.effects.feed.len()
    }

    /// True if a checkpoint is due and none is under way.
    pub fn checkpoint_due(&self) -> bool {
        !self.freezing && (self.reclaims || self.effects.was_counted || self.share_of_checkpoint(1))
    }

    /// How many entries are in memory because no run has them yet.
    pub fn recent_entries(&self) -> u64 {
        self.state.schedule.recent_entries()
    }

    /// True if so much was applied since the freeze of the current checkpoint that the next one is near. The current
    /// one must then be written without pacing, or memory use and replay grow.
    pub fn checkpoint_lags(&self) -> bool {
        self.freezing && self.share_of_checkpoint(4)
    }

    /// True if at least one `share`-th of what makes a checkpoint due was applied since the last freeze.
    pub(super) fn share_of_checkpoint(&self, share: u64) -> bool {
        let facts = self
            .state
            .position
            .next_sequence
            .since(self.sequence_at_freeze)
            .saturating_add(self.state.dispatch.entries_since_freeze());
        let bytes = self.bytes_applied.saturating_sub(self.bytes_at_freeze);
        let options = &self.options;
        facts > 0 && (bytes >= options.checkpoint_bytes / share || facts >= options.checkpoint_facts / share)
    }

    /// True if the consumer holds the offset, as applied.
    pub fn holds(&self, group: GroupNumber, consumer: ConsumerNumber, offset: PullOffset) -> bool {
        let consumer = self.state.groups.get(&group).and_then(|group| group.consumers.get(&consumer));
        consumer.is_some_and(|consumer| consumer.held.get(offset).is_some())
    }
}

fn unreadable(start: Location, fault: RecordFault) -> Error {
    let path = start.segment().map(crate::message_log::segment_path).unwrap_or_default();
    Error::corrupt(&path, u64::from(start.offset()), "a whole record", format!("{fault:?}"))
}
