//! The troubles of a connected history: connections are cut, clients and servers are slow, the server ends, its disk
//! fails or is full, the clock steps.

use delaymq_core::error::{Error, Result, StorageFault};
use delaymq_core::storage::Call;

use super::Connected;
use super::link::{Link, LinkId};
use crate::disk::End;

impl Connected {
    /// Something goes wrong, as often as the plan has it.
    pub(super) fn make_trouble(&mut self) -> Result<()> {
        if self.shared.chance.percent(self.plan.crash_percent) || (self.is_poisoned && self.shared.chance.percent(40)) {
            return self.crash();
        }
        if self.shared.chance.percent(self.plan.disk_percent) {
            self.trouble_the_disk();
        }
        if self.plan.clock_steps && self.shared.chance.percent(if self.plan.accepts { 30 } else { 10 }) {
            self.step_the_clock();
        }
        if self.plan.switches && self.shared.chance.percent(10) {
            self.switch_a_consumer()?;
        }
        let links: Vec<LinkId> = self.links.keys().copied().collect();
        let Some(id) = self.shared.chance.pick(&links).copied() else { return Ok(()) };
        if self.shared.chance.percent(self.plan.pause_percent) {
            let turns = self.shared.chance.between(1, 60);
            if let Some(link) = self.links.get_mut(&id) {
                link.paused = turns;
            }
        }
        if self.shared.chance.percent(self.plan.cut_percent) {
            self.note(&format!("link {id} is cut"));
            self.shared.account.counts.cuts += 1;
            self.cut(id);
        }
        Ok(())
    }

    /// A sync, a write or a read will fail, or the disk is full, or it has room again.
    fn trouble_the_disk(&mut self) {
        let storage = self.disk.storage();
        let kind = self.shared.chance.below(5);
        let words = match kind {
            0..3 => {
                let (call, words) = match kind {
                    0 => (Call::Sync, "a sync will fail"),
                    1 => (Call::Write, "a write will fail"),
                    _ => (Call::Read, "a read will fail"),
                };
                storage.fail_call_of(call, self.shared.chance.below(3), StorageFault::Io);
                words
            }
            3 => {
                storage.set_capacity(self.disk.used_bytes());
                "the disk is full"
            }
            _ => {
                storage.set_capacity(u64::MAX);
                "the disk has room"
            }
        };
        self.note(words);
    }

    /// Time passes, seldom so much that a lease may end.
    pub(super) fn let_time_pass(&mut self) {
        let by_ms = self.shared.chance.one_of(&[1, 15, 300, 2_000]);
        let by_ms = if self.shared.chance.percent(6) { self.plan.lasting.lease_ms.min(25_000) } else { by_ms };
        self.advance(by_ms);
    }

    pub(super) fn advance(&mut self, by_ms: u64) {
        self.clock.advance(by_ms);
        self.users.iter_mut().for_each(|user| user.time_passed(by_ms));
        self.shared.ledger.time += by_ms;
    }

    fn switch_a_consumer(&mut self) -> Result<()> {
        let Some(place) = self.shared.chance.pick(&self.places).cloned() else { return Ok(()) };
        let on = self.shared.chance.percent(60);
        let Some(server) = &mut self.server else { return Ok(()) };
        server.switch(&place.consumer, &place.of.0, &place.of.1, on)?;
        self.note(&format!("{} is switched: {on}", place.consumer));
        Ok(())
    }

    /// Ends the faults of the disk, and switches all consumers on.
    pub(super) fn end_troubles(&mut self) -> Result<()> {
        self.disk.storage().set_capacity(u64::MAX);
        if self.plan.disk_percent > 0 {
            // A crash drops the faults that are still to come.
            self.crash()?;
        }
        for place in &self.places {
            if let Some(server) = &mut self.server {
                server.switch(&place.consumer, &place.of.0, &place.of.1, true)?;
            }
        }
        self.end_hold();
        Ok(())
    }

