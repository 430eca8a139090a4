//! Pulls of named consumers: new messages, and again those that the consumer holds.

use std::collections::BTreeMap;
use std::sync::TryLockError;
use std::time::Duration;

use delaymq_core::error::{Error, Result};
use delaymq_core::queues::tags::Filter;
use delaymq_core::store::{Delivery, Pull, PullRequest};
use delaymq_core::units::{PullOffset, SegmentNumber, Sequence};

use crate::consume::delivery::{Delivered, DeliveryKey};
use crate::consume::expiring::ExpiredDelivery;
use crate::consume::member::{GroupConsumer, MAIN};
use crate::consume::named::consumer::{GivenRun, Holding, InFlight, NamedConsumer, PullBounds, ReadAgain, TriedRun};
use crate::consume::named::judging::{Asked, Judging, Share};
use crate::drive::driver::OwnerGuard;
use crate::files::payload_reader::PayloadReader;
use crate::held;
use crate::options::check_in_flight;

/// How long a pull waits for facts on their way that make something ready.
const PATIENCE: Duration = Duration::from_millis(500);

/// The result of reading a payload.
enum Read {
    Message(Box<Delivered>),
    /// It is damaged, and was voided.
    Damaged,
    /// It has expired.
    Expired(ExpiredDelivery),
    /// It cannot be read now.
    Later(Option<Error>),
}

impl NamedConsumer {
    /// New messages, without waiting: one run of neighbouring offsets. A message that was assigned but is over the
    /// bounds, or could not be read now, comes first with the next pull.
    ///
    /// # Errors
    /// `InvalidArgument` naming `in_flight_max`; `Poisoned`, `ForkedProcess`; `Closed`, also if the consumer is gone.
    pub fn try_pull(&self, bounds: PullBounds) -> Result<TriedRun> {
        self.try_pull_passing(bounds, Judging::NONE)
    }

    /// As [`Self::try_pull`], of messages that pass filters; the others are finished for the group, without an offset. It
    /// goes on until it is full or nothing more is ready. [`TriedRun::WouldWait`] also if it has judged its share: what
    /// passed so far comes with the next pull.
    ///
    /// # Errors
    /// As [`Self::try_pull`].
    pub fn try_pull_passing(&self, bounds: PullBounds, judging: Judging<'_>) -> Result<TriedRun> {
        check_in_flight(bounds.in_flight_max)?;
        self.check()?;
        let mut hands = match self.hands.try_lock() {
            Ok(hands) => hands,
            Err(TryLockError::WouldBlock) => return Ok(TriedRun::WouldWait),
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        };
        // With a manual clock nothing arrives later by itself, and a test may wait.
        let mut is_settled = self.shared.time.activity().is_none();
        let (mut share, near) = (Share::of(judging), Some(self.shared.nearest()));
        while !hands.is_enough(bounds, judging.filters) {
            if !judging.filters.is_empty() && share.left == 0 {
                return Ok(TriedRun::WouldWait);
            }
            let Some(guard) = self.shared.try_lock_owner()? else { return Ok(TriedRun::WouldWait) };
            match self.ask(guard, (bounds, judging.filters, &mut share), &mut hands, near)? {
                Asked::Given => {}
                Asked::Load(load) => {
                    hands.unread_load.get_or_insert(load);
                    return Ok(TriedRun::WouldWait);
                }
                Asked::WouldWait => return Ok(TriedRun::WouldWait),
                Asked::Gone => return Err(Error::Closed),
                Asked::Wait if !hands.unread.is_empty() => break,
                // Once a reserve is durable, the answer may be full.
                Asked::Soon if !hands.unread.is_empty() => return Ok(TriedRun::WouldWait),
                Asked::Wait | Asked::Soon if !is_settled => {
                    self.shared.settle()?;
                    is_settled = true;
                }
                Asked::Soon => return Ok(TriedRun::Soon),
                Asked::Wait => return Ok(TriedRun::Nothing),
            }
        }
        Ok(match self.read_unread(&mut hands, bounds, near)? {
            Some(run) => TriedRun::Run(run),
            None => TriedRun::WouldWait,
        })
    }

