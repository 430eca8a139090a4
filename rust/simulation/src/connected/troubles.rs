//! What befalls a connected history: connections are cut, clients and servers are slow, the server ends.

use delaymq_core::error::Result;

use super::Connected;
use super::account::LinkId;
use super::server::Server;
use crate::disk::End;

impl Connected {
    /// Something goes wrong, as often as the plan has it.
    pub(super) fn make_trouble(&mut self) -> Result<()> {
        if self.chance.percent(self.plan.crash_percent) {
            return self.crash();
        }
        let links: Vec<LinkId> = self.links.keys().copied().collect();
        let Some(id) = self.chance.pick(&links).copied() else { return Ok(()) };
        if self.chance.percent(self.plan.pause_percent) {
            let turns = self.chance.between(1, 60);
            if let Some(link) = self.links.get_mut(&id) {
                link.paused = turns;
            }
        }
        if self.chance.percent(self.plan.cut_percent) {
            self.note(&format!("link {id} is cut"));
            self.account.counts.cuts += 1;
            self.cut(id);
        }
        Ok(())
    }

    /// The connection is lost, and neither side knows it yet.
    fn cut(&mut self, id: LinkId) {
        if let Some(link) = self.links.get_mut(&id) {
            link.cut(&mut self.chance);
        }
        self.account.link_lost(id, self.plan.in_flight_max);
    }

    /// The server ends, and with it all connections; another one opens the store.
    fn crash(&mut self) -> Result<()> {
        let end = match self.chance.below(3) {
            _ if self.plan.is_os() => End::Kill,
            0 => End::Kill,
            1 => End::PowerCut,
            _ => End::PowerCutLosesAll,
        };
        self.note(&format!("the server ends: {end:?}"));
        self.account.counts.crashes += 1;
        for (id, link) in &mut self.links {
            link.cut_by_crash(&mut self.chance);
            link.paused = 0;
            self.account.link_lost(*id, self.plan.in_flight_max);
        }
        self.epoch_began = self.next_link;
        self.server = Server::new(self.plan.connection_limits);
        self.node = None;
        self.disk.crash(end, &mut self.chance);
        if end.cuts_power() {
            let off_ms = self.chance.one_of(&[0, 5, 4_000]);
            self.clock.restart_after(off_ms);
        }
        self.open()
    }

    /// Each side notices at some time that a connection is lost.
    pub(super) fn notice_ends(&mut self) -> Result<()> {
        let now = self.now();
        for id in self.server.tick(now) {
            self.note(&format!("the server ends link {id}"));
            self.cut(id);
            if let Some(node) = &mut self.node {
                self.server.leave(node, id)?;
            }
        }
        for id in self.links.keys().copied().collect::<Vec<_>>() {
            let Some(link) = self.links.get(&id) else { continue };
            if link.is_over_for_server()
                && self.server.has(id)
                && self.chance.percent(30)
                && let Some(node) = &mut self.node
            {
                self.server.leave(node, id)?;
            }
            let client = self.clients.iter_mut().find(|client| client.link() == Some(id));
            let has_client = client.is_some();
            if let Some(client) = client.filter(|_| link.is_over_for_client() && self.chance.percent(30)) {
                let again = self.chance.percent(70);
                client.lost(&mut self.account, link, id < self.epoch_began, again);
            } else if !has_client && link.is_cut() && !self.server.has(id) {
                self.links.remove(&id);
            }
        }
        Ok(())
    }
}
