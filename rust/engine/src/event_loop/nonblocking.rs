//! Calls for threads that must never wait, such as an event loop's. Nothing here waits for the disk, for another thread
//! or for room. Where it would have to, the result says so, and the caller uses the waiting call on another thread.

use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Duration;

use delaymq_core::error::{Error, Result};
use delaymq_core::units::{Millis, SegmentNumber, Sequence};

use crate::consume::delivery::Delivered;
use crate::consume::subscription::{PullOutcome, Subscription};
use crate::event_loop::listener::Listener;
use crate::event_loop::notifier::{Wake, Wakeup};
use crate::options::Durability;
use crate::publish::batch::{PublishBatch, Ticket};
use crate::shared::Shared;
use crate::store::Store;

/// How often a pull looks again because something arrived while it looked.
const LOOKS_MAX: usize = 8;
/// How many of the newest segments count as being in memory: their payloads are read without asking whether that may
/// wait.
const NEAR_SEGMENTS: u32 = 2;

/// The result of a pull that does not wait.
#[derive(Clone, Debug)]
pub enum Pulled {
    /// Messages.
    Messages(Vec<Delivered>),
    /// Nothing now. The store's notifier wakes once when there may be something.
    Nothing,
    /// It would have to wait: use [`Subscription::pull`].
    WouldWait,
}

impl Store {
    /// From now on `wake` is called when there is something to drain, once until it is drained. The call is made under
    /// locks of the store: it must neither wait nor call the store.
    pub fn listener(&self, wake: Wake) -> Result<Listener> {
        self.shared.check()?;
        Ok(Listener::new(&self.shared, wake))
    }

    /// The store's trusted time, now.
    pub fn now(&self) -> Millis {
        self.shared.time.read().now
    }

    /// Checks that the store takes work, without waiting.
    pub fn check(&self) -> Result<()> {
        self.shared.check()
    }

    /// True in the process that opened the store, false in a forked child of it.
    pub fn is_here(&self) -> bool {
        self.shared.guard.is_here()
    }

    /// A descriptor that becomes readable when there is something to drain. It belongs to the store, which closes it.
    /// No caller may read from it.
    ///
    /// # Errors
    /// `Storage` if the system has no more descriptors; `Poisoned`, `Closed`, `ForkedProcess`.
    pub fn listen(&self) -> Result<RawFd> {
        self.shared.check()?;
        self.shared.notifiers.own().listen()
    }

    /// What happened since the last call, and how far the log is visible. The descriptor is not readable until more
    /// happens.
    ///
    /// # Errors
    /// `ForkedProcess`: the parent loses no wake-up.
    pub fn drain(&self) -> Result<(Wakeup, Sequence)> {
        self.shared.guard.check()?;
        let wakeup = self.shared.notifiers.own().drain();
        Ok((wakeup, self.shared.positions.visible()))
    }

    /// True if everything below `position` is visible; otherwise the descriptor becomes readable
    /// when it is. Only the last position asked for counts, so ask for the smallest.
    ///
    /// # Errors
    /// `Poisoned`, `Closed` if it never will be; `ForkedProcess`.
    pub fn want(&self, position: Sequence) -> Result<bool> {
        self.shared.guard.check()?;
        self.shared.notifiers.own().want(position);
        self.shared.wait_visible(position, Some(Duration::ZERO))
    }

    /// Publishes all messages of the batch or none; `None` if there is no room for them now, and then the batch keeps
    /// them. The publish is durable when [`Self::want`] returns true for the ticket's end. In `os` mode it mostly is at
    /// once.
    ///
    /// # Errors
    /// `DiskFull`, `Poisoned`, `Closed`, `ForkedProcess`.
    pub fn try_publish(&self, batch: &mut PublishBatch) -> Result<Option<Ticket>> {
        self.shared.check()?;
        let ticket = batch.try_submit()?;
        if let Some(ticket) = &ticket {
            self.shared.hasten(ticket.end());
        }
        Ok(ticket)
    }
}

impl Subscription {
    /// From now on the store's notifier wakes for this subscription, under this token, each time after
    /// [`Self::try_pull`] found nothing.
    ///
    /// # Errors
    /// `ForkedProcess`.
    pub fn watch(&self, token: u64) -> Result<()> {
        self.shared.guard.check()?;
        self.member.presence.belongs_here();
        self.member.news.listen(Arc::clone(self.shared.notifiers.own()), token);
        Ok(())
    }

    /// As [`Self::watch`], for an event loop with a listener: only that listener is woken.
    ///
    /// # Errors
    /// `ForkedProcess`.
    pub fn watch_by(&self, listener: &Listener, token: u64) -> Result<()> {
        self.shared.guard.check()?;
        self.member.presence.belongs_here();
        self.member.news.listen(listener.notifier(), token);
        Ok(())
    }

