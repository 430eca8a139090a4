//! The end of a history: no more troubles, and everything comes to its end.

use delaymq_core::error::Result;

use super::Connected;
use super::client::Client;
use super::link::Link;
use super::qmq::QmqClient;

/// Turns in which everything must have come to its end.
const LAST_TURNS_MAX: u64 = 3_000;
/// So many turns without anything mean that nothing more comes.
const QUIET_TURNS: u64 = 12;
/// Bytes that a last turn moves at once.
const LAST_PIECE: usize = 1 << 20;

impl Connected {
    /// With no more trouble, everything comes to its end.
    pub(super) fn come_to_rest(&mut self) -> Result<()> {
        self.end_troubles()?;
        if self.plan.recurs {
            self.catch_up_with_series()?;
        }
        let mut quiet = 0;
        for _ in 0..LAST_TURNS_MAX {
            if self.plan.recurs {
                self.end_all_series()?;
            }
            self.finish();
            for link in self.links.keys().copied().collect::<Vec<_>>() {
                self.carry(link, [LAST_PIECE; 4])?;
            }
            self.settle()?;
            self.node()?.step(1_000)?;
            self.settle()?;
            self.follow()?;
            self.notice_ends()?;
            let is_quiet = self.is_quiet();
            let by_ms = if is_quiet && self.waits_for_leases() { 2_000 } else { 200 };
            self.advance(by_ms);
            quiet = if is_quiet && !self.waits_for_leases() { quiet + 1 } else { 0 };
            if quiet >= QUIET_TURNS || !self.is_sound() {
                return Ok(());
            }
        }
        let quiet = (self.server.as_ref().is_some_and(super::Server::is_quiet), self.waits_for_leases());
        let links = self.links.values().all(Link::is_quiet);
        let clients: Vec<bool> = self.clients.iter().map(Client::is_quiet).collect();
        let consumers: Vec<bool> = self.consumers.iter().map(QmqClient::is_quiet).collect();
        self.account.blame(format!(
            "nothing comes to its end in {LAST_TURNS_MAX} turns: server and leases {quiet:?}, links {links}, \
             clients {clients:?}, consumers {consumers:?}"
        ));
        Ok(())
    }

    fn is_quiet(&self) -> bool {
        let pending = self.node.as_ref().map_or(0, |node| node.owner().state().schedule.pending());
        pending == 0
            && self.server.as_ref().is_some_and(super::Server::is_quiet)
            && self.links.values().all(Link::is_quiet)
            && self.clients.iter().all(Client::is_quiet)
            && self.consumers.iter().all(QmqClient::is_quiet)
    }

    /// True while a client's consumer holds something, which must end with its lease.
    fn waits_for_leases(&self) -> bool {
        let groups = self.node.iter().flat_map(|node| node.owner().state().groups.values());
        groups.flat_map(|group| group.consumers.values()).any(|one| one.is_lasting && !one.held.is_empty())
    }
}
