//! Opening a store: the lock, the identity, recovery, a new epoch. A store that leads is put together here, too.

use std::collections::VecDeque;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use delaymq_core::error::{Error, Result, StorageFault};
use delaymq_core::message_log::{
    AppenderStart, Class, FileEpochSource, GroupCommit, GroupCommitOptions, Identity, LogPosition,
    OPENING_SEGMENT_BYTES, Preparing, SEGMENT_BYTES_MAX, SegmentAppender, SegmentHeader, Submission,
};
use delaymq_core::planted::failpoint::{Failpoint, reached};
use delaymq_core::record::command::{EpochStart, encode_epoch_start};
use delaymq_core::record::written_format;
use delaymq_core::storage::Storage;
use delaymq_core::store::{
    NewStore, Owner, Recovered, RecoveryProgress, RecoveryReport, open_identity, read_identity, recover,
};
use delaymq_core::units::{Epoch, Millis, Sequence};

use crate::background::free_room::FreeRoomChecks;
use crate::background::thread::Background;
use crate::clock::store_time::{KnownTime, Time};
use crate::clock::time_zones::TimeZones;
use crate::commit::committer::{Queue, Unreleased, Writer};
use crate::commit::inbox::{CommitUrgency, Inbox};
use crate::commit::outcomes::Outcomes;
use crate::commit::waits::{EventCount, Positions, Signal};
use crate::commit::write_back::WriteBack;
use crate::consume::named::registry::NamedConsumers;
use crate::consume::subscribers::Subscribers;
use crate::copies::state::Copies;
use crate::drive::driver::LockedOwner;
use crate::event_loop::notifier::Notifiers;
use crate::files::payload_cache::Payloads;
use crate::files::store_lock::{ProcessGuard, StoreLock};
use crate::names::Names;
use crate::options::{Options, SEGMENT_BYTES_MIN};
use crate::publish::receipts::Issuer;
use crate::query::metrics::Metrics;
use crate::query::report::{Report, Reports};
use crate::shared::Shared;
use crate::sync::{AtomicBool, AtomicU64, AtomicUsize, Mutex};

/// An opened store before its threads run.
pub(crate) struct Opened {
    pub(crate) shared: Shared,
    pub(crate) lock: StoreLock,
    pub(crate) report: RecoveryReport,
    pub(crate) created: bool,
}

/// Opens the store in `path`; see [`crate::Store::open_on`].
pub(crate) fn open(
    storage: Arc<dyn Storage>,
    path: &Path,
    mut options: Options,
    progress: &mut dyn FnMut(RecoveryProgress),
) -> Result<Opened> {
    #[cfg(feature = "planted")]
    crate::failpoints::plant(&mut options)?;
    check_options(&options)?;
    let created = Identity::read(storage.as_ref())?.is_none();
    if created && !options.create {
        open_identity(storage.as_ref(), None)?;
    }
    if created {
        refuse_foreign_folder(storage.as_ref())?;
    }
    let lock = StoreLock::take(path)?;
    let new = NewStore { stream: random()?, node: random()?, segment_bytes: options.segment_bytes };
    let identity = open_identity(storage.as_ref(), options.create.then_some(new))?;
    let mut epochs = FileEpochSource::new(Arc::clone(&storage), identity);
    let mut recovered = recover(&storage, &identity, &mut epochs, options.owner, progress)?;
    recovered.owner.keep_finished_of(std::mem::take(&mut options.keep_finished_of));
    check_clock(&options, recovered.trusted)?;
    let report = recovered.report.clone();
    let shared = begin_alone(storage, path, options, identity, recovered)?;
    shared.check_free_room(&mut FreeRoomChecks::default(), 0);
    tell(&shared, &report);
    Ok(Opened { shared, lock, report, created })
}

/// Refuses the folder of something else before the lock file is made in it.
fn refuse_foreign_folder(storage: &dyn Storage) -> Result<()> {
    match read_identity(storage) {
        Err(Error::MissingFile { .. }) => {
            // An empty folder, or a log without its identity. The latter is refused later.
            Ok(())
        }
        other => other.map(drop),
    }
}