    /// Has everything on its way to the log written soon, and returns where that ends. Once everything below is
    /// visible, a pull returns what [`TriedRun::Soon`] announced.
    ///
    /// # Errors
    /// `Poisoned`, `ForkedProcess`; `Closed`, also if the consumer is gone.
    pub fn hasten(&self) -> Result<Sequence> {
        self.check()?;
        let end = self.shared.with_commits(|commits| commits.next_sequence());
        self.shared.hasten(end);
        Ok(end)
    }

    /// As [`Self::try_pull`], but waits for the disk and for other threads, though not for messages; `None` if there is
    /// nothing now.
    ///
    /// # Errors
    /// As [`Self::try_pull`]; `Storage` if payloads cannot be read now.
    pub fn pull(&self, bounds: PullBounds) -> Result<Option<GivenRun>> {
        Ok(match self.pull_passing(bounds, Judging::NONE)? {
            TriedRun::Run(run) => Some(run),
            TriedRun::Nothing | TriedRun::Soon | TriedRun::WouldWait => None,
        })
    }

    /// As [`Self::pull`], of messages that pass filters; the others are finished for the group, without an offset. It
    /// goes on until it is full, nothing more is ready, or it has judged its share: [`TriedRun::WouldWait`] then says that
    /// another pull may find more. [`TriedRun::Nothing`] is the only other result.
    ///
    /// # Errors
    /// As [`Self::pull`].
    pub fn pull_passing(&self, bounds: PullBounds, judging: Judging<'_>) -> Result<TriedRun> {
        check_in_flight(bounds.in_flight_max)?;
        let mut hands = held(&self.hands);
        let mut is_settled = self.shared.time.activity().is_none();
        let (mut is_hastened, mut is_all) = (false, false);
        let mut share = Share::of(judging);
        hands.unread_load.take().map_or(Ok(()), |load| self.shared.load(load))?;
        loop {
            self.check()?;
            let is_over = is_all || (!judging.filters.is_empty() && share.left == 0);
            if hands.is_enough(bounds, judging.filters)
                || (is_over && !hands.unread.is_empty() && (is_all || judging.returns_part))
            {
                if let Some(run) = self.read_unread(&mut hands, bounds, None)? {
                    return Ok(TriedRun::Run(run));
                }
                // All of it was damaged or had expired, and is finished: there may be more.
                (is_settled, is_hastened, is_all) = (self.shared.time.activity().is_none(), false, false);
            } else if is_over {
                return Ok(TriedRun::WouldWait);
            }
            let asked = (bounds, judging.filters, &mut share);
            match self.ask(self.shared.lock_owner()?, asked, &mut hands, None)? {
                Asked::Given | Asked::WouldWait => is_hastened = false,
                Asked::Load(load) => self.shared.load(load)?,
                Asked::Gone => return Err(Error::Closed),
                Asked::Wait if !hands.unread.is_empty() => is_all = true,
                Asked::Wait | Asked::Soon if !is_settled => {
                    self.shared.settle()?;
                    is_settled = true;
                }
                Asked::Soon if !is_hastened => {
                    self.shared.bring_in(PATIENCE)?;
                    is_hastened = true;
                }
                Asked::Soon if !hands.unread.is_empty() => is_all = true,
                Asked::Wait | Asked::Soon => return Ok(TriedRun::Nothing),
            }
        }
    }

    /// Lets the owner assign messages, of those that pass the filters if there are any. They go to `hands`.
    fn ask(
        &self,
        guard: OwnerGuard<'_>,
        (bounds, filters, share): (PullBounds, &[Filter], &mut Share),
        hands: &mut InFlight,
        near: Option<SegmentNumber>,
    ) -> Result<Asked> {
        if !filters.is_empty() {
            return self.judge_offer(guard, (bounds, filters, share), hands, near);
        }
        let GroupConsumer { group, consumer } = self.consuming;
        let PullBounds { count_max, in_flight_max, .. } = bounds;
        let request = PullRequest { group, consumer, count_max, in_flight_max, beside: 0 };
        let pulled = self.shared.ask_owner(guard, |locked, _| {
            let pulled = locked.owner.pull(request, &mut locked.proposals)?;
            if let Pull::Deliveries(deliveries) = &pulled {
                hands.unread.extend(deliveries);
            }
            Ok(pulled)
        })?;
        Ok(match pulled {
            Pull::Deliveries(_) => Asked::Given,
            Pull::Load(load) => Asked::Load(load),
            Pull::Wait => Asked::Wait,
            Pull::Soon => Asked::Soon,
            Pull::Gone => self.gone(),
        })
    }

