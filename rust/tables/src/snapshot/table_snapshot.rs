//! A snapshot: a store as of one fact.

use std::sync::{Arc, OnceLock};

use delaymq_core::error::Result;
use delaymq_core::message_log::{Identity, LogPiece, Stream};
use delaymq_core::run::Run;
use delaymq_core::storage::Storage;
use delaymq_core::store::{
    Moment, Owner, SegmentStart, State, VisibleState, state_at, visible_state, visible_state_at,
};
use delaymq_core::units::{Millis, Sequence};

use crate::plan::cut::ends_held;
use crate::plan::due_stretches::{Source, sources_of};
use crate::plan::range_parts::{KnownFile, KnownLoad, KnownSegment, Replay};
use crate::schema::filter::Names;
use crate::snapshot::parties::Parties;
use crate::snapshot::snapshot_token::{moment, name_of};

/// The visible part of a store. Everything that is read through it is consistent, however much is written to the store
/// meanwhile.
#[derive(Clone, Debug)]
pub struct TableSnapshot {
    /// The history that it is of.
    pub stream: Stream,
    /// The first sequence of the log that is kept.
    pub first_sequence: Sequence,
    /// The sequence behind the last fact that is visible.
    pub end_sequence: Sequence,
    /// The trusted time of that fact.
    pub trusted: Millis,
    pub(crate) pieces: Vec<LogPiece>,
    pub(crate) replay: Replay,
    moment: Moment,
    /// How many entries are pending.
    pub(crate) pending: u64,
    /// How many ready messages are not behind what all groups have finished.
    pub(crate) unfinished: u64,
    /// The sources of pending messages, once asked for.
    sources: OnceLock<Arc<[Source]>>,
    pub(crate) files: Arc<[KnownFile]>,
    /// Runs that were loaded.
    pub(crate) loads: Arc<[KnownLoad]>,
    pub(crate) names: Arc<Names>,
    pub(crate) parties: Arc<Parties>,
}

impl TableSnapshot {
    /// Takes one of a store, without its lock. Beside a writer, what looks damaged may be well a moment later.
    ///
    /// # Errors
    /// `Corrupt`, `MissingFile`, `NewerFormat`, `Storage`.
    pub fn take(storage: &Arc<dyn Storage>, identity: &Identity) -> Result<Self> {
        Ok(Self::of(&visible_state(storage, identity)?, identity))
    }

    /// Takes one that was taken before again, by its [`Self::name`]: it is of the same fact, while its files are kept.
    ///
    /// # Errors
    /// `InvalidArgument` if it is no name of a snapshot of this store, and those of [`Self::take`].
    pub fn take_again(storage: &Arc<dyn Storage>, identity: &Identity, name: &[u8]) -> Result<Self> {
        let moment = moment(name, &identity.stream)?;
        Ok(Self::of(&visible_state_at(storage, identity, &moment)?, identity))
    }

    /// What another process takes it again by.
    pub fn name(&self) -> Vec<u8> {
        name_of(&self.moment, &self.stream)
    }

    fn of(visible: &VisibleState, identity: &Identity) -> Self {
        let state = visible.state();
        let names: Names = state.subjects.iter().map(|(number, subject)| (number, subject.name.clone())).collect();
        Self {
            replay: Replay { checkpoint: visible.checkpoint(), end: state.position.end },
            moment: visible.moment(),
            pending: state.schedule.pending(),
            unfinished: state.dispatch.unfinished(),
            sources: OnceLock::new(),
            files: files_of(visible).into(),
            loads: state.loaded_runs().iter().filter_map(|run| KnownLoad::of(run)).collect(),
            stream: identity.stream,
            first_sequence: visible.first_sequence(),
            end_sequence: state.position.next_sequence,
            trusted: state.position.trusted,
            pieces: visible.pieces(),
            parties: Arc::new(parties_of(visible)),
            names: Arc::new(names),
        }
    }

    /// The state as of its end, made again.
    /// Fails with `Corrupt`, `MissingFile`, `NewerFormat`, `Storage`.
    pub(crate) fn state(&self, storage: &Arc<dyn Storage>) -> Result<Owner> {
        state_at(storage, self.stream, self.replay.checkpoint, self.replay.end)
    }

    /// Facts that were retired from the midst of the log, as first sequences and those behind the last ones, in order.
    pub fn retired(&self) -> Vec<(Sequence, Sequence)> {
        let pairs = self.pieces.iter().zip(self.pieces.iter().skip(1));
        pairs.filter(|(before, next)| before.end < next.first).map(|(before, next)| (before.end, next.first)).collect()
    }

    /// Whether dispatch was held when the last batch was written, which its header says.
    ///
    /// # Errors
    /// `Storage`.
    pub fn is_dispatch_held(&self, storage: &Arc<dyn Storage>) -> Result<bool> {
        self.pieces.last().map_or(Ok(false), |piece| ends_held(storage.as_ref(), piece))
    }

    /// The sources of pending messages. The state is built again for them, once: tables of the log do not need that,
    /// and all recent entries must be sorted for it.
    /// Fails with `Corrupt`, `MissingFile`, `NewerFormat`, `Storage`.
    pub(crate) fn sources(&self, storage: &Arc<dyn Storage>) -> Result<Arc<[Source]>> {
        if let Some(found) = self.sources.get() {
            return Ok(Arc::clone(found));
        }
        let owner = self.state(storage)?;
        let found = sources_of(&owner.state().schedule)?.into();
        Ok(Arc::clone(self.sources.get_or_init(|| found)))
    }
}

/// The segments with facts from the oldest that is surely there on, and the runs.
fn files_of(visible: &VisibleState) -> Vec<KnownFile> {
    let State { segments, runs, position, holes, .. } = visible.state();
    let nexts = segments.iter().skip(1).map(|next| Some(next.position)).chain([None]);
    let known = segments.iter().zip(nexts).filter(|(start, _)| visible.is_kept(start.segment));
    let segment = |(start, next): (&SegmentStart, Option<_>)| {
        let end = next.unwrap_or(*position);
        let (first, is_sealed) = (start.position.next_sequence, next.is_some() || visible.is_sealed());
        let (number, trusted_to) = (start.segment, end.trusted);
        let begins_hollow = holes.in_segment(number).first().is_some_and(|hole| hole.from.next_sequence == first);
        (first < end.next_sequence).then_some(KnownFile::Segment(KnownSegment {
            number,
            first,
            end: end.next_sequence,
            trusted_to,
            is_sealed,
            begins_hollow,
        }))
    };
    known.filter_map(segment).chain(runs.values().map(|known| run_of(&known.run))).collect()
}

fn run_of(run: &Run) -> KnownFile {
    KnownLoad::of(run).map_or(KnownFile::Run(run.number()), KnownFile::Load)
}

/// Groups and consumers that are there, or were at one of the kept checkpoints.
fn parties_of(visible: &VisibleState) -> Parties {
    let mut parties = Parties::default();
    for group in visible.groups() {
        parties.groups.insert(group.number, (group.subject, group.name.clone()));
        let consumers = group.consumers.values().map(|consumer| (consumer.number, consumer.name.clone()));
        parties.consumers.extend(consumers);
    }
    parties
}
