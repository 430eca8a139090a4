//! How a node looks after itself: its disk, whether its store takes publishes, its stop, and what it shows.

use std::time::{Duration, Instant};

use delaymq_core::error::Error;
use delaymq_core::replication::{CopyKnown, Event, LogView, NodeId, RoleName};
use delaymq_core::units::Sequence;
use delaymq_engine::{CopyCount, Intake};
use delaymq_server::Stopped;

use super::disk_watch::DISK_HANGS;
use super::{Member, Stopping, wall_clock};
use crate::held;
use crate::interface::NodeError;
use crate::node::log_epoch_of;
use crate::status::{Foreign, Snapshot};

/// This thread was held up for so long.
const STALLED: Duration = Duration::from_millis(300);
/// Events that are taken at once after that.
const QUEUED_MAX: usize = 10_000;
/// How often what others look at is renewed while nothing happens.
const SHOW_EVERY: Duration = Duration::from_millis(100);
/// A node whose disk has hung does not lead for so long, if another node may: longer than it takes others to take over.
const UNFIT_FOR: Duration = Duration::from_secs(10);
/// A server that does not stop in time is left, after its clients' patience and so long.
const STOP_WITHIN: Duration = Duration::from_secs(10);
/// The log is kept for a copy that is silent for so long, in milliseconds.
pub(super) const KEPT_FOR_SILENT_MS: u64 = 3_600_000;
/// A primary that stops hands over, if that takes no longer than this.
const HAND_OVER: Duration = Duration::from_millis(1_500);

impl Member {
    /// Notes it if this thread, and perhaps the whole process, has stood still since it was `awake`: others were not silent for that time,
    /// and the disk was not asked for anything.
    pub(super) fn has_stood_still(&mut self, awake: &mut Instant) -> Result<bool, NodeError> {
        let now = Instant::now();
        let standstill = now.duration_since(std::mem::replace(awake, now));
        if standstill < STALLED {
            return Ok(false);
        }
        self.disk_watch.stood_still(standstill, now);
        self.step(Event::StoodStill(u64::try_from(standstill.as_millis()).unwrap_or(u64::MAX)))?;
        Ok(true)
    }

    /// Takes all that came while this thread was held up, before the protocol looks at the time: other nodes were not silent.
    pub(super) fn hear_of_all(&mut self) -> Result<(), NodeError> {
        for _ in 0..QUEUED_MAX {
            let Some(arrival) = self.parts.events.next(Duration::ZERO) else { break };
            self.take(arrival)?;
        }
        Ok(())
    }

    /// Tells the store whether it takes publishes.
    pub(super) fn set_intake(&mut self) {
        let Some(store) = self.parts.copy.store().filter(|_| self.role == RoleName::Primary) else { return };
        let count = self.count_of(self.parts.protocol.register().map_or(0, |value| value.sync.len()));
        let intake = match self.parts.protocol.accepts_publishes() {
            true => Intake::Yes,
            false if count.copies < count.min_copies => Intake::NotEnough(count),
            false => Intake::HandingOver,
        };
        if self.intake != Some(intake) {
            store.set_intake(intake);
            self.intake = Some(intake);
            if let Intake::NotEnough(CopyCount { copies, min_copies }) = intake {
                let line = format!("publishes are refused: there are {copies} copies, and {min_copies} are demanded");
                self.parts.reports.warn(line);
            }
        }
    }

    /// Looks at what changes without an event.
    pub(super) fn look_around(&mut self) -> Result<(), NodeError> {
        self.look_at_disk()?;
        self.must_be_of_group()?;
        self.keep_log()?;
        self.forget_absent()?;
        self.look_at_addresses();
        self.tend_snapshots()?;
        self.tend_loads();
        self.step(Event::WallClock(wall_clock()))
    }

    /// The store keeps the log that other copies lack. A copy that is silent for long is not waited for.
    fn keep_log(&mut self) -> Result<(), NodeError> {
        let Some(store) = self.parts.copy.store().filter(|_| self.role == RoleName::Primary) else { return Ok(()) };
        let is_awaited = |copy: &CopyKnown| !copy.has_diverged && !is_long_silent(copy);
        let copies = self.parts.protocol.copies_known();
        let first = copies.iter().filter(|copy| is_awaited(copy)).filter_map(|copy| copy.durable).min();
        Ok(store.keep_log_from(first.unwrap_or(Sequence(u64::MAX)))?)
    }

    /// A node whose group goes on from another copy ends.
    fn must_be_of_group(&self) -> Result<(), NodeError> {
        if !self.parts.protocol.is_superseded() {
            return Ok(());
        }
        let timeline = self.parts.copy.identity().stream.timeline.saturating_add(1);
        Err(NodeError::Superseded { path: self.parts.copy.path().display().to_string(), timeline })
    }

