//! The troubles of a connected history: connections are cut, clients and servers are slow, the server ends, its disk
//! fails or is full, the clock steps.

use delaymq_core::error::{Error, Result, StorageFault};
use delaymq_core::storage::Call;

use super::Connected;
use super::account::LinkId;
use crate::disk::End;

impl Connected {
    /// Something goes wrong, as often as the plan has it.
    pub(super) fn make_trouble(&mut self) -> Result<()> {
        if self.chance.percent(self.plan.crash_percent) || (self.is_poisoned && self.chance.percent(40)) {
            return self.crash();
        }
        if self.chance.percent(self.plan.disk_percent) {
            self.trouble_the_disk();
        }
        if self.plan.clock_steps && self.chance.percent(10) {
            self.step_the_clock();
        }
        if self.plan.switches && self.chance.percent(10) {
            self.switch_a_consumer()?;
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

    /// The next sync fails, or a write, or there is no room, or there is again.
    fn trouble_the_disk(&mut self) {
        let storage = self.disk.storage();
        let words = match self.chance.below(5) {
            0 => {
                storage.fail_call_of(Call::Sync, self.chance.below(3), StorageFault::Io);
                "a sync will fail"
            }
            1 => {
                storage.fail_call_of(Call::Write, self.chance.below(3), StorageFault::Io);
                "a write will fail"
            }
            2 => {
                storage.fail_call_of(Call::Read, self.chance.below(3), StorageFault::Io);
                "a read will fail"
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

    /// The wall clock is turned; the store looks at it before and after.
    fn step_the_clock(&mut self) {
        let before = self.clock.read();
        if let Some(node) = &mut self.node {
            node.look(before);
        }
        let by_ms = self.chance.one_of(&[1, 400, 4_000]);
        if self.chance.percent(50) {
            self.clock.step_back(by_ms);
        } else {
            self.clock.step_ahead(by_ms);
            self.ledger.time += by_ms;
        }
        self.note("the clock steps");
        let reading = self.clock.read();
        if let Some(node) = &mut self.node {
            node.look(reading);
        }
    }

    /// Time passes, seldom so much that a lease may end.
    pub(super) fn let_time_pass(&mut self) {
        let by_ms = self.chance.one_of(&[1, 15, 300, 2_000]);
        let by_ms = if self.chance.percent(6) { self.plan.lasting.lease_ms.min(25_000) } else { by_ms };
        self.advance(by_ms);
    }

    pub(super) fn advance(&mut self, by_ms: u64) {
        self.clock.advance(by_ms);
        self.ledger.time += by_ms;
    }

    fn switch_a_consumer(&mut self) -> Result<()> {
        let Some(consumer) = self.chance.pick(&self.consumers) else { return Ok(()) };
        let place = consumer.wants.place.clone();
        let on = self.chance.percent(60);
        let Some(server) = &mut self.server else { return Ok(()) };
        server.switch(&place.consumer, &place.of.0, &place.of.1, on)?;
        self.note(&format!("{} is switched: {on}", place.consumer));
        Ok(())
    }

    /// No disk fails any more, and whoever was switched off is on.
    pub(super) fn end_troubles(&mut self) -> Result<()> {
        self.disk.storage().set_capacity(u64::MAX);
        if self.plan.disk_percent > 0 {
            // Faults that are still to come do not outlive the machine.
            self.crash()?;
        }
        for consumer in &self.consumers {
            let place = &consumer.wants.place;
            if let Some(server) = &mut self.server {
                server.switch(&place.consumer, &place.of.0, &place.of.1, true)?;
            }
        }
        if let Some(node) = &mut self.node {
            node.release_clock();
            self.ledger.clock_released();
        }
        Ok(())
    }

    /// An error of the disk ends the store, or passes.
    ///
    /// # Errors
    /// What is none of the disk.
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
            self.ledger.counts.failed += 1;
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
        self.ledger.server_ended();
        for (id, link) in &mut self.links {
            link.cut_by_crash(&mut self.chance);
            link.paused = 0;
            self.account.link_lost(*id, self.plan.in_flight_max);
        }
        self.epoch_began = self.next_link;
        (self.node, self.is_poisoned) = (None, false);
        self.disk.crash(end, &mut self.chance);
        if end.cuts_power() {
            let off_ms = self.chance.one_of(&[0, 5, 4_000]);
            self.clock.restart_after(off_ms);
            self.ledger.time += off_ms;
            if self.plan.clock_steps && self.chance.percent(30) {
                self.clock.step_back(self.chance.one_of(&[1, 100, 20_000]));
            }
        }
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
        let now = self.now();
        for id in self.server.as_mut().map_or(Vec::new(), |server| server.tick(now)) {
            self.note(&format!("the server ends link {id}"));
            self.cut(id);
            self.leave(id)?;
        }
        for id in self.links.keys().copied().collect::<Vec<_>>() {
            let Some(link) = self.links.get(&id) else { continue };
            let is_known = self.server.as_ref().is_some_and(|server| server.has(id));
            if link.is_over_for_server() && is_known && self.chance.percent(30) {
                self.leave(id)?;
            }
            let Some(link) = self.links.get(&id) else { continue };
            let is_known = self.server.as_ref().is_some_and(|server| server.has(id));
            let consumer = self.consumers.iter_mut().find(|client| client.link() == Some(id));
            if let Some(consumer) = consumer {
                if link.is_over_for_client() && self.chance.percent(30) {
                    consumer.lost(&mut self.ledger, &mut self.chance);
                }
                continue;
            }
            let client = self.clients.iter_mut().find(|client| client.link() == Some(id));
            let has_client = client.is_some();
            if let Some(client) = client.filter(|_| link.is_over_for_client() && self.chance.percent(30)) {
                let again = self.chance.percent(70);
                client.lost(&mut self.account, link, id < self.epoch_began, again);
            } else if !has_client && link.is_cut() && !is_known {
                self.links.remove(&id);
            }
        }
        Ok(())
    }

    /// The server lets go of a connection.
    fn leave(&mut self, id: LinkId) -> Result<()> {
        let (Some(server), Some(node)) = (&mut self.server, &mut self.node) else { return Ok(()) };
        server.leave(node, id)
    }
}