    /// A run of the assigned messages, from the first on; `None` if there is none, or with `near` if that would have to
    /// wait.
    fn read_unread(
        &self,
        hands: &mut InFlight,
        bounds: PullBounds,
        near: Option<SegmentNumber>,
    ) -> Result<Option<GivenRun>> {
        let mut run = GivenRun { first: PullOffset(0), messages: Vec::new(), deliveries: Vec::new() };
        let (mut expired, mut bytes) = (Vec::new(), 0_usize);
        let mut payloads = self.shared.payloads.reader();
        while run.messages.len() < bounds.count_max.max(1)
            && bytes < bounds.bytes_max.max(1)
            && let Some(delivery) = hands.unread.front().copied()
            && run.takes(delivery.offset)
        {
            match self.read_one(&mut payloads, &delivery, false, near)? {
                Read::Message(message) => {
                    bytes = bytes.saturating_add(message.payload.all().len());
                    run.add(delivery, *message);
                    hands.unread.pop_front();
                }
                Read::Damaged => {
                    hands.unread.pop_front();
                }
                Read::Expired(one) => {
                    hands.unread.pop_front();
                    expired.push(one);
                }
                Read::Later(Some(error)) if run.messages.is_empty() => return Err(error),
                Read::Later(_) => break,
            }
        }
        self.finish_expired(&expired, false)?;
        self.shared.metrics.delivered.add(run.messages.len() as u64);
        Ok((!run.messages.is_empty()).then_some(run))
    }

    fn read_one(
        &self,
        payloads: &mut PayloadReader<'_>,
        delivery: &Delivery,
        is_again: bool,
        near: Option<SegmentNumber>,
    ) -> Result<Read> {
        let entry = &delivery.entry;
        if near.is_some_and(|near| entry.location().segment().is_none_or(|segment| segment < near)) {
            return Ok(Read::Later(None));
        }
        match self.shared.read_whole(payloads, entry, near.is_none()) {
            Ok(stored) if self.shared.has_expired(&stored, &self.subject) => Ok(match near {
                Some(_) => Read::Later(None),
                None => Read::Expired(ExpiredDelivery::of(*delivery, &stored)),
            }),
            Ok(stored) => {
                let key = DeliveryKey { queue: MAIN, offset: delivery.offset.0 };
                let message = self.shared.delivered(
                    key,
                    entry,
                    (delivery.attempt, is_again || delivery.is_redelivered()),
                    stored,
                    &self.subject,
                );
                Ok(Read::Message(Box::new(message)))
            }
            Err(_) if near.is_some() => Ok(Read::Later(None)),
            Err(error @ Error::DamagedPayload { .. }) => {
                self.shared.void_ready(delivery, &error)?;
                Ok(Read::Damaged)
            }
            Err(error) => Ok(Read::Later(Some(error))),
        }
    }

    /// All messages that it holds, to begin with after a reconnect or an open. Messages that are assigned and not
    /// handed over are among them, and do not come with a pull any more. Waits for the disk.
    ///
    /// # Errors
    /// `Storage` if the disk cannot be read; `Poisoned`, `ForkedProcess`; `Closed`, also if the consumer is gone.
    pub fn holding(&self) -> Result<Holding> {
        self.check()?;
        let mut hands = held(&self.hands);
        self.shared.catch_up()?;
        self.hold(&mut hands)
    }

    /// As [`Self::holding`], if everything that was decided for it is applied.
    pub(crate) fn holding_as_applied(&self) -> Result<Holding> {
        self.check()?;
        self.hold(&mut held(&self.hands))
    }

    fn hold(&self, hands: &mut InFlight) -> Result<Holding> {
        let Some((next, deliveries)) = self.all_held()? else {
            self.went();
            return Err(Error::Closed);
        };
        hands.unread.clear();
        let again = |delivery: Delivery| Delivery { attempt: delivery.attempt.saturating_add(1), ..delivery };
        let held: BTreeMap<_, _> = deliveries.into_iter().map(|one| (one.offset, again(one))).collect();
        Ok(Holding { next, held })
    }

