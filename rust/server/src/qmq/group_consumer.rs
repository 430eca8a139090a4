//! A consumer of a group: what it pulls, pulls again, and settles. A broadcast consumer has a group of its own.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use delaymq_core::error::Result;
use delaymq_core::queues::pull_log::PullLog;
use delaymq_core::queues::tags::Filter;
use delaymq_core::record::limits::{GroupSubject, group_subject};
use delaymq_core::store::Delivery;
use delaymq_core::units::{PullOffset, Sequence};
use delaymq_engine::{
    GivenRun, IN_FLIGHT_MAX, Judging, NamedConsumer, NamedOptions, PullBounds, RetryRule, StartAt, TriedRun,
};
use tokio::task::yield_now;

use crate::blocking_pool::Work;
use crate::qmq::consumers::Name;
use crate::qmq::pull::{Gathered, PendingPull, bytes_max, choose_of};
use crate::qmq::pull_queues::PullQueue;
use crate::qmq::session::Session;
use crate::server_state::ServerState;

/// The messages that a consumer may always hold. QMQ has no bound, so the bound grows with the consumer's pulls.
const IN_FLIGHT_MIN: u32 = 256;
/// How long a pull that must not wait for messages waits for facts on their way that make something ready.
const SOON: Duration = Duration::from_millis(500);
/// A pull with filters is answered once it has judged so many messages, if one of them passed.
const JUDGED_MAX: usize = 1 << 16;
/// How many it judges at once on a thread of the pool, where others wait.
const JUDGED_AT_ONCE: usize = 1 << 13;
/// How many it judges at once on the thread of all connections.
const JUDGED_UNWAITING: usize = 256;
/// A message that cannot be sent to QMQ's clients becomes a dead letter, however often it was delivered.
const UNTOLD: RetryRule = RetryRule { delay_ms: 0, attempts_max: 0, reason: Some("it cannot be told in QMQ's words") };

/// See the module.
pub(crate) struct GroupConsumer {
    pub(crate) consumer: Arc<NamedConsumer>,
    pub(crate) pull_queue: Rc<PullQueue>,
    log: RefCell<PullLog<Delivery>>,
}

impl GroupConsumer {
    /// Looks up a consumer with all that it holds, or creates it with its group. The group begins with the next
    /// message; that of a retry subject begins with the first.
    pub(crate) async fn begin(state: &Rc<ServerState>, session: &Session) -> Result<Rc<Self>> {
        let name = &session.name;
        let (store, wanted) = (Arc::clone(&state.store), Name::clone(name));
        let is_of_group =
            matches!(group_subject(&name.subject), Some(GroupSubject { group, .. }) if group == name.group);
        let start = if is_of_group { StartAt::Unfinished } else { StartAt::Latest };
        let options = NamedOptions { start, in_flight_max: IN_FLIGHT_MIN, is_broadcast: session.is_broadcast() };
        // Until it is durable it takes no thread, and delays no other look-up.
        let beginning =
            state.pool.call(Work::LookUp, move || store.register_named_consumer(wanted.id(), options)).await?;
        if beginning.is_told() {
            session.was_told(state);
        }
        state.reached(beginning.position()).await?;
        let (consumer, holding) = state.pool.call(Work::LookUp, move || beginning.finish()).await?;
        let token = state.number();
        let (group, subject) = (consumer.group_number(), consumer.subject_number());
        let pull_queue = state.consumers.pull_queues.borrow_mut().of_group(group, subject, token);
        consumer.watch_by(&state.listener, pull_queue.token)?;
        let log = RefCell::new(PullLog::new(holding.next, holding.held));
        Ok(Rc::new(Self { consumer, pull_queue, log }))
    }

    /// The messages for a pull: those that the client did not receive, or else new ones.
    pub(crate) async fn gather(
        &self,
        state: &Rc<ServerState>,
        session: &Session,
        request: &PendingPull,
    ) -> Result<Gathered> {
        loop {
            let bytes_max = bytes_max(request);
            let lost = self.lost(request);
            let run = if lost.is_empty() {
                match self.pull(state, request, bytes_max).await? {
                    TriedRun::Run(run) => Some(run),
                    TriedRun::WouldWait => return Ok(Gathered::GaveUp),
                    TriedRun::Nothing | TriedRun::Soon => return Ok(Gathered::Nothing),
                }
            } else {
                self.read_again(state, lost, bytes_max).await?
            };
            if let Some(run) = run
                && let Some(found) = self.choose(state, session, request, run).await?
            {
                return Ok(found);
            }
            // Other tasks have their turn, however many messages the filters keep back.
            yield_now().await;
        }
    }

    fn lost(&self, request: &PendingPull) -> Vec<Delivery> {
        let log = self.log.borrow();
        log.lost(request.received, request.count).map_or(Vec::new(), |(_, run)| run.into_iter().copied().collect())
    }

