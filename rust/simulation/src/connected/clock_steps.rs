//! Steps of the server's wall clock. Those that are too large to be believed hold dispatch, until an operator accepts
//! them or the server begins again.

use delaymq_core::clock::{Hold, STEP_AHEAD_MS_MAX};
use delaymq_core::units::Millis;

use super::Connected;

/// Steps that are not believed, in milliseconds.
const FAR_MS: [u64; 3] = [6_000, 9_000, 20_000];

impl Connected {
    /// The time of the clients, which is never ahead of the server's: they know nothing of a step that the server does
    /// not believe.
    pub(super) fn now_of_clients(&self) -> Millis {
        Millis(self.now().0.saturating_sub(self.unbelieved_ms))
    }

    /// The time by which the server measures how slow its clients are.
    pub(super) fn now_of_server(&self) -> Millis {
        self.node.as_ref().map_or_else(|| self.now(), |node| node.reading().now)
    }

    /// The wall clock is turned; the store looks at it before and after.
    pub(super) fn step_the_clock(&mut self) {
        self.look_at_the_clock();
        let trusted = self.node.as_ref().map_or(Millis(0), |node| node.reading().now);
        let is_behind = matches!(self.hold(), Some(Hold::BehindFloor { .. }));
        if self.plan.accepts && self.shared.chance.percent(60) {
            let by_ms = self.shared.chance.one_of(&FAR_MS);
            self.clock.step_ahead(by_ms);
            self.unbelieved_ms += by_ms;
        } else {
            let by_ms = self.shared.chance.one_of(&[1, 400, 4_000]);
            if self.shared.chance.percent(50) {
                self.clock.step_back(by_ms);
            } else {
                self.clock.step_ahead(by_ms);
                self.unbelieved_ms += by_ms;
                self.shared.ledger.time += by_ms;
            }
        }
        self.note("the clock steps");
        self.look_at_the_clock();
        let ahead_ms = self.now().since(trusted);
        if is_behind || ahead_ms <= STEP_AHEAD_MS_MAX {
            self.wall_is_believed();
        } else if ahead_ms == STEP_AHEAD_MS_MAX.saturating_add(1) {
            // The store knows parts of a millisecond, and may believe the step.
            self.wall_may_be_believed();
        }
    }

    fn look_at_the_clock(&mut self) {
        let reading = self.clock.read();
        if let Some(node) = &mut self.node {
            node.look(reading);
        }
    }

    /// Why dispatch is held.
    fn hold(&self) -> Option<Hold> {
        self.node.as_ref().and_then(|node| node.clock().held).map(|held| held.hold)
    }

    /// The server takes its time from the wall clock.
    pub(super) fn wall_is_believed(&mut self) {
        self.unbelieved_ms = 0;
        self.wall_may_be_believed();
    }

    fn wall_may_be_believed(&mut self) {
        let time = &mut self.shared.ledger.time;
        *time = (*time).max(self.clock.read().wall.0);
    }

    /// A step was accepted. Any lease may end.
    pub(super) fn hear_of_acceptance(&mut self) {
        if self.server.as_mut().is_some_and(super::Server::take_accepted) {
            self.note("a step of the clock is accepted");
            self.wall_is_believed();
            self.shared.ledger.clock_released();
        }
    }

    /// At the end: clients accept a step ahead. Nobody can accept a clock that is behind, which the kernel puts right.
    pub(super) fn end_hold(&mut self) {
        if self.plan.accepts && matches!(self.hold(), Some(Hold::SteppedAhead { .. })) {
            return;
        }
        if let Some(node) = &mut self.node {
            node.release_clock();
            self.wall_is_believed();
            self.shared.ledger.clock_released();
        }
    }
}
