//! A subscription of a client in Python.

use std::sync::Arc;
use std::time::Duration;

use delaymq_client::failure::{Failure, Kind};
use delaymq_client::session::{Arrival, Closing, Session, SubscriptionId, SubscriptionRequest, Ticket};
use delaymq_client::transport::{Connection as Transport, Slot, Waited, Waiter};
use delaymq_core::units::Millis;
use delaymq_core::wire::extension::consume::PayloadForm;
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::convert::key::Key;
use crate::convert::receipt::Receipt;
use crate::convert::{errors, qmq, text};
use crate::embedded::options::{self, FilterTuple};
use crate::embedded::waits::Wait;
use crate::received::many::{Described, Recipient, acknowledged};
use crate::received::message::Received;
use crate::remote::waiting::{await_answer, await_slot, check, check_process, transport_wait};

/// One consumer of a group on a server. It lives over all connections of its client.
#[pyclass(frozen, module = "delaymq._core")]
pub(crate) struct RemoteSubscription {
    transport: Arc<Transport>,
    timeout: Duration,
    id: SubscriptionId,
}

impl RemoteSubscription {
    /// The arguments of `subscribe`.
    pub(crate) fn wanted(
        names: &(Vec<Bound<'_, PyAny>>, Bound<'_, PyAny>),
        start: &Bound<'_, PyAny>,
        in_flight_max: &Bound<'_, PyAny>,
        filters: FilterTuple,
        handle_within_ms: Option<u64>,
    ) -> PyResult<SubscriptionRequest> {
        let (subjects, group) = (options::selection(start.py(), &names.0)?.texts(), text::of("group", &names.1)?);
        let chosen = options::subscription(start, in_flight_max, filters, handle_within_ms)?;
        chosen.check().map_err(|error| errors::raised(start.py(), error))?;
        Ok(SubscriptionRequest {
            subjects,
            group: group.into_owned(),
            start: chosen.start,
            in_flight_max: chosen.in_flight_max,
            filters: chosen.filters,
            handle_within_ms: chosen.handle_within_ms,
        })
    }

    /// Begins to create the subscription at the server.
    pub(crate) fn begun(
        py: Python<'_>,
        transport: &Arc<Transport>,
        timeout: Duration,
        wanted: SubscriptionRequest,
        opened: Waiter,
    ) -> PyResult<Self> {
        let begun = transport.with(|session, now_ms| session.subscribe(wanted, opened, now_ms));
        let id = begun.map_err(|failure| errors::failed(py, failure))?;
        Ok(Self { transport: Arc::clone(transport), timeout, id })
    }

    /// Creates the subscription at the server.
    pub(crate) fn open(
        py: Python<'_>,
        transport: &Arc<Transport>,
        timeout: Duration,
        wanted: SubscriptionRequest,
    ) -> PyResult<Self> {
        let slot = Slot::new();
        let begun = Self::begun(py, transport, timeout, wanted, Waiter::Thread(Arc::clone(&slot)))?;
        let withdraw = || {
            let abandon = |session: &mut Session<Waiter>, now_ms| session.abandon(begun.id, now_ms);
            begun.transport.with(|session, now_ms| (!slot.is_answered()).then(|| abandon(session, now_ms)))
        };
        let outcome = await_slot(py, &begun.transport, &slot, begun.timeout, withdraw);
        let refused = match outcome {
            Ok(Ok(_)) => return Ok(begun),
            Ok(Err(failure)) => errors::failed(py, failure),
            Err(raised) => raised,
        };
        // The answer may have come while a signal handler ran.
        begun.transport.with(|session, now_ms| session.abandon(begun.id, now_ms));
        Err(refused)
    }

    fn failed<T>(py: Python<'_>, result: Result<T, Failure>) -> PyResult<T> {
        result.map_err(|failure| errors::failed(py, failure))
    }

