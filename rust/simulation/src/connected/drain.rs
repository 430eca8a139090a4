//! The end of a history: no more troubles, and all messages are consumed.

use delaymq_core::error::Result;

use super::Connected;
use super::link::Link;

/// Turns in which everything must have come to its end.
const LAST_TURNS_MAX: u64 = 3_000;
/// Quiet turns after which nothing more comes.
const QUIET_TURNS: u64 = 12;
/// Bytes that a last turn moves at once.
const LAST_PIECE: usize = 1 << 20;

impl Connected {
    /// Goes on without troubles until nothing more comes.
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
        let users: Vec<&str> = self.users.iter().filter(|user| !user.is_quiet()).map(|user| user.name()).collect();
        let words = format!(
            "nothing comes to its end in {LAST_TURNS_MAX} turns: server and leases {quiet:?}, links {links}, \
             busy are {users:?}"
        );
        self.shared.account.blame(words);
        Ok(())
    }

    /// Judges what own clients were given, and the dead letters that an operator sees.
    pub(super) fn judge_the_end(&mut self) -> Result<()> {
        let groups = self.plan.groups_of_subjects();
        let now = self.node()?.reading().now;
        self.shared.account.judge_the_end(&groups, now);
        for (subject, group) in &groups {
            let Some(node) = &self.node else { continue };
            let queue = node.dead_letter_queue(subject, group);
            let letters = queue.map_or(Ok(Vec::new()), |queue| node.dead_letters(queue))?;
            self.shared.account.dead_letters_seen((subject, group), &letters, now);
        }
        Ok(())
    }

    fn is_quiet(&self) -> bool {
        let pending = self.node.as_ref().map_or(0, |node| node.owner().state().schedule.pending());
        pending == 0
            && self.server.as_ref().is_some_and(super::Server::is_quiet)
            && self.links.values().all(Link::is_quiet)
            && self.users.iter().all(|user| user.is_quiet())
    }

    /// True while a consumer that a client named holds messages, which must end with its lease.
    fn waits_for_leases(&self) -> bool {
        let groups = self.node.iter().flat_map(|node| node.owner().state().groups.values());
        groups.flat_map(|group| group.consumers.values()).any(|one| one.is_lasting && !one.held.is_empty())
    }
}
