//! An operator who looks at the server's clock, and accepts the step that holds dispatch.

use delaymq_core::clock::{Hold, STEP_TOLD_MS_MIN};
use delaymq_core::wire::extension::clock::ClockTold;
use delaymq_core::wire::extension::{ACCEPT_CLOCK, CLOCK};
use delaymq_core::wire::reader::Reader;

use super::{Call, Client, Repeats};
use crate::connected::account::Account;
use crate::connected::users::Shared;

impl Client {
    /// Accepts the step that it saw, or looks at the clock.
    pub(super) fn look_at_the_clock(&mut self, around: &mut Shared) -> &'static str {
        if self.calls.values().any(|asked| matches!(asked.call, Call::Clock | Call::Accept(_))) {
            return "waits";
        }
        let Some(ahead_ms) = self.clock_ahead_ms.take() else {
            return self.ask(around, CLOCK, Repeats::Reads, Call::Clock, |_| Ok(()));
        };
        self.ask(around, ACCEPT_CLOCK, Repeats::Never, Call::Accept(ahead_ms), |out| {
            out.extend_from_slice(&ahead_ms.to_be_bytes());
            Ok(())
        })
    }

    pub(super) fn clock_told(&mut self, account: &mut Account, body: &[u8]) {
        let report = match ClockTold::read(body) {
            Ok(told) if told.0.now <= account.now => told.0,
            other => return account.blame(format!("the clock is {other:?}, and not after {}", account.now)),
        };
        self.is_clock_right = report.held.is_none();
        let stepped = report.held.filter(|held| matches!(held.hold, Hold::SteppedAhead { .. }));
        self.clock_ahead_ms = stepped.and_then(|held| u64::try_from(held.ahead_ms).ok());
    }

    /// The answer says how far the server's clock went ahead.
    pub(super) fn clock_accepted(account: &mut Account, asked_ms: u64, body: &[u8]) {
        match Reader::new(body).u64("ahead_ms") {
            Ok(by_ms) if by_ms.abs_diff(asked_ms) < STEP_TOLD_MS_MIN => account.counts.accepted += 1,
            other => account.blame(format!("{other:?} is accepted, and {asked_ms} was asked for")),
        }
    }
}