    fn taken(&self, py: Python<'_>, count_max: usize, tops_up: bool) -> PyResult<Vec<Arrival>> {
        Self::failed(py, self.transport.with(|session, now_ms| session.take(self.id, count_max, tops_up, now_ms)))
    }

    fn is_stopped(&self) -> bool {
        self.transport.with(|session, _| session.is_stopped(self.id))
    }

    /// Waits for messages; `None` at the timeout.
    fn awaited(&self, py: Python<'_>, count_max: usize, timeout_ms: Option<u64>) -> PyResult<Option<Vec<Arrival>>> {
        let (slot, mut wait) = (Slot::new(), Wait::new(timeout_ms));
        self.transport.watch(self.id, &slot);
        let result = loop {
            // News that comes after this is seen by the wait.
            slot.rest();
            match self.taken(py, count_max, true) {
                Ok(found) if found.is_empty() && !self.is_stopped() => {}
                result => break result.map(Some),
            }
            let (slice, is_last) = wait.slice();
            match transport_wait(py, &self.transport, &slot, slice) {
                Waited::Ready => {}
                Waited::TimedOut if is_last => break Ok(None),
                Waited::TimedOut | Waited::Interrupted => {
                    if let Err(raised) = wait.look_for_signals(py) {
                        break Err(raised);
                    }
                }
            }
        };
        self.transport.unwatch(self.id, &slot);
        result
    }

    /// The messages that have arrived once the server has sent all that were ready.
    fn ready(&self, py: Python<'_>, count_max: usize) -> PyResult<Vec<Arrival>> {
        let slot = Slot::new();
        let waiter = Waiter::Thread(Arc::clone(&slot));
        let asked = self.transport.with(|session, now_ms| session.request_ready(self.id, waiter, now_ms));
        let Some(ticket) = Self::failed(py, asked)? else { return Ok(Vec::new()) };
        match self.answered(py, &slot, ticket, self.timeout)? {
            // The connection was lost, and its messages with it.
            Err(failure) if !failure.is_ambiguous() => return Err(errors::failed(py, failure)),
            _ => {}
        }
        self.taken(py, count_max, true)
    }

    fn answered(
        &self,
        py: Python<'_>,
        slot: &Arc<Slot>,
        ticket: Ticket,
        timeout: Duration,
    ) -> PyResult<Result<(), Failure>> {
        Ok(await_answer(py, &self.transport, slot, ticket, timeout)?.map(drop))
    }

    /// The server's trusted clock.
    fn now(&self) -> Millis {
        self.transport.with(|session, now_ms| session.now(now_ms))
    }

    fn begin_closing(&self, py: Python<'_>, waiter: Waiter, with_client: bool) -> PyResult<Option<Closing>> {
        let begin = |session: &mut Session<Waiter>, now_ms| session.begin_close(self.id, waiter, with_client, now_ms);
        Self::failed(py, self.transport.with(begin))
    }
}

#[pymethods]
impl RemoteSubscription {
    #[getter]
    fn id(&self) -> u64 {
        self.id.0
    }

    /// True until it, or its client, is closed.
    #[getter]
    fn is_open(&self) -> bool {
        self.transport.with(|session, _| session.has(self.id))
    }

