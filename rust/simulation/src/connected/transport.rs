//! Users act, and bytes move between them and the server.

use delaymq_core::error::Result;
use delaymq_core::wire::client::caller::CallerLimits;

use super::Connected;
use super::link::{Link, LinkId};
use super::users::User;

impl Connected {
    /// A user connects, or does something.
    pub(super) fn let_a_user_act(&mut self) {
        let index = usize::try_from(self.shared.chance.below(self.users.len() as u64)).unwrap_or(0);
        self.shared.now = self.now_of_clients();
        let acts_apart = self.users.get(index).is_some_and(|user| user.link().is_none() && user.may_act_apart());
        let stays_apart = acts_apart && self.shared.chance.percent(40);
        if !stays_apart && self.connect_if_apart(index, self.plan.caller_limits()) {
            return self.note_of(index, "connects");
        }
        loop {
            let Some(user) = self.users.get_mut(index).filter(|user| !user.is_dead()) else { return };
            let words = user.act(&mut self.shared);
            let goes_on = !user.is_of_qmq() && self.shared.chance.percent(50);
            self.note_of(index, words);
            if !goes_on {
                return;
            }
        }
    }

    fn note_of(&mut self, index: usize, words: &str) {
        let name = self.users.get(index).map(|user| user.name().to_owned()).unwrap_or_default();
        self.note(&format!("{name} {words}"));
    }

    /// Connects a user that has no connection. True if it did.
    fn connect_if_apart(&mut self, index: usize, limits: CallerLimits) -> bool {
        let now = self.now_of_server();
        let is_apart = |user: &&mut Box<dyn User>| !user.is_dead() && user.link().is_none();
        let Some(user) = self.users.get_mut(index).filter(is_apart) else { return false };
        let link = self.next_link;
        self.next_link += 1;
        self.links.insert(link, Link::default());
        if let Some(server) = &mut self.server {
            server.connected(link, now, user.is_of_qmq());
        }
        user.connect(&mut self.shared, link, limits);
        true
    }

    /// Bytes move on one link, each way.
    pub(super) fn carry_some(&mut self) -> Result<()> {
        let links: Vec<LinkId> = self.links.keys().copied().collect();
        let Some(link) = self.shared.chance.pick(&links).copied() else { return Ok(()) };
        if let Some(paused) = self.links.get_mut(&link).filter(|link| link.paused > 0) {
            paused.paused -= 1;
            return Ok(());
        }
        let most = self.plan.piece_bytes_max as u64;
        let pieces = [(); 4].map(|()| usize::try_from(self.shared.chance.between(0, most)).unwrap_or(0));
        self.carry(link, pieces)
    }

    /// Moves up to so many bytes out of the client, into the server, out of the server, and into the client.
    pub(super) fn carry(&mut self, id: LinkId, pieces: [usize; 4]) -> Result<()> {
        let now = self.now_of_server();
        let clock = self.clock.read();
        let [out_of_client, into_server, out_of_server, into_client] = pieces;
        let Some(link) = self.links.get_mut(&id) else { return Ok(()) };
        let (Some(server), Some(node)) = (&mut self.server, &mut self.node) else { return Ok(()) };
        let mut user = self.users.iter_mut().find(|user| user.link() == Some(id));
        if let Some(user) = &mut user {
            link.leave_client(&user.write(out_of_client));
        }
        link.reach_server(into_server, |bytes| server.receive(id, bytes, now));
        node.look(clock);
        let served = server.serve(node, id);
        self.hear_of_acceptance();
        served?;
        let Some(link) = self.links.get_mut(&id) else { return Ok(()) };
        let Some(server) = &mut self.server else { return Ok(()) };
        let mut user = self.users.iter_mut().find(|user| user.link() == Some(id));
        link.leave_server(&server.write(id, out_of_server, now));
        if let Some(user) = &mut user {
            link.reach_client(into_client, |bytes| user.receive(bytes));
            user.hear(&mut self.shared, link);
        }
        Ok(())
    }

    /// Every user takes a step towards its end.
    pub(super) fn finish(&mut self) {
        self.shared.now = self.now_of_clients();
        for index in 0..self.users.len() {
            if !self.connect_if_apart(index, CallerLimits::default())
                && let Some(user) = self.users.get_mut(index).filter(|user| !user.is_dead())
            {
                user.finish(&mut self.shared);
            }
        }
    }
}
