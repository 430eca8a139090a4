//! Judging ready messages by a consumer's filters before they are assigned: its offsets stay dense, and its answers full.

use std::sync::atomic::Ordering;

use delaymq_core::error::Result;
use delaymq_core::queues::tags::Filter;
use delaymq_core::store::{Candidate, JudgedPull, LoadRequest, Offer, PullRequest};
use delaymq_core::units::SegmentNumber;

use crate::consume::member::GroupConsumer;
use crate::consume::named::consumer::{InFlight, NamedConsumer, PullBounds};
use crate::drive::driver::OwnerGuard;

/// The most messages of one offer, so that the owner is never held for long.
const OFFERED_MAX: usize = 1_024;
/// The least.
const OFFERED_MIN: usize = 16;

/// The filters of a pull, and how many messages it judges before it returns.
#[derive(Clone, Copy, Debug)]
pub struct Judging<'a> {
    /// A message must pass all of these. With none, nothing is judged.
    pub filters: &'a [Filter],
    /// Once so many messages were judged, the pull returns.
    pub judged_max: usize,
    /// It then returns what passed. Otherwise this comes with the next pull, which may fill it.
    pub returns_part: bool,
}

impl Judging<'_> {
    /// No filters.
    pub(crate) const NONE: Self = Self { filters: &[], judged_max: 0, returns_part: true };
}

/// Bodies of so many bytes are read at once where nothing may wait.
const READ_UNWAITING_BYTES: usize = 1 << 20;
/// The same on a thread of the pool.
const READ_BYTES: usize = 32 << 20;

/// How many messages a pull may still judge.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    pub(crate) left: usize,
    next_offer: usize,
}

impl Share {
    pub(crate) fn of(judging: Judging<'_>) -> Self {
        Self { left: judging.judged_max, next_offer: OFFERED_MIN }
    }

    /// How many messages to judge for so many wanted ones: more with each offer of a pull.
    fn next_offer(&mut self, wanted: usize) -> usize {
        let offered = self.next_offer.max(wanted).min(OFFERED_MAX);
        self.next_offer = offered.saturating_mul(2);
        offered.min(self.left.max(1))
    }
}

/// The result of asking the owner for messages.
pub(crate) enum Asked {
    /// There may be assigned messages now, or more to judge.
    Given,
    /// See [`delaymq_core::store::Pull`].
    Load(LoadRequest),
    Wait,
    Soon,
    Gone,
    /// The messages to judge must be read from the disk, or another thread has the owner.
    WouldWait,
}

impl InFlight {
    /// True if a pull needs no more. Without filters any assigned message is enough.
    pub(crate) fn is_enough(&self, bounds: PullBounds, filters: &[Filter]) -> bool {
        if filters.is_empty() {
            return !self.unread.is_empty();
        }
        self.unread.len() >= bounds.count_max.max(1) || self.bytes() >= bounds.bytes_max.max(1)
    }

    fn bytes(&self) -> usize {
        let sizes = self.unread.iter().map(|delivery| delivery.entry.size().unwrap_or_default() as usize);
        sizes.fold(0, usize::saturating_add)
    }
}

impl NamedConsumer {
    /// Judges one offer of ready messages. Those that pass go to `hands`, and the others are finished for the group.
    /// While payloads are read, no lock of the owner is held. With `near`, nothing waits.
    pub(crate) fn judge_offer(
        &self,
        guard: OwnerGuard<'_>,
        (bounds, filters, share): (PullBounds, &[Filter], &mut Share),
        hands: &mut InFlight,
        near: Option<SegmentNumber>,
    ) -> Result<Asked> {
        let GroupConsumer { group, consumer } = self.consuming;
        let wanted = bounds.count_max.max(1).saturating_sub(hands.unread.len());
        let count_max = share.next_offer(wanted);
        let request = PullRequest { group, consumer, count_max, in_flight_max: bounds.in_flight_max, beside: 0 };
        let offer = self.shared.ask_owner(guard, |locked, _| locked.owner.offer(request, &mut locked.proposals))?;
        let candidates = match offer {
            Offer::Candidates(candidates) => candidates,
            Offer::Load(load) => return Ok(Asked::Load(load)),
            Offer::Wait => return Ok(Asked::Wait),
            Offer::Gone => return Ok(self.gone()),
        };
        let bytes_max = bounds.bytes_max.max(1).saturating_sub(hands.bytes());
        let (judged, is_large) = self.judge(candidates, filters, (wanted, bytes_max), near);
        if judged.is_empty() {
            return Ok(Asked::WouldWait);
        }
        let guard = match near {
            None => self.shared.lock_owner()?,
            Some(_) => match self.shared.try_lock_owner()? {
                Some(guard) => guard,
                None => return Ok(Asked::WouldWait),
            },
        };
        let request = PullRequest { count_max: wanted, ..request };
        let pulled = self.shared.ask_owner(guard, |locked, _| {
            let pulled = locked.owner.assign_judged(request, &judged, &mut locked.proposals);
            if let Some(JudgedPull { deliveries, .. }) = &pulled {
                hands.unread.extend(deliveries);
            }
            Ok(pulled)
        })?;
        let Some(JudgedPull { deliveries, passed_over, is_held_up }) = pulled else { return Ok(self.gone()) };
        share.left = if is_large { 0 } else { share.left.saturating_sub(judged.len()) };
        self.passed_over.fetch_add(passed_over as u64, Ordering::Relaxed);
        Ok(if is_held_up && deliveries.is_empty() && passed_over == 0 { Asked::Soon } else { Asked::Given })
    }

    pub(crate) fn gone(&self) -> Asked {
        self.went();
        Asked::Gone
    }

    /// Reads candidates, up to the one that fills a pull, or up to as many bytes as may be read at once: then the second
    /// value is true. A message that cannot be read passes: what is to become of it
    /// is decided when it is handed over. With `near`, reading stops at what may have to wait.
    fn judge(
        &self,
        candidates: Vec<Candidate>,
        filters: &[Filter],
        (wanted, bytes_max): (usize, usize),
        near: Option<SegmentNumber>,
    ) -> (Vec<(Candidate, bool)>, bool) {
        let mut judged = Vec::with_capacity(candidates.len());
        let (mut passing, mut bytes, mut read) = (0_usize, 0_usize, 0_usize);
        let read_max = if near.is_some() { READ_UNWAITING_BYTES } else { READ_BYTES };
        let mut payloads = self.shared.payloads.reader();
        for candidate in candidates {
            if passing >= wanted || bytes >= bytes_max || read >= read_max {
                break;
            }
            read = read.saturating_add(candidate.entry.size().unwrap_or_default() as usize);
            let location = candidate.entry.location();
            if near.is_some_and(|near| location.segment().is_none_or(|segment| segment < near)) {
                break;
            }
            let passes = match self.shared.read_whole(&mut payloads, &candidate.entry, near.is_none()) {
                Ok(stored) if !stored.payload.may_pass(filters) => false,
                Ok(stored) => {
                    bytes = bytes.saturating_add(stored.payload.all().len());
                    true
                }
                Err(_) if near.is_some() => break,
                Err(_) => true,
            };
            passing = passing.saturating_add(usize::from(passes));
            judged.push((candidate, passes));
        }
        (judged, read >= read_max)
    }

    /// How many messages its filters kept back since the last call.
    pub fn take_passed_over(&self) -> u64 {
        self.passed_over.swap(0, Ordering::Relaxed)
    }
}
