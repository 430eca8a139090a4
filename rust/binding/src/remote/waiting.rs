//! How a thread of Python waits for a client's connection, without the interpreter, and checks that it may use it.

use std::sync::Arc;
use std::time::Duration;

use delaymq_client::failure::Failure;
use delaymq_client::session::{Outcome, Ticket};
use delaymq_client::transport::{Connection as Transport, Slot, Waited};
use pyo3::prelude::*;

use crate::convert::errors;
use crate::embedded::waits::Wait;

/// Waits for the answer of a request, which is withdrawn if it does not come in time, or if a signal handler raises.
pub(crate) fn await_answer(
    py: Python<'_>,
    transport: &Transport,
    slot: &Arc<Slot>,
    ticket: Ticket,
    timeout: Duration,
) -> PyResult<Outcome> {
    await_slot(py, transport, slot, timeout, || transport.with(|session, _| session.withdraw(ticket)))
}

/// Waits for the answer in a slot. `withdraw` ends the wait: it returns the error, or `None` if the answer has come.
pub(crate) fn await_slot(
    py: Python<'_>,
    transport: &Transport,
    slot: &Arc<Slot>,
    timeout: Duration,
    withdraw: impl Fn() -> Option<Failure>,
) -> PyResult<Outcome> {
    let mut wait = Wait::new(Some(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX)));
    loop {
        let (slice, is_last) = wait.slice();
        let waited = transport_wait(py, transport, slot, slice);
        if let Some(outcome) = slot.take() {
            return Ok(outcome);
        }
        if waited == Waited::TimedOut && is_last {
            if let Some(failure) = withdraw() {
                return Ok(Err(failure));
            }
        } else if let Err(raised) = wait.look_for_signals(py) {
            withdraw();
            return Err(raised);
        }
    }
}

pub(crate) fn transport_wait(py: Python<'_>, transport: &Transport, slot: &Arc<Slot>, limit: Duration) -> Waited {
    py.detach(|| transport.wait(slot, limit))
}

/// Refuses a forked child.
pub(crate) fn check_process(py: Python<'_>, transport: &Transport) -> PyResult<()> {
    let (owner, caller) = (transport.opened_by(), std::process::id());
    if owner == caller { Ok(()) } else { Err(errors::forked_client(py, owner, caller)) }
}

/// Refuses a forked child and a closed client.
pub(crate) fn check(py: Python<'_>, transport: &Transport) -> PyResult<()> {
    check_process(py, transport)?;
    transport.with(|session, _| session.check()).map_err(|failure| errors::failed(py, failure))
}
