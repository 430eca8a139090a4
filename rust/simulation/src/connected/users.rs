//! Users of the server, each with one connection at a time.

use delaymq_core::units::Millis;
use delaymq_core::wire::client::caller::CallerLimits;

use super::account::Account;
use super::ledger::Ledger;
use super::link::{Link, LinkId};
use crate::chance::Chance;

/// What the users of a history share.
#[expect(clippy::struct_excessive_bools, reason = "each is something else that may be or not")]
pub(super) struct Shared {
    pub(super) account: Account,
    pub(super) ledger: Ledger,
    pub(super) chance: Chance,
    pub(super) now: Millis,
    pub(super) subjects: Vec<String>,
    pub(super) qmq_subjects: Vec<String>,
    pub(super) next_number: u64,
    /// Series may begin.
    pub(super) recurs: bool,
    /// Messages may be moved, and may have ids.
    pub(super) changes: bool,
    /// Messages have tags and attributes.
    pub(super) has_labels: bool,
    /// Own clients' messages may expire.
    pub(super) expires: bool,
    /// Clients look at the server's clock, and accept its steps.
    pub(super) accepts: bool,
    /// Percent of QMQ's messages whose check is wrong.
    pub(super) damaged_percent: u64,
}

impl Shared {
    /// A number that no message or series has yet.
    pub(super) fn new_number(&mut self) -> u64 {
        let number = self.next_number;
        self.next_number = number.saturating_add(1);
        number
    }

    /// True if nothing is wrong so far.
    pub(super) fn is_sound(&self) -> bool {
        self.account.violations().is_empty() && self.ledger.violations().is_empty()
    }

    /// What is wrong so far.
    pub(super) fn violations(&self) -> Vec<String> {
        [self.account.violations(), self.ledger.violations()].concat()
    }
}

/// See the module.
pub(super) trait User {
    /// Its name in the trace.
    fn name(&self) -> &str;

    /// Whether it speaks QMQ's protocol.
    fn is_of_qmq(&self) -> bool;

    /// True if it will do nothing more.
    fn is_dead(&self) -> bool {
        false
    }

    /// Its connection.
    fn link(&self) -> Option<LinkId>;

    /// True if it can do something without a connection.
    fn may_act_apart(&self) -> bool {
        false
    }

    /// Time passes.
    fn time_passed(&mut self, _by_ms: u64) {}

    /// Does what is due. True if it closes its connection.
    fn run_due(&mut self, _around: &mut Shared) -> bool {
        false
    }

    /// It has a new connection.
    fn connect(&mut self, around: &mut Shared, link: LinkId, limits: CallerLimits);

    /// Its connection is lost.
    fn lost(&mut self, around: &mut Shared);

    /// Up to so many bytes for the server.
    fn write(&mut self, count_max: usize) -> Vec<u8>;

    /// Takes bytes from the server. Returns how many it took.
    fn receive(&mut self, bytes: &[u8]) -> usize;

    /// Reads the frames that have arrived whole.
    fn hear(&mut self, around: &mut Shared, link: &Link);

    /// Does something. Returns what, for the trace.
    fn act(&mut self, around: &mut Shared) -> &'static str;

    /// Takes one step towards having received and finished all its messages.
    fn finish(&mut self, around: &mut Shared);

    /// True if it holds no message, and waits for nothing but messages.
    fn is_quiet(&self) -> bool;
}
