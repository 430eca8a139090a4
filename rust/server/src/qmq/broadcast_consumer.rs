//! A broadcast consumer of QMQ: it gets every message of a subject, and the store keeps nothing of it.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use delaymq_core::error::Result;
use delaymq_core::queues::broadcast::BroadcastCursor;
use delaymq_core::units::{PullOffset, ReadyNumber};
use delaymq_engine::ReadNumbers;
use tokio::task::yield_now;

use crate::blocking_pool::Work;
use crate::qmq::pull::{Gathered, PendingPull, bytes_max, choose_of};
use crate::qmq::pull_queues::Reading;
use crate::server_state::ServerState;

/// See the module.
pub(crate) struct BroadcastConsumer {
    pub(crate) reading: Reading,
    cursor: Cell<BroadcastCursor>,
}

impl BroadcastConsumer {
    /// A consumer that has received everything up to `received`, or a new one, which begins with the next message.
    pub(crate) async fn begin(
        state: &Rc<ServerState>,
        subject: &str,
        received: Option<PullOffset>,
    ) -> Result<Rc<Self>> {
        let reading = reading(state, subject).await?;
        // No message has the highest number, so the result has the next number.
        let latest = match read(state, &reading, ReadyNumber(u64::MAX), 1, 0).await? {
            ReadNumbers::Nothing { next } => next,
            _ => reading.reader.began_at(),
        };
        Ok(Rc::new(Self { reading, cursor: Cell::new(BroadcastCursor::new(received, latest)) }))
    }

    /// The messages for a pull.
    pub(crate) async fn gather(&self, state: &Rc<ServerState>, request: &PendingPull) -> Result<Gathered> {
        let mut from = self.cursor.get().begin(request.received);
        loop {
            match read(state, &self.reading, from, request.count, bytes_max(request)).await? {
                ReadNumbers::Messages { first, messages } => {
                    let next = ReadyNumber(first.0.saturating_add(messages.len() as u64));
                    let (found, filtered) = choose_of(request, PullOffset(first.0), messages);
                    state.consumers.counters.filtered.add(filtered.len() as u64);
                    if let Some(found) = found {
                        return Ok(found);
                    }
                    self.go_on(None, next);
                    from = next;
                }
                ReadNumbers::BelowFloor { floor } => {
                    state.consumers.counters.fell_behind.add(1);
                    from = floor;
                }
                ReadNumbers::Nothing { .. } | ReadNumbers::WouldWait => return Ok(Gathered::Nothing),
            }
            yield_now().await;
        }
    }

    /// The pull was answered with so many messages.
    pub(crate) fn answered(&self, first: PullOffset, count: usize) {
        let next = ReadyNumber(first.0.saturating_add(count as u64));
        self.go_on(Some(ReadyNumber(next.0.saturating_sub(1))), next);
    }

    /// Skips a message that cannot be sent to QMQ's clients.
    pub(crate) fn pass_over(&self, offset: PullOffset) {
        self.go_on(None, ReadyNumber(offset.next().0));
    }

    fn go_on(&self, answered: Option<ReadyNumber>, next: ReadyNumber) {
        let mut cursor = self.cursor.get();
        cursor.went_on(answered, next);
        self.cursor.set(cursor);
    }
}

async fn read(
    state: &ServerState,
    reading: &Reading,
    from: ReadyNumber,
    count_max: usize,
    bytes_max: usize,
) -> Result<ReadNumbers> {
    match reading.reader.try_read(from, count_max, bytes_max)? {
        ReadNumbers::WouldWait => {
            let reader = Arc::clone(&reading.reader);
            state.pool.call(Work::Pull, move || reader.read(from, count_max, bytes_max)).await
        }
        found => Ok(found),
    }
}

/// The reader of a subject, which all broadcast consumers of it share.
async fn reading(state: &Rc<ServerState>, subject: &str) -> Result<Reading> {
    let known = state.consumers.pull_queues.borrow().reading(subject);
    if let Some(known) = known {
        return Ok(known);
    }
    let (store, name) = (Arc::clone(&state.store), subject.to_owned());
    let reader = state.pool.call(Work::LookUp, move || store.subject_reader(&name)).await?;
    // Another consumer may have created it meanwhile.
    let known = state.consumers.pull_queues.borrow().reading(subject);
    if let Some(known) = known {
        return Ok(known);
    }
    let token = state.number();
    reader.watch_by(&state.listener, token)?;
    Ok(state.consumers.pull_queues.borrow_mut().read(subject, reader, token))
}