    /// The messages that it holds, with all earlier decisions applied, and its next offset; `None` if it has ended. No
    /// thread may pull for it meanwhile.
    pub(crate) fn everything_held(&self) -> Result<Option<(PullOffset, Vec<Delivery>)>> {
        self.shared.catch_up()?;
        self.all_held()
    }

    fn all_held(&self) -> Result<Option<(PullOffset, Vec<Delivery>)>> {
        let shared = &self.shared;
        let GroupConsumer { group, consumer } = self.consuming;
        let (mut found, mut from) = (Vec::new(), PullOffset(0));
        loop {
            let (piece, next) = {
                let mut guard = shared.lock_owner()?;
                let owner = &mut guard.get()?.owner;
                let piece = owner.held_from(group, consumer, from).inspect_err(|error| shared.fail(error))?;
                (piece, owner.next_offset(group, consumer))
            };
            let (Some(piece), Some(next)) = (piece, next) else { return Ok(None) };
            found.extend(piece.deliveries);
            if let Some(load) = piece.load {
                shared.load(load)?;
            }
            match piece.next {
                Some(offset) => from = offset,
                None => return Ok(Some((next, found))),
            }
        }
    }

    /// Reads held messages again, without waiting: the first of these deliveries, which ascend without gaps, up to
    /// `bytes_max` (one message more at most); `None` if the first would have to wait. Another call brings the rest.
    ///
    /// # Errors
    /// `Poisoned`, `ForkedProcess`; `Closed`, also if the consumer is gone.
    pub fn try_read_again(&self, deliveries: &[Delivery], bytes_max: usize) -> Result<Option<ReadAgain>> {
        self.check()?;
        let read = self.read_held(deliveries, bytes_max, Some(self.shared.nearest()))?;
        Ok((read.run.is_some() || deliveries.is_empty()).then_some(read))
    }

    /// As [`Self::try_read_again`], waiting for the disk.
    ///
    /// # Errors
    /// As [`Self::try_read_again`]; `Storage` if the first cannot be read now.
    pub fn read_again(&self, deliveries: &[Delivery], bytes_max: usize) -> Result<ReadAgain> {
        self.check()?;
        self.read_held(deliveries, bytes_max, None)
    }

    fn read_held(&self, deliveries: &[Delivery], bytes_max: usize, near: Option<SegmentNumber>) -> Result<ReadAgain> {
        let mut run = GivenRun { first: PullOffset(0), messages: Vec::new(), deliveries: Vec::new() };
        let (mut finished, mut expired, mut bytes) = (Vec::new(), Vec::new(), 0_usize);
        let mut payloads = self.shared.payloads.reader();
        for delivery in deliveries {
            if bytes >= bytes_max.max(1) || !run.takes(delivery.offset) {
                break;
            }
            match self.read_one(&mut payloads, delivery, true, near)? {
                Read::Message(message) => {
                    bytes = bytes.saturating_add(message.payload.all().len());
                    run.add(*delivery, *message);
                }
                Read::Damaged => finished.push(delivery.offset),
                Read::Expired(one) => {
                    finished.push(delivery.offset);
                    expired.push(one);
                }
                Read::Later(Some(error)) if run.messages.is_empty() && finished.is_empty() => return Err(error),
                Read::Later(_) => break,
            }
        }
        self.finish_expired(&expired, true)?;
        self.shared.metrics.delivered.add(run.messages.len() as u64);
        Ok(ReadAgain { run: (!run.messages.is_empty()).then_some(run), finished })
    }
}

impl GivenRun {
    /// True if a message with this offset may be the next.
    fn takes(&self, offset: PullOffset) -> bool {
        self.messages.is_empty() || self.first.plus(self.messages.len() as u64) == offset
    }

    fn add(&mut self, delivery: Delivery, message: Delivered) {
        if self.messages.is_empty() {
            self.first = delivery.offset;
        }
        self.messages.push(message);
        self.deliveries.push(delivery);
    }
}