    #[pyo3(signature = (count_max, timeout_ms, /))]
    fn pull<'py>(slf: &Bound<'py, Self>, count_max: usize, timeout_ms: Option<u64>) -> PyResult<Bound<'py, PyList>> {
        let (py, this) = (slf.py(), slf.get());
        check(py, &this.transport)?;
        let mut found = this.taken(py, count_max, timeout_ms != Some(0))?;
        if found.is_empty() {
            found = if timeout_ms == Some(0) {
                this.ready(py, count_max)?
            } else {
                this.awaited(py, count_max, timeout_ms)?.unwrap_or_default()
            };
        }
        list(slf, &found, None)
    }

    /// Only queues, so the interpreter stays held: to release it could cost a busy process 5 ms.
    #[pyo3(signature = (key, /))]
    /// False if the message was passed on before.
    fn acknowledge(&self, py: Python<'_>, key: Key) -> PyResult<bool> {
        check_process(py, &self.transport)?;
        let late = self.transport.with(|session, now_ms| session.acknowledge(self.id, &[key.0], now_ms));
        Self::failed(py, late).map(|late| late.is_empty())
    }

    #[pyo3(signature = (messages, /))]
    fn acknowledge_many(&self, messages: &Bound<'_, PyList>) -> PyResult<Vec<usize>> {
        let py = messages.py();
        check_process(py, &self.transport)?;
        acknowledged(messages, |keys| {
            Self::failed(py, self.transport.with(|session, now_ms| session.acknowledge(self.id, keys, now_ms)))
        })
    }

    /// Like `acknowledge`, this does not wait.
    #[pyo3(signature = (key, delay_ms, /))]
    fn give_back(&self, py: Python<'_>, key: Key, delay_ms: u64) -> PyResult<bool> {
        check_process(py, &self.transport)?;
        Self::failed(py, self.transport.with(|session, now_ms| session.give_back(self.id, key.0, delay_ms, now_ms)))
    }

    #[pyo3(signature = (key, reason, /))]
    fn dead_letter(&self, key: Key, reason: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = reason.py();
        check_process(py, &self.transport)?;
        // An empty list only checks whether the subscription is open.
        Self::failed(py, self.transport.with(|session, now_ms| session.acknowledge(self.id, &[], now_ms)))?;
        let reason = text::of("reason", reason)?;
        Self::failed(py, self.transport.with(|session, now_ms| session.dead_letter(self.id, key.0, &reason, now_ms)))
    }

    /// Like `acknowledge`, this does not wait.
    #[pyo3(signature = (key, duration_ms, /))]
    fn extend(&self, py: Python<'_>, key: Key, duration_ms: Option<u64>) -> PyResult<bool> {
        check_process(py, &self.transport)?;
        Self::failed(py, self.transport.with(|session, now_ms| session.extend(self.id, key.0, duration_ms, now_ms)))
    }

    #[pyo3(signature = (timeout_ms, /))]
    fn flush(&self, py: Python<'_>, timeout_ms: Option<u64>) -> PyResult<()> {
        check(py, &self.transport)?;
        let slot = Slot::new();
        let waiter = Waiter::Thread(Arc::clone(&slot));
        let asked = self.transport.with(|session, now_ms| session.request_flush(self.id, waiter, now_ms));
        let Some(ticket) = Self::failed(py, asked)? else { return Ok(()) };
        let timeout = timeout_ms.map_or(self.timeout, Duration::from_millis);
        match self.answered(py, &slot, ticket, timeout)? {
            Err(Failure::Local { kind: Kind::TimedOut, .. }) => {
                Err(errors::timed_out(py, "making the acknowledgements durable"))
            }
            result => Self::failed(py, result),
        }
    }

    #[pyo3(signature = (token, /))]
    fn begin_flush(&self, py: Python<'_>, token: u64) -> PyResult<Option<u64>> {
        check(py, &self.transport)?;
        let waiter = Waiter::Loop(token);
        let asked = self.transport.with(|session, now_ms| session.request_flush(self.id, waiter, now_ms));
        Ok(Self::failed(py, asked)?.map(|ticket| ticket.0))
    }

    /// For an event loop: returns None if the server must be asked, since no coroutine will wait for news.
    #[pyo3(signature = (count_max, at_once, settling, /))]
    fn try_pull<'py>(
        slf: &Bound<'py, Self>,
        count_max: usize,
        at_once: bool,
        settling: Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyList>>> {
        let (py, this) = (slf.py(), slf.get());
        check(py, &this.transport)?;
        let found = this.taken(py, count_max, !at_once)?;
        let must_ask = |session: &mut Session<Waiter>| session.is_subscribed(this.id) && !session.is_stopped(this.id);
        if found.is_empty() && at_once && this.transport.with(|session, _| must_ask(session)) {
            return Ok(None);
        }
        list(slf, &found, Some(settling)).map(Some)
    }

    #[pyo3(signature = (token, /))]
    fn begin_ready(&self, py: Python<'_>, token: u64) -> PyResult<Option<u64>> {
        let waiter = Waiter::Loop(token);
        let asked = self.transport.with(|session, now_ms| session.request_ready(self.id, waiter, now_ms));
        Ok(Self::failed(py, asked)?.map(|ticket| ticket.0))
    }

    #[pyo3(signature = (message, /))]
    fn receipt(&self, message: &Bound<'_, Received>) -> PyResult<Receipt> {
        let py = message.py();
        check_process(py, &self.transport)?;
        let no_receipt = || errors::refused(py, "receipt", "a message that a server delivered", "another");
        message.get().state.receipt.map(Receipt).ok_or_else(no_receipt)
    }

    /// Any thread may call it, and a signal handler.
    fn stop(&self) {
        if self.transport.opened_by() == std::process::id() {
            self.transport.with(|session, _| session.stop(self.id));
        }
    }

    #[pyo3(signature = (*, with_client = false))]
    fn close(&self, py: Python<'_>, with_client: bool) -> PyResult<()> {
        check_process(py, &self.transport)?;
        let slot = Slot::new();
        let begun = self.begin_closing(py, Waiter::Thread(Arc::clone(&slot)), with_client)?;
        let Some(Closing { ticket }) = begun else { return Ok(()) };
        let ended = ticket.map(|ticket| self.answered(py, &slot, ticket, self.timeout));
        let was_confirmed = matches!(ended, Some(Ok(Ok(()))));
        let finished = self.transport.with(|session, _| session.finish_close(self.id, was_confirmed));
        match ended.transpose()? {
            // The server ends it with the connection.
            Some(Err(failure)) if !failure.is_ambiguous() => Err(errors::failed(py, failure)),
            _ => Self::failed(py, finished),
        }
    }

    #[pyo3(signature = (token, with_client, /))]
    fn begin_close(&self, py: Python<'_>, token: u64, with_client: bool) -> PyResult<Option<u64>> {
        check_process(py, &self.transport)?;
        let begun = self.begin_closing(py, Waiter::Loop(token), with_client)?;
        Ok(begun.and_then(|closing| closing.ticket).map(|ticket| ticket.0))
    }

    #[pyo3(signature = (was_confirmed, /))]
    fn finish_close(&self, py: Python<'_>, was_confirmed: bool) -> PyResult<()> {
        Self::failed(py, self.transport.with(|session, _| session.finish_close(self.id, was_confirmed)))
    }

    /// Removes a subscription that was begun and is not waited for, and returns the error of its caller.
    fn abandon(&self, py: Python<'_>) -> PyErr {
        errors::failed(py, self.transport.with(|session, now_ms| session.abandon(self.id, now_ms)))
    }
}

fn list<'py>(
    subscription: &Bound<'py, RemoteSubscription>,
    arrivals: &[Arrival],
    settling: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyList>> {
    let now = || subscription.get().now();
    Recipient::of(subscription, settling).list(arrivals, now, |arrival, writer| {
        let (meta, body) = qmq::parts_of(arrival.form == PayloadForm::Opaque, &arrival.meta, &arrival.body);
        writer.push(&Described {
            key: arrival.key,
            subject: &arrival.subject,
            meta: &meta,
            body: &body,
            due: arrival.due,
            first_due: arrival.first_due,
            published: arrival.published,
            attempt: arrival.attempt,
            redelivered: arrival.redelivered,
            sequence: arrival.sequence,
            receipt: Some(arrival.receipt),
        })
    })
}
