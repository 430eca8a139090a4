//! How connections end, and how a session does.

use crate::failure::{Failure, Kind};
use crate::session::Session;
use crate::session::request::{CLIENT_CLOSED, Report};
use crate::session::requests::Outcome;
use crate::session::timers::{Timer, Timers};

/// How long a node that is not the primary is waited for, if it owes answers that say what became of requests.
const LEAVE_MS: u64 = 1_000;

impl<W> Session<W> {
    /// Ends the connection to a node that is not the primary, once it owes no answer that says what became of a request.
    /// A node that was the primary may never give some answers, so the wait has a limit.
    pub(super) fn leave(&mut self, now_ms: u64) -> Result<(), Failure> {
        let Some(error) = &self.requests.not_primary else { return Ok(()) };
        if self.requests.may_leave() {
            return Err(error.clone().into());
        }
        self.timers.set_once(Timer::Leave, now_ms.saturating_add(LEAVE_MS));
        Ok(())
    }

    /// Handles a connection that was lost, or could not be made.
    pub fn lost(&mut self, cause: &Failure, now_ms: u64) {
        self.disconnected(cause, false, now_ms);
        if self.opened.is_some() && !self.awaits_primary(cause, now_ms) {
            self.report_opened(Err(cause.clone()));
            self.end(cause.clone(), now_ms);
        }
    }

    /// True while a client that was never connected goes on, because a node has answered that it is not the primary: one takes over
    /// soon.
    fn awaits_primary(&mut self, cause: &Failure, now_ms: u64) -> bool {
        if cause.is_permanent() || (cause.not_primary().is_none() && self.awaits_since_ms.is_none()) {
            return false;
        }
        let since_ms = *self.awaits_since_ms.get_or_insert(now_ms);
        now_ms.saturating_sub(since_ms) < self.options.hello_ms
    }

    /// As [`Self::lost`], if another node is tried at once: what waits for a connection goes on waiting.
    pub fn lost_one(&mut self, cause: &Failure, now_ms: u64) {
        self.disconnected(cause, true, now_ms);
    }

    fn disconnected(&mut self, cause: &Failure, tries_next: bool, now_ms: u64) {
        let was_ready = std::mem::take(&mut self.is_ready);
        self.caller = None;
        self.by_number.clear();
        self.dirty.clear();
        self.refused.clear();
        self.timers = Timers::default();
        if was_ready && self.closed.is_none() {
            let text = format!("the connection to {} was lost: {}", self.requests.node, cause.words());
            self.reports.push(Report { action: "connection_lost", text });
        }
        for state in self.subscriptions.values_mut() {
            state.disconnected();
        }
        self.requests.lose(cause, was_ready, tries_next);
        self.advance(now_ms);
    }

    /// Ends the session; requests that wait fail.
    pub fn end(&mut self, why: Failure, now_ms: u64) {
        let why = self.closed.get_or_insert(why).clone();
        self.report_opened(Err(why.clone()));
        for (id, state) in &mut self.subscriptions {
            state.disconnected();
            if let Some(waiter) = state.opened.take() {
                self.completed.push((waiter, Err(Failure::new(Kind::Closed, CLIENT_CLOSED))));
            }
            self.news.insert(*id);
        }
        // A close that is in progress has yet to report what is ambiguous.
        self.subscriptions.retain(|_, state| state.closed.is_some());
        self.refused.clear();
        self.requests.end(&why);
        self.advance(now_ms);
    }

    pub(super) fn report_opened(&mut self, outcome: Outcome) {
        if let Some(opened) = self.opened.take() {
            self.completed.push((opened, outcome));
        }
    }
}