    /// Bears an error of the disk, which may have ended the store. Returns any other error.
    pub(super) fn bear(&mut self, error: Error) -> Result<()> {
        if self.plan.disk_percent == 0
            || !matches!(error, Error::Storage { .. } | Error::DiskFull | Error::Poisoned { .. })
        {
            return Err(error);
        }
        let is_poisoned = self.node.as_ref().is_none_or(|node| node.commits().poison().is_some());
        if is_poisoned && !self.is_poisoned {
            self.note("the store has ended");
            self.is_poisoned = true;
            self.shared.ledger.counts.failed += 1;
        }
        Ok(())
    }

    /// Cuts a connection. Neither side has noticed yet.
    fn cut(&mut self, id: LinkId) {
        if let Some(link) = self.links.get_mut(&id) {
            link.cut(&mut self.shared.chance);
        }
        self.shared.account.link_lost(id, self.plan.in_flight_max);
    }

    /// Ends the server and all connections. Another server opens the store.
    fn crash(&mut self) -> Result<()> {
        let end = match self.shared.chance.below(3) {
            _ if self.plan.is_os() => End::Kill,
            0 => End::Kill,
            1 => End::PowerCut,
            _ => End::PowerCutLosesAll,
        };
        self.note(&format!("the server ends: {end:?}"));
        self.shared.account.counts.crashes += 1;
        self.shared.ledger.server_ended();
        for (id, link) in &mut self.links {
            link.cut_by_crash(&mut self.shared.chance);
            link.paused = 0;
            self.shared.account.link_lost(*id, self.plan.in_flight_max);
        }
        (self.node, self.is_poisoned) = (None, false);
        self.disk.crash(end, &mut self.shared.chance);
        if end.cuts_power() {
            let off_ms = self.shared.chance.one_of(&[0, 5, 4_000]);
            self.clock.restart_after(off_ms);
            self.users.iter_mut().for_each(|user| user.time_passed(off_ms));
            self.shared.ledger.time += off_ms;
            if self.plan.clock_steps && self.shared.chance.percent(30) {
                self.clock.step_back(self.shared.chance.one_of(&[1, 100, 20_000]));
            }
        }
        // The clock of another server begins with the wall's time.
        self.wall_is_believed();
        match self.open() {
            Err(error) if error.is_no_space() => {
                self.disk.storage().set_capacity(u64::MAX);
                self.open()
            }
            opened => opened,
        }
    }

    /// Each side notices at some time that a connection is lost.
    pub(super) fn notice_ends(&mut self) -> Result<()> {
        let now = self.now_of_server();
        for id in self.server.as_mut().map_or(Vec::new(), |server| server.tick(now)) {
            self.note(&format!("the server ends link {id}"));
            self.cut(id);
            self.leave(id)?;
        }
        for id in self.links.keys().copied().collect::<Vec<_>>() {
            let is_over = self.links.get(&id).is_some_and(Link::is_over_for_server);
            if is_over && self.server_has(id) && self.shared.chance.percent(30) {
                self.leave(id)?;
            }
            let is_known = self.server_has(id);
            let Some(link) = self.links.get(&id) else { continue };
            let user = self.users.iter_mut().find(|user| user.link() == Some(id));
            if let Some(user) = user {
                let closes = user.run_due(&mut self.shared);
                if closes || link.is_over_for_client() && self.shared.chance.percent(30) {
                    user.lost(&mut self.shared);
                    self.cut(id);
                }
            } else if link.is_cut() && !is_known {
                self.links.remove(&id);
            }
        }
        Ok(())
    }

    fn server_has(&self, id: LinkId) -> bool {
        self.server.as_ref().is_some_and(|server| server.has(id))
    }

    /// The server closes a connection.
    fn leave(&mut self, id: LinkId) -> Result<()> {
        let (Some(server), Some(node)) = (&mut self.server, &mut self.node) else { return Ok(()) };
        server.leave(node, id)
    }
}
