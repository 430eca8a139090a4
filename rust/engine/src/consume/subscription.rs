//! A subscription: the handle by which a caller consumes one subject, or many, for a group.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use delaymq_core::error::{Error, Result};
use delaymq_core::planted::{Planted, is_on};
use delaymq_core::store::{LoadRequest, Selection};
use delaymq_core::units::Millis;

use crate::commit::inbox::CommitUrgency;
use crate::consume::delivery::{Delivered, DeliveryKey, DeliveryRange};
use crate::consume::member::{GroupConsumer, Member, Noted};
use crate::drive::driver::{LockedOwner, OwnerGuard};
use crate::held;
use crate::shared::Shared;
use crate::sync::{AtomicBool, Instant, Mutex};

/// How often a waiting pull looks again without being notified.
const LOOK_UP: Duration = Duration::from_millis(500);

/// Queues whose rows one pull reads at most before it asks again.
const LOADS_MAX: usize = 32;

/// How often a pull whose time is up takes further messages, none of which it could hand over.
const LATE_ROUNDS_MAX: usize = 1_024;

/// One consumer of a group. All methods may be called from any thread. No other consumer of the group gets the messages
/// of a pull until they are given back or the subscription is closed.
pub struct Subscription {
    pub(crate) shared: Arc<Shared>,
    pub(crate) member: Arc<Member>,
    pub(crate) starts_group: AtomicBool,
    /// Messages that have expired are handed over, too: a salvage moves dead letters by their consumer.
    pub(crate) takes_expired: AtomicBool,
    stopped: AtomicBool,
    pub(crate) closed: AtomicBool,
    /// The load of a pull that may not wait. The next pull that may wait reads it first: it has the indexes of a group
    /// that reads the log again.
    unread_loads: Mutex<Vec<LoadRequest>>,
}

/// The result of asking the owner for messages.
#[derive(Default)]
pub(crate) enum PullOutcome {
    #[default]
    Nothing,
    /// Something is ready, once facts on their way are applied.
    Soon,
    Assigned,
    Gone,
}

impl Subscription {
    pub(crate) fn new(shared: Arc<Shared>, member: Arc<Member>) -> Self {
        let [starts_group, takes_expired, stopped, closed] = [(); 4].map(|()| AtomicBool::new(false));
        Self { shared, member, starts_group, takes_expired, stopped, closed, unread_loads: Mutex::default() }
    }

    /// The store's trusted time, now.
    pub fn now(&self) -> Millis {
        self.shared.time.read().now
    }

    /// True if this subscription created the group, of one of its subjects at least.
    pub fn starts_group(&self) -> bool {
        self.starts_group.load(Ordering::SeqCst)
    }

    /// The subjects that were asked for.
    pub fn selection(&self) -> &Selection {
        &self.member.selection
    }

    /// How many subjects it consumes now. With a prefix there may be more later.
    pub fn subjects_count(&self) -> usize {
        self.member.places().len()
    }

    /// The group.
    pub fn group(&self) -> &str {
        &self.member.group
    }

    /// Up to `count_max` messages. Waits up to `timeout` for the first. Empty at the timeout, after [`Self::stop`], and
    /// while `in_flight_max` messages are unacknowledged.
    ///
    /// # Errors
    /// `Poisoned`, `Closed` (also if the group of one of the subjects was removed), `ForkedProcess`; `Storage` if payloads
    /// cannot be read now: a later pull brings them; `TooLarge` naming `subjects` if the prefix selects too many by now.
    pub fn pull(&self, count_max: usize, timeout: Duration) -> Result<Vec<Delivered>> {
        self.pull_within(count_max, usize::MAX, timeout)
    }

    /// As [`Self::pull`]. The payloads have at most `bytes_max` together, or there is one message more; a later pull
    /// brings the rest.
    pub fn pull_within(&self, count_max: usize, bytes_max: usize, timeout: Duration) -> Result<Vec<Delivered>> {
        let mut delivered = self.pull_first(count_max, bytes_max, timeout)?;
        if !self.member.filters.is_empty() && !delivered.is_empty() {
            self.fill(&mut delivered, count_max, bytes_max);
        }
        Ok(delivered)
    }

