//! The timers of a session: it sends settlements, asks for their durability, passes on what is held for too long, and
//! finds out whether the server lives.

use bytes::Bytes;
use delaymq_core::wire::extension::PING;

use crate::failure::{Failure, Kind};
use crate::session::Session;
use crate::session::request::Request;
use crate::session::requests::Purpose;
use crate::session::subscription::SubscriptionState;
use crate::session::timers::Timer;

impl<W> Session<W> {
    /// When [`Self::run_due`] is to be called.
    pub fn next_due_ms(&self) -> Option<u64> {
        self.timers.next_ms()
    }

    /// Runs what is due.
    ///
    /// # Errors
    /// The server is silent, or is not the primary: close the connection, then call [`Self::lost`] or
    /// [`Self::lost_one`].
    pub fn run_due(&mut self, now_ms: u64) -> Result<(), Failure> {
        for timer in self.timers.take_due(now_ms) {
            match timer {
                Timer::Hello => {
                    let (node, hello) = (&self.requests.node, seconds(self.options.hello_ms));
                    let words = format!("{node} took the connection and said nothing within {hello} s");
                    return Err(Failure::new(Kind::TimedOut, words));
                }
                Timer::Ping => self.check_liveness(now_ms)?,
                Timer::Settle => {
                    for id in std::mem::take(&mut self.dirty) {
                        self.with_subscription(id, now_ms, SubscriptionState::push_settled);
                    }
                }
                Timer::Confirm => {
                    self.subscriptions.values_mut().for_each(|state| state.confirm(&mut self.requests));
                }
                Timer::PassOn => self.pass_on(now_ms),
                Timer::Leave => {
                    if let Some(error) = self.requests.not_primary.clone() {
                        return Err(error.into());
                    }
                }
                // The request of any other one without a number is in progress.
                Timer::Resubscribe => {
                    for id in std::mem::take(&mut self.refused) {
                        self.resubscribe(id, now_ms);
                    }
                }
            }
        }
        self.advance(now_ms);
        Ok(())
    }

    fn check_liveness(&mut self, now_ms: u64) -> Result<(), Failure> {
        let silent_ms = now_ms.saturating_sub(self.heard_ms);
        let ping_ms = self.options.ping_ms;
        if self.is_pinged && silent_ms >= self.options.silence_ms {
            let words = format!("{} said nothing for {} s", self.requests.node, silent_ms / 1_000);
            return Err(Failure::new(Kind::TimedOut, words));
        }
        self.is_pinged = silent_ms >= ping_ms;
        // A client that only receives must send as well: the server disconnects subscribers that are silent.
        if self.is_pinged || now_ms.saturating_sub(self.requests.last_sent_ms) >= ping_ms {
            self.requests.add_of_connection(Request::new(PING, Bytes::new()), Purpose::Nothing);
        }
        self.timers.set(Timer::Ping, now_ms.saturating_add(ping_ms / 2));
        Ok(())
    }
}

/// Milliseconds as seconds: 10, or 0.2.
fn seconds(ms: u64) -> String {
    let text = format!("{}.{:03}", ms / 1_000, ms % 1_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