pub(crate) fn check_options(options: &Options) -> Result<()> {
    if !(SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&options.segment_bytes)
        || !options.segment_bytes.is_multiple_of(8)
    {
        return Err(Error::InvalidArgument {
            argument: "segment_bytes",
            expected: format!("a multiple of 8 from {SEGMENT_BYTES_MIN} to {SEGMENT_BYTES_MAX}"),
            found: options.segment_bytes.to_string(),
        });
    }
    options.check_accept_after()?;
    options.marks.check()
}

/// A manual clock does not reach by itself the time that the log has seen.
pub(crate) fn check_clock(options: &Options, floor: Millis) -> Result<()> {
    let wall = options.clock.read().wall();
    if options.clock.activity().is_none() || wall >= floor {
        return Ok(());
    }
    Err(Error::InvalidArgument {
        argument: "clock",
        expected: format!("a clock that shows at least {floor} ms after 1970, which the store has seen"),
        found: format!("{wall} ms"),
    })
}

/// Random bytes of the system.
///
/// # Errors
/// `Storage` if the system gives none.
pub fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    let read = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.map(|()| bytes).map_err(|error| Error::Storage {
        operation: "read",
        path: "/dev/urandom".to_owned(),
        fault: StorageFault::Io,
        message: error.to_string(),
    })
}

/// The parts of a store that begins, alone or as one that leads.
pub(crate) struct Beginning {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) path: PathBuf,
    pub(crate) options: Options,
    pub(crate) identity: Identity,
    pub(crate) epoch: Epoch,
    pub(crate) known_time: KnownTime,
    pub(crate) owner: Owner,
    pub(crate) appender: SegmentAppender,
    pub(crate) commits: GroupCommit,
    /// Batches of the log that the owner has not applied.
    pub(crate) unreleased: VecDeque<Unreleased>,
    pub(crate) copies: Option<Copies>,
}

/// Begins the epoch that was raised for a store alone.
fn begin_alone(
    storage: Arc<dyn Storage>,
    path: &Path,
    options: Options,
    identity: Identity,
    recovered: Recovered,
) -> Result<Shared> {
    let Recovered { owner, epoch, position, trusted, next_segment, given_bytes, .. } = recovered;
    let start = AppenderStart {
        stream: identity.stream,
        epoch,
        number: next_segment,
        chain: position.chain,
        next_sequence: position.next_sequence,
        trusted,
        segment_bytes: identity.segment_bytes,
        opening_bytes: OPENING_SEGMENT_BYTES,
        given_bytes,
    };
    let mut appender = SegmentAppender::open(Arc::clone(&storage), &start)?;
    let commit_options = GroupCommitOptions::new(options.durability, appender.written(), identity.segment_bytes);
    let mut commits = GroupCommit::new(GroupCommitOptions { marks: options.marks, ..commit_options });
    keep_reserve(&storage, &mut appender, &mut commits);
    let (path, unreleased, copies) = (path.to_owned(), VecDeque::new(), None);
    let shared = assemble(Beginning {
        storage,
        path,
        options,
        identity,
        epoch,
        known_time: KnownTime { floor: trusted, ahead_ms: None },
        owner,
        appender,
        commits,
        unreleased,
        copies,
    })?;
    begin_epoch(&shared, &identity, &position)?;
    Ok(shared)
}