    /// Pulls more of what is ready: of what was assigned, filters passed only a part. Trouble ends it, and the next pull
    /// reports it.
    fn fill(&self, delivered: &mut Vec<Delivered>, count_max: usize, bytes_max: usize) {
        let bytes_of = |messages: &[Delivered]| messages.iter().map(|one| one.payload.all().len()).sum::<usize>();
        while let (count @ 1.., bytes @ 1..) =
            (count_max.saturating_sub(delivered.len()), bytes_max.saturating_sub(bytes_of(delivered)))
            && let Ok(PullOutcome::Assigned) = self.ask(count)
            && let Ok(more) = self.read_assigned(count, bytes, None)
        {
            delivered.extend(more);
        }
    }

    /// What is ready first.
    fn pull_first(&self, count_max: usize, bytes_max: usize, timeout: Duration) -> Result<Vec<Delivered>> {
        let deadline = Instant::now().checked_add(timeout);
        let (mut settled, mut hastened) = (!self.member.presence.is_kept(), false);
        let mut late = 0_usize;
        loop {
            self.shared.check()?;
            if self.is_stopped() {
                return Ok(Vec::new());
            }
            let seen = self.member.news.count();
            let asked = self.ask(count_max)?;
            let delivered = self.read_assigned(count_max, bytes_max, None)?;
            if !delivered.is_empty() {
                return Ok(delivered);
            }
            match asked {
                PullOutcome::Gone => return Err(Error::Closed),
                // All of it was damaged, had expired or did not pass, and is finished: there may be more.
                PullOutcome::Assigned => {
                    late =
                        late.saturating_add(usize::from(deadline.is_some_and(|deadline| deadline <= Instant::now())));
                    if late > LATE_ROUNDS_MAX {
                        return Ok(Vec::new());
                    }
                    (settled, hastened) = (!self.member.presence.is_kept(), false);
                    continue;
                }
                // With a manual clock nothing arrives later by itself: facts on their way are applied first.
                PullOutcome::Nothing | PullOutcome::Soon if !settled => {
                    self.shared.settle()?;
                    settled = true;
                    continue;
                }
                PullOutcome::Nothing | PullOutcome::Soon => {}
            }
            let left = deadline.map_or(LOOK_UP, |deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_zero() && matches!(asked, PullOutcome::Soon) && !hastened {
                self.shared.bring_in(LOOK_UP)?;
                hastened = true;
                continue;
            }
            self.member.presence.found_nothing(seen);
            if left.is_zero() {
                return Ok(Vec::new());
            }
            settled = !self.member.news.wait_beyond(seen, left.min(LOOK_UP)) || !self.member.presence.is_kept();
        }
    }

    /// Sends ended deliveries, and lets the owner assign messages to this subscription. Joins what was made since
    /// before it returns nothing.
    fn ask(&self, count_max: usize) -> Result<PullOutcome> {
        let unread = std::mem::take(&mut *held(&self.unread_loads));
        unread.into_iter().try_for_each(|load| self.shared.load(load))?;
        let mut joins = self.member.has_to_join_first();
        loop {
            if joins {
                self.join()?;
            }
            let (asked, loads) = self.ask_with(self.shared.lock_owner()?, count_max, LOADS_MAX)?;
            // While loads come, a pull is not about to wait.
            joins = self.member.has_to_join_first() || loads.is_empty() && self.member.has_to_join();
            let is_over = match asked {
                PullOutcome::Assigned | PullOutcome::Gone => true,
                PullOutcome::Nothing | PullOutcome::Soon => loads.is_empty() && !joins,
            };
            loads.into_iter().try_for_each(|load| self.shared.load(load))?;
            if is_over {
                return Ok(asked);
            }
        }
    }

    /// Asks once, with the owner lock held already, up to so many loads. Returns the loads: the next pull begins with the
    /// queues that wait for them.
    pub(crate) fn ask_with(
        &self,
        guard: OwnerGuard<'_>,
        count_max: usize,
        loads_max: usize,
    ) -> Result<(PullOutcome, Vec<LoadRequest>)> {
        self.shared.ask_owner(guard, |locked, urgency| {
            if self.propose_settled(locked) {
                *urgency = CommitUrgency::URGENT;
            }
            self.ask_queues(locked, count_max, loads_max)
        })
    }

    /// True if loads were left to the next pull that may wait.
    pub(crate) fn has_loads(&self) -> bool {
        !held(&self.unread_loads).is_empty()
    }

    /// Leaves loads to the next pull that may wait.
    pub(crate) fn leave_loads(&self, loads: Vec<LoadRequest>) {
        held(&self.unread_loads).extend(loads);
    }

    /// Acknowledges deliveries, in any order. Returns at once; durable after [`Self::flush`]. A delivery that is not
    /// held any more changes nothing. With `handle_within_ms`, returns the places of those.
    pub fn acknowledge(&self, keys: &[DeliveryKey]) -> Result<Vec<usize>> {
        self.shared.check()?;
        let (noted, late) = self.member.acknowledge(keys);
        self.noted(noted);
        Ok(late)
    }

    /// As [`Self::acknowledge`], by ranges of neighbouring offsets. Offsets in them that are not held change nothing.
    pub fn acknowledge_ranges(&self, ranges: &[DeliveryRange]) -> Result<()> {
        self.shared.check()?;
        self.noted(self.member.acknowledge_ranges(ranges));
        Ok(())
    }

    pub(crate) fn noted(&self, noted: Noted) {
        if noted == Noted::First {
            self.leave_to_driver();
        }
    }

    /// The first ended delivery waits to be sent.
    pub(crate) fn leave_to_driver(&self) {
        self.shared.subscribers.settles(&self.member);
        self.shared.remind_driver();
    }

    /// Waits until everything acknowledged or given back so far is durable; false if that took
    /// longer than `timeout`.
    ///
    /// # Errors
    /// `Poisoned`, `ForkedProcess`.
    pub fn flush(&self, timeout: Duration) -> Result<bool> {
        self.shared.guard.check()?;
        self.shared.check_poison()?;
        if is_on(Planted::AcknowledgedUnwritten) {
            return Ok(true);
        }
        let until = Instant::now().checked_add(timeout);
        self.propose_settled(self.shared.lock_owner()?.get()?);
        let Some(end) = self.shared.send_all(until)? else { return Ok(false) };
        self.shared.lead(end);
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        self.shared.wait_visible(end, left)
    }

    pub(crate) fn propose_settled(&self, locked: &mut LockedOwner) -> bool {
        locked.propose_settled(&self.member.take_settled())
    }

    /// Ends every pull, now and later, with an empty result. Acknowledging still works.
    pub fn stop(&self) {
        if self.shared.guard.is_here() {
            self.stopped.store(true, Ordering::SeqCst);
            self.member.presence.end();
            self.member.news.notify_all();
        }
    }

    /// True after [`Self::stop`] or [`Self::close`].
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    /// Stops, makes acknowledgements durable, and returns unacknowledged messages to the group at once. A second call
    /// changes nothing. Dropping the subscription does the same without waiting.
    ///
    /// # Errors
    /// `Poisoned`, `ForkedProcess`.
    pub fn close(&self) -> Result<()> {
        self.shared.guard.check()?;
        if !self.leave()? {
            return Ok(());
        }
        let Some(end) = self.shared.send_all(None)? else { return Ok(()) };
        self.shared.lead(end);
        self.shared.wait_visible(end, None).map(drop)
    }

    /// Proposes the end of the consumers, once. Returns true if the caller must wait for it.
    fn leave(&self) -> Result<bool> {
        self.stop();
        if self.closed.swap(true, Ordering::SeqCst) {
            return Ok(false);
        }
        self.shared.subscribers.remove(&self.member);
        held(&self.unread_loads).clear();
        if self.shared.closing.load(Ordering::SeqCst) {
            return Ok(false);
        }
        self.shared.check_poison()?;
        let mut guard = self.shared.lock_owner()?;
        let Ok(locked) = guard.get() else { return Ok(false) };
        self.propose_settled(locked);
        for GroupConsumer { group, consumer } in self.member.consuming() {
            locked.owner.end_consumer(group, consumer, &mut locked.proposals);
        }
        self.shared.send(locked, CommitUrgency::URGENT)?;
        Ok(true)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if !self.shared.guard.is_here() {
            // In a forked child, shared state stays as it is, down to the counters.
            std::mem::forget(Arc::clone(&self.shared));
            return;
        }
        if let Ok(true) = self.leave() {
            self.shared.committer.raise();
        }
    }
}