    /// Pulls new messages. [`TriedRun::WouldWait`] stands for a pull that ended before everything ready was judged.
    async fn pull(&self, state: &ServerState, request: &PendingPull, bytes_max: usize) -> Result<TriedRun> {
        let (count_max, may_wait) = (request.count, request.deadline > state.now());
        let wanted = self.log.borrow().len().saturating_add(count_max);
        let in_flight_max = u32::try_from(wanted).unwrap_or(u32::MAX).clamp(IN_FLIGHT_MIN, IN_FLIGHT_MAX);
        let bounds = PullBounds { count_max, bytes_max, in_flight_max };
        let judging = Judging { filters: &request.filters, judged_max: JUDGED_UNWAITING, returns_part: false };
        let tried = self.consumer.try_pull_passing(bounds, judging)?;
        let run = match tried {
            found @ (TriedRun::Run(_) | TriedRun::Nothing) => found,
            // A pull that may wait is woken when there is something.
            TriedRun::Soon if may_wait => TriedRun::Nothing,
            // A pull that may not wait waits a little, on no thread.
            TriedRun::Soon if !state.reached_within(self.consumer.hasten()?, SOON).await? => TriedRun::Nothing,
            TriedRun::Soon | TriedRun::WouldWait => self.pull_waiting(state, request, bounds).await?,
        };
        state.consumers.counters.filtered.add(self.consumer.take_passed_over());
        if let TriedRun::Run(run) = &run {
            self.log.borrow_mut().given(run.first, run.deliveries.iter().copied());
        }
        Ok(run)
    }

    /// Pulls on threads that may wait. A pull with filters goes on until it is full or nothing more is ready; once it has
    /// judged [`JUDGED_MAX`] messages it takes what passed, or goes on while it has time.
    async fn pull_waiting(&self, state: &ServerState, request: &PendingPull, bounds: PullBounds) -> Result<TriedRun> {
        let mut judged = 0_usize;
        loop {
            judged = judged.saturating_add(JUDGED_AT_ONCE);
            let returns_part = judged >= JUDGED_MAX;
            let (consumer, filters) = (Arc::clone(&self.consumer), Arc::clone(&request.filters));
            let pull = move || {
                let filters: &[Filter] = &filters;
                consumer.pull_passing(bounds, Judging { filters, judged_max: JUDGED_AT_ONCE, returns_part })
            };
            match state.pool.call(Work::Pull, pull).await? {
                TriedRun::WouldWait if !returns_part || request.deadline > state.now() => {}
                found => return Ok(found),
            }
            if request.responder.peer().has_left() || state.is_draining() {
                return Ok(TriedRun::WouldWait);
            }
        }
    }

    async fn read_again(&self, state: &ServerState, lost: Vec<Delivery>, bytes_max: usize) -> Result<Option<GivenRun>> {
        let read = if let Some(read) = self.consumer.try_read_again(&lost, bytes_max)? {
            read
        } else {
            let consumer = Arc::clone(&self.consumer);
            state.pool.call(Work::Pull, move || consumer.read_again(&lost, bytes_max)).await?
        };
        let mut log = self.log.borrow_mut();
        for offset in read.finished {
            log.remove(offset);
        }
        Ok(read.run)
    }

    /// The messages for the answer. Those that the filters keep back count as finished. `None` if none passes.
    async fn choose(
        &self,
        state: &Rc<ServerState>,
        session: &Session,
        request: &PendingPull,
        run: GivenRun,
    ) -> Result<Option<Gathered>> {
        let (found, filtered) = choose_of(request, run.first, run.messages);
        if !filtered.is_empty() {
            state.consumers.counters.filtered.add(filtered.len() as u64);
            for offset in &filtered {
                self.log.borrow_mut().remove(*offset);
            }
            let done: Vec<Range<PullOffset>> = filtered.iter().map(|offset| *offset..offset.next()).collect();
            self.settle(state, session, done, Vec::new(), state.consumers.rule).await?;
        }
        Ok(found)
    }

    /// Finishes the offsets `first` to `last`; unfinished messages below go to the retry subject, or are finished for a
    /// broadcast consumer. Durable from the returned position on.
    pub(crate) async fn acknowledge(
        &self,
        state: &Rc<ServerState>,
        session: &Session,
        (first, last): (PullOffset, PullOffset),
    ) -> Result<Sequence> {
        let settled = self.log.borrow_mut().acknowledge(first, last);
        if settled.done.is_empty() {
            // They were finished before, perhaps a moment ago.
            return Ok(session.settled.get());
        }
        if session.is_broadcast() {
            // As in QMQ. Offsets between that are not held change nothing.
            let first = settled.passed_over.first().map_or(settled.done.start, |(offset, _)| *offset);
            let done = first..settled.done.end;
            return self.settle(state, session, vec![done], Vec::new(), state.consumers.rule).await;
        }
        state.consumers.counters.passed_over.add(settled.passed_over.len() as u64);
        let passed_over = settled.passed_over.into_iter().map(|(_, delivery)| delivery).collect();
        self.settle(state, session, vec![settled.done], passed_over, state.consumers.rule).await
    }

    /// A message that cannot be sent to a QMQ client becomes a dead letter of its group.
    pub(crate) async fn put_away(&self, state: &ServerState, session: &Session, offset: PullOffset) -> Result<()> {
        let delivery = self.log.borrow_mut().remove(offset);
        self.settle(state, session, Vec::new(), delivery.into_iter().collect(), UNTOLD).await.map(drop)
    }

    async fn settle(
        &self,
        state: &ServerState,
        session: &Session,
        done: Vec<Range<PullOffset>>,
        passed_over: Vec<Delivery>,
        rule: RetryRule,
    ) -> Result<Sequence> {
        let position = if let Some(position) = self.consumer.try_settle(&done, &passed_over, rule)? {
            position
        } else {
            let consumer = Arc::clone(&self.consumer);
            state.pool.call(Work::Settle, move || consumer.settle(&done, &passed_over, rule)).await?
        };
        session.settled.set(session.settled.get().max(position));
        Ok(position)
    }
}