/// A store whose epoch has not begun yet.
pub(crate) fn assemble(beginning: Beginning) -> Result<Shared> {
    let Beginning { storage, path, options, identity, epoch, known_time, owner, appender, commits, unreleased, copies } =
        beginning;
    let nonce = random()?;
    let notifiers = Arc::new(Notifiers::default());
    Ok(Shared {
        guard: ProcessGuard::here(),
        log_stream: identity.stream,
        segment_bytes: identity.segment_bytes,
        time_zones: TimeZones::new(options.zone_folders.clone()),
        time: Time::new(Arc::clone(&options.clock), storage.as_ref(), known_time, options.clock_accept_after_ms),
        names: Names::of(&owner.state().subjects),
        issuer: Arc::new(Issuer { stream: identity.stream.id, epoch, nonce }),
        receipts: OnceLock::new(),
        consumers: AtomicU64::new(1),
        positions: Positions::starting_at(commits.visible().sequence, Arc::clone(&notifiers)),
        queue: Mutex::new(Queue { commits, urgency: CommitUrgency::NONE }),
        writer: Mutex::new(Some(Writer { appender })),
        unreleased_bytes: AtomicUsize::new(unreleased.iter().map(Unreleased::bytes).sum()),
        unreleased: Mutex::new(unreleased),
        owner_lock: Mutex::new(Some(LockedOwner::new(owner))),
        inbox: Inbox::new(),
        outcomes: Outcomes::default(),
        room: EventCount::default(),
        committer: Signal::default(),
        driver: Signal::default(),
        helper: Signal::default(),
        background: Background::default(),
        write_back: WriteBack::default(),
        subscribers: Subscribers::default(),
        named: NamedConsumers::default(),
        payloads: Payloads::new(path, Arc::clone(&storage)),
        reports: Reports::new(Arc::clone(&notifiers)),
        notifiers,
        metrics: Metrics::default(),
        copies,
        poison: OnceLock::new(),
        closing: AtomicBool::new(false),
        stopping: AtomicBool::new(false),
        storage,
        options,
    })
}

/// Prepares the room that finishing facts need, and reports it to the queue. It is small, so that the first publish does
/// not wait for more.
pub(crate) fn keep_reserve(storage: &Arc<dyn Storage>, appender: &mut SegmentAppender, commits: &mut GroupCommit) {
    let planned = appender.plan_next(0);
    let header = SegmentHeader { capacity: planned.capacity.min(OPENING_SEGMENT_BYTES), ..planned };
    let prepared = Preparing::begin(Arc::clone(storage), header, true).and_then(Preparing::finish);
    let kept = prepared.and_then(|prepared| appender.adopt(prepared));
    commits.room(appender.tail_room(), appender.stock_rooms());
    commits.set_disk_full(kept.is_err());
}

/// Queues the first fact of the epoch, behind a log that ends at `previous`. Returns the sequence after it.
pub(crate) fn queue_epoch_start(shared: &Shared, identity: &Identity, previous: &LogPosition) -> Result<Sequence> {
    let issuer = &shared.issuer;
    let mut records = Vec::new();
    let next = shared.with_commits(|commits| commits.next_sequence());
    let start = EpochStart {
        epoch: issuer.epoch,
        format_version: written_format(),
        nonce: issuer.nonce,
        node: identity.node,
        previous_epoch: previous.epoch,
        previous_chain: previous.chain,
        previous_sequence: Sequence(next.0.saturating_sub(1)),
        delay_ms_max: shared.options.delay_ms_max,
    };
    encode_epoch_start(&mut records, &start);
    let submission =
        Submission { records: &records, record_count: 1, adopts: 0, class: Class::Finishing, must_sync: true };
    let range = shared.try_submit(submission, CommitUrgency::URGENT)?.ok_or(Error::DiskFull)?;
    Ok(range.end)
}

/// Writes the first fact of the epoch, durably, and the facts that follow from the end of the last process.
fn begin_epoch(shared: &Shared, identity: &Identity, previous: &LogPosition) -> Result<()> {
    reached(Failpoint::EpochBegins);
    let end = queue_epoch_start(shared, identity, previous)?;
    shared.finish(end)?;
    let mut guard = shared.lock_owner()?;
    shared.begin_deciding(guard.get()?)?;
    drop(guard);
    reached(Failpoint::EpochBegun);
    Ok(())
}

fn tell(shared: &Shared, report: &RecoveryReport) {
    for (path, reason) in &report.checkpoints_refused {
        shared.reports.add(Report::CheckpointUnreadable { path: path.clone(), reason: reason.clone() });
    }
    if !report.set_aside.is_empty() {
        shared.reports.add(Report::TailRepaired { aside: report.set_aside.clone() });
    }
}