    /// A node whose store has failed ends, and one whose disk hangs does not lead while another may.
    fn look_at_disk(&mut self) -> Result<(), NodeError> {
        let Some(store) = self.parts.copy.store() else {
            let is_over = self.unfit_until.is_none_or(|until| Instant::now() >= until);
            return if self.is_fit || !is_over { Ok(()) } else { self.set_fit(true) };
        };
        if let Some(reason) = store.failure() {
            return Err(Error::Poisoned { reason }.into());
        }
        let hangs = self.disk_watch.hangs(store.disk_work(), Instant::now());
        if hangs == self.is_fit { self.set_fit(!hangs) } else { Ok(()) }
    }

    fn set_fit(&mut self, is_fit: bool) -> Result<(), NodeError> {
        self.is_fit = is_fit;
        if !is_fit {
            self.unfit_until = Some(Instant::now() + UNFIT_FOR);
            self.parts
                .reports
                .warn(format!("the disk has done nothing for {} s that the store waits for", DISK_HANGS.as_secs()));
        }
        self.step(Event::Fit(is_fit))
    }

    pub(super) fn begin_stop(&mut self, patience: Duration) -> Result<(), NodeError> {
        if self.stopping.is_some() {
            self.stop_serving(patience);
            return Ok(());
        }
        let me = self.parts.copy.node();
        let copies = self.parts.protocol.copies_known();
        let copy_of = |node: &NodeId| copies.iter().find(|copy| copy.node == *node && copy.is_matched);
        let durable = |node: &NodeId| copy_of(node).and_then(|copy| copy.durable);
        let is_clock_well = |node: &NodeId| copy_of(node).is_some_and(|copy| !copy.is_clock_apart);
        let set = self.parts.protocol.register().map(|value| value.sync.clone()).unwrap_or_default();
        let others = set.into_iter().filter(|node| *node != me);
        let successor = others.max_by_key(|node| (is_clock_well(node), durable(node)));
        if let Some(to) = successor.filter(|node| self.role == RoleName::Primary && durable(node).is_some()) {
            self.parts.reports.note(format!("handing over to the node {to}, because this one stops"));
            self.stopping = Some(Stopping::HandingOver { until: Instant::now() + HAND_OVER, patience });
            return self.step(Event::SwitchOver(to));
        }
        self.stop_serving(patience);
        Ok(())
    }

    pub(super) fn stop_further(&mut self) {
        match self.stopping {
            Some(Stopping::HandingOver { until, patience })
                if self.role != RoleName::Primary || Instant::now() >= until =>
            {
                self.stop_serving(patience);
            }
            // A server that starts may wait for a commit, which does not come.
            Some(Stopping::Serving { until }) if Instant::now() >= until => self.stopped = Some(Stopped { cut_off: 0 }),
            _ => {}
        }
    }

    fn stop_serving(&mut self, patience: Duration) {
        let now = Instant::now();
        let until = now.checked_add(patience).and_then(|until| until.checked_add(STOP_WITHIN)).unwrap_or(now);
        self.stopping = Some(Stopping::Serving { until });
        self.parts.service.stop(patience);
    }

    /// Renews what others look at.
    pub(super) fn show(&mut self) {
        let now = Instant::now();
        if now.duration_since(self.shown_at) < SHOW_EVERY && held(&self.parts.shown.snapshot).role == self.role {
            return;
        }
        self.shown_at = now;
        let (protocol, copy) = (&self.parts.protocol, &self.parts.copy);
        let identity = copy.identity();
        let snapshot = Snapshot {
            node: copy.node(),
            stream: identity.stream.id,
            timeline: identity.stream.timeline,
            role: self.role,
            epoch: protocol.promised(),
            log_epoch: log_epoch_of(copy),
            committed: protocol.committed(),
            end: copy.end(),
            durable: copy.durable(),
            leader: protocol.leader(),
            accepts_publishes: protocol.accepts_publishes(),
            unfit: protocol.unfit(),
            clock_ahead_ms: protocol.clock_ahead_ms(),
            foreign: protocol
                .foreign_reading()
                .map(|reading| Foreign { reading: reading.clone(), is_restored: protocol.is_restored(reading) }),
            coordinator: protocol.coordinator(),
            reading: protocol.reading().cloned(),
            copies: protocol.copies_known(),
            links: self.parts.peers.status(),
            connected: self.connected.iter().map(|(node, _)| *node).collect(),
            client_addresses: self.parts.client_addresses.clone(),
            role_changes: self.role_changes,
            messages_repaired: self.messages_repaired,
        };
        *held(&self.parts.shown.snapshot) = snapshot;
    }
}

/// True if the log is no longer kept for the copy.
pub(super) fn is_long_silent(copy: &CopyKnown) -> bool {
    copy.silent_ms >= KEPT_FOR_SILENT_MS
}
