//! Clients act, and bytes move between them and the server.

use delaymq_core::error::Result;
use delaymq_core::wire::client::caller::CallerLimits;

use super::account::LinkId;
use super::link::Link;
use super::{Connected, client, qmq};

impl Connected {
    /// A client connects, or does something.
    pub(super) fn let_a_client_act(&mut self) {
        let all = self.clients.len().saturating_add(self.consumers.len());
        let index = usize::try_from(self.chance.below(all as u64)).unwrap_or(0);
        if index >= self.clients.len() {
            return self.let_a_consumer_act(index.saturating_sub(self.clients.len()));
        }
        let now = self.now();
        let is_new = self.clients.get(index).is_some_and(|client| client.link().is_none());
        let link = is_new.then(|| self.connect(false));
        let Some(client) = self.clients.get_mut(index) else { return };
        let words = if let Some(link) = link {
            client.connect(link, self.plan.caller_limits());
            "connects"
        } else {
            client.act(&mut client::Surroundings {
                account: &mut self.account,
                chance: &mut self.chance,
                now,
                subjects: &self.subjects,
                next_number: &mut self.next_number,
                recurs: self.plan.recurs,
                changes: self.plan.changes,
            })
        };
        self.note(&format!("client {index} {words}"));
    }

    fn let_a_consumer_act(&mut self, index: usize) {
        let now = self.now();
        let Some(consumer) = self.consumers.get(index).filter(|consumer| !consumer.is_dead) else { return };
        let link = consumer.link().is_none().then(|| self.connect(true));
        let Some(consumer) = self.consumers.get_mut(index) else { return };
        let words = if let Some(link) = link {
            consumer.connect(link);
            "connects"
        } else {
            consumer.act(&mut qmq::QmqSurroundings {
                ledger: &mut self.ledger,
                chance: &mut self.chance,
                now: now.0,
                subjects: &self.qmq_subjects,
                next_number: &mut self.next_number,
                damaged_percent: self.plan.damaged_percent,
            })
        };
        self.note(&format!("consumer {index} {words}"));
    }

    /// A connection between a client and the server.
    fn connect(&mut self, is_of_qmq: bool) -> LinkId {
        let link = self.next_link;
        self.next_link += 1;
        self.links.insert(link, Link::default());
        let now = self.now();
        if let Some(server) = &mut self.server {
            server.connected(link, now, is_of_qmq);
        }
        link
    }

    /// Bytes move on one link, each way.
    pub(super) fn carry_some(&mut self) -> Result<()> {
        let links: Vec<LinkId> = self.links.keys().copied().collect();
        let Some(link) = self.chance.pick(&links).copied() else { return Ok(()) };
        if let Some(paused) = self.links.get_mut(&link).filter(|link| link.paused > 0) {
            paused.paused -= 1;
            return Ok(());
        }
        let most = self.plan.piece_bytes_max as u64;
        let pieces = [(); 4].map(|()| usize::try_from(self.chance.between(0, most)).unwrap_or(0));
        self.carry(link, pieces)
    }

    /// Moves up to so many bytes out of the client, into the server, out of it, into the client.
    pub(super) fn carry(&mut self, id: LinkId, pieces: [usize; 4]) -> Result<()> {
        let now = self.now();
        let clock = self.clock.read();
        let [out_of_client, into_server, out_of_server, into_client] = pieces;
        let Some(link) = self.links.get_mut(&id) else { return Ok(()) };
        let (Some(server), Some(node)) = (&mut self.server, &mut self.node) else { return Ok(()) };
        let mut client = self.clients.iter_mut().find(|client| client.link() == Some(id));
        let mut consumer = self.consumers.iter_mut().find(|client| client.link() == Some(id));
        if let Some(client) = &mut client {
            link.leave_client(&client.write(out_of_client));
        } else if let Some(consumer) = &mut consumer {
            link.leave_client(&consumer.write(out_of_client));
        }
        link.reach_server(into_server, |bytes| server.receive(id, bytes, now));
        node.look(clock);
        server.serve(node, id)?;
        link.leave_server(&server.write(id, out_of_server, now));
        if let Some(client) = &mut client {
            link.reach_client(into_client, |bytes| client.receive(bytes));
            client.hear(&mut self.account, link, self.ledger.time);
        } else if let Some(consumer) = &mut consumer {
            link.reach_client(into_client, |bytes| consumer.receive(bytes));
            consumer.hear(&mut self.ledger);
        }
        Ok(())
    }

    /// Every client takes a step towards its end.
    pub(super) fn finish(&mut self) {
        let now = self.now();
        for index in 0..self.clients.len() {
            let is_new = self.clients.get(index).is_some_and(|client| client.link().is_none());
            let link = is_new.then(|| self.connect(false));
            let Some(client) = self.clients.get_mut(index) else { continue };
            if let Some(link) = link {
                client.connect(link, CallerLimits::default());
                continue;
            }
            client.finish(&mut client::Surroundings {
                account: &mut self.account,
                chance: &mut self.chance,
                now,
                subjects: &self.subjects,
                next_number: &mut self.next_number,
                recurs: false,
                changes: false,
            });
        }
        for index in 0..self.consumers.len() {
            let Some(consumer) = self.consumers.get(index).filter(|consumer| !consumer.is_dead) else { continue };
            let link = consumer.link().is_none().then(|| self.connect(true));
            let Some(consumer) = self.consumers.get_mut(index) else { continue };
            if let Some(link) = link {
                consumer.connect(link);
                continue;
            }
            consumer.finish(&mut qmq::QmqSurroundings {
                ledger: &mut self.ledger,
                chance: &mut self.chance,
                now: now.0,
                subjects: &self.qmq_subjects,
                next_number: &mut self.next_number,
                damaged_percent: 0,
            });
        }
    }
}
