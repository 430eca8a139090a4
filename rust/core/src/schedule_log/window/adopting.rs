//! Adopts loaded runs: a run that another program wrote becomes a window of its own, without its rows being
//! read.

use std::sync::Arc;

use super::bits::TwoBits;
use super::{Body, Window};
use crate::error::{Error, Result};
use crate::run::{Patches, Run};
use crate::schedule_log::count::ended::Ended;
use crate::schedule_log::schedule::Schedule;
use crate::units::{Millis, Sequence};

impl Schedule {
    /// Takes in all rows of an adopted run, as pending. Its first sequence is [`Self::next_sequence`], and it
    /// has every sequence up to its last. The open window is closed before it, as in a freeze, and another
    /// one begins after it. The index of due times is finest around `now`.
    ///
    /// The feed must be notified ([`crate::schedule_log::Feed::go_back_before`]).
    ///
    /// # Errors
    /// `InvalidArgument` if the run does not begin there, or leaves sequences out.
    pub fn adopt(&mut self, run: Arc<Run>, now: Millis) -> Result<()> {
        let (first, rows) = (self.next_sequence(), run.row_count());
        let found = (run.first_sequence(), run.last_sequence().next());
        if found != (first, first.plus(rows)) || rows == 0 {
            return Err(Error::InvalidArgument {
                argument: "run",
                expected: format!("{rows} rows from sequence {first} on"),
                found: format!("rows from {} up to {}", found.0, found.1),
            });
        }
        self.close_open(now);
        let body = Body::Run { run, patches: Patches::new() };
        let bits = TwoBits::all_pending(first, rows);
        self.windows.push(Window { bits, pending: rows, body, origin_until: Sequence(0), ended: Ended::none() });
        self.open_bits = TwoBits::new(first.plus(rows));
        self.pending = self.pending.saturating_add(rows);
        Ok(())
    }
}