    /// As [`Self::pull`], without waiting. With `at_once` the caller will not wait for a wake-up: if something becomes
    /// ready once facts on their way are applied, the result is [`Pulled::WouldWait`].
    ///
    /// # Errors
    /// `Poisoned`, `Closed` (also if the group was removed), `ForkedProcess`.
    pub fn try_pull(&self, count_max: usize, at_once: bool) -> Result<Pulled> {
        self.try_pull_within(count_max, usize::MAX, at_once)
    }

    /// As [`Self::try_pull`]. The payloads have at most `bytes_max` together, or there is one message more; a later
    /// pull brings the rest.
    pub fn try_pull_within(&self, count_max: usize, bytes_max: usize, at_once: bool) -> Result<Pulled> {
        let mut settled = !self.member.presence.is_kept();
        for _ in 0..LOOKS_MAX {
            self.shared.check()?;
            if self.is_stopped() {
                return Ok(Pulled::Nothing);
            }
            let seen = self.member.news.count();
            if self.member.has_to_join_first() {
                return Ok(Pulled::WouldWait);
            }
            if self.has_loads() {
                // The pull that may wait reads them before it asks for more.
                let delivered = self.read_assigned(count_max, bytes_max, Some(self.shared.nearest()))?;
                return Ok(if delivered.is_empty() { Pulled::WouldWait } else { Pulled::Messages(delivered) });
            }
            let Some(guard) = self.shared.try_lock_owner()? else { return Ok(Pulled::WouldWait) };
            // The first load ends the look, so that a queue which waits for it comes before the others.
            let (asked, loads) = self.ask_with(guard, count_max, 1)?;
            let has_loads = !loads.is_empty();
            self.leave_loads(loads);
            let delivered = self.read_assigned(count_max, bytes_max, Some(self.shared.nearest()))?;
            if !delivered.is_empty() {
                return Ok(Pulled::Messages(delivered));
            }
            if has_loads || self.member.has_unread() || self.member.has_to_join() {
                return Ok(Pulled::WouldWait);
            }
            if matches!(asked, PullOutcome::Assigned) {
                // Filters kept all of it back: there may be more.
                continue;
            }
            if matches!(asked, PullOutcome::Gone) {
                return Err(Error::Closed);
            }
            if settled && at_once && matches!(asked, PullOutcome::Soon) {
                return Ok(Pulled::WouldWait);
            }
            if !settled {
                // As in a pull that waits: the loop of a test may wait.
                self.shared.settle()?;
                settled = true;
                continue;
            }
            if self.member.news.await_beyond(seen) {
                self.member.presence.found_nothing(seen);
                return Ok(Pulled::Nothing);
            }
        }
        Ok(Pulled::WouldWait)
    }

    /// Sends the acknowledgements and retries so far. They are durable when [`Store::want`] returns true for the
    /// position. `None` if that would have to wait: use [`Self::flush`].
    pub fn begin_flush(&self) -> Result<Option<Sequence>> {
        self.shared.guard.check()?;
        self.shared.check_poison()?;
        let Some(mut guard) = self.shared.try_lock_owner()? else { return Ok(None) };
        let locked = guard.get()?;
        self.shared.propose_settled(locked);
        if !self.shared.sends_all(locked)? {
            return Ok(None);
        }
        let end = self.shared.with_commits(|commits| commits.next_sequence());
        drop(guard);
        self.shared.hasten(end);
        Ok(Some(end))
    }

    /// As [`Self::begin_flush`], but waits for other threads and for room in the log.
    pub fn submit_flush(&self) -> Result<Sequence> {
        self.shared.guard.check()?;
        self.shared.check_poison()?;
        self.shared.propose_settled(self.shared.lock_owner()?.get()?);
        // Without an end it waits for as long as it takes.
        let end = self.shared.send_all(None)?.unwrap_or_default();
        self.shared.hasten(end);
        Ok(end)
    }
}

impl Shared {
    /// Commits what is queued: here if that waits for nothing, otherwise on the committer.
    pub(crate) fn hasten(&self, until: Sequence) {
        match self.options.durability {
            Durability::Os => self.lead_quickly(until),
            Durability::Disk => self.committer.raise(),
        }
    }

    /// The first of the newest segments.
    pub(crate) fn nearest(&self) -> SegmentNumber {
        let newest = self.with_commits(|commits| commits.written_mark().location.segment());
        newest.map_or(SegmentNumber(0), |newest| SegmentNumber(newest.0.saturating_sub(NEAR_SEGMENTS - 1)))
    }
}
