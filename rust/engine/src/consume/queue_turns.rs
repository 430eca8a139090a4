//! The turns of the queues of a subscription: how one pull asks many queues, so that each gets its share.

use delaymq_core::error::Result;
use delaymq_core::store::{LoadRequest, Pull, PullRequest};

use crate::consume::member::GroupConsumer;
use crate::consume::queues::{Turn, is_of_retries};
use crate::consume::subscription::{PullOutcome, Subscription};
use crate::drive::driver::LockedOwner;

/// Queues that are asked although there is no room, to find out whether their groups are gone.
const FULL_TURNS_MAX: usize = 2;

/// One look at the queues, as far as it has come.
#[derive(Default)]
struct Round {
    /// How many more messages there is room for.
    left: usize,
    asked: PullOutcome,
    /// Rows that must be read before their queues have messages.
    loads: Vec<LoadRequest>,
    /// The queues whose turns come first in the next pull: they had a turn and could not use it.
    next: Vec<u32>,
    /// The group of a subject is gone.
    is_gone: bool,
}

impl Round {
    fn is_over(&self, loads_max: usize) -> bool {
        self.is_gone || self.loads.len() >= loads_max
    }
}

impl Subscription {
    /// Asks the queues that may have messages, each for its share, in rounds, until there are enough.
    pub(crate) fn ask_queues(
        &self,
        locked: &mut LockedOwner,
        count_max: usize,
        loads_max: usize,
    ) -> Result<(PullOutcome, Vec<LoadRequest>)> {
        let member = &self.member;
        let (room, is_held_up) = self.room(locked, count_max);
        let mut round = Round { left: room, ..Round::default() };
        loop {
            let (waiting, share) = member.with_queues(|queues| (queues.waiting(), queues.share(round.left)));
            let turns = if round.left == 0 { waiting.min(FULL_TURNS_MAX) } else { waiting };
            if is_held_up && turns > 0 {
                round.asked = PullOutcome::Soon;
            }
            let left_before = round.left;
            // A queue that has nothing for now waits again behind this round.
            let mut later = Vec::new();
            for _ in 0..turns {
                let Some(turn) = member.take_turn() else { break };
                self.ask_queue(locked, turn, share, &mut round, &mut later)?;
                if (round.left == 0 && room > 0) || round.is_over(loads_max) {
                    break;
                }
            }
            for queue in later {
                member.wake(queue);
            }
            if round.left == left_before || round.left == 0 || round.is_over(loads_max) {
                break;
            }
        }
        // The next pull begins with these, in this order.
        for queue in round.next.iter().rev() {
            member.with_queues(|queues| queues.wake_first(*queue));
        }
        let is_gone = round.is_gone && !matches!(round.asked, PullOutcome::Assigned);
        Ok((if is_gone { PullOutcome::Gone } else { round.asked }, round.loads))
    }

    /// How many messages there is room for, and whether there is none because acknowledgements are not applied yet.
    fn room(&self, locked: &LockedOwner, count_max: usize) -> (usize, bool) {
        let member = &self.member;
        let room = member.room(count_max);
        let assigned_max = u64::from(member.assigned_max());
        if member.with_queues(|queues| queues.in_flight()).saturating_add(room as u64) <= assigned_max {
            return (room, false);
        }
        let owner = &locked.owner;
        member.with_queues(|queues| queues.look_again(|one| owner.in_flight(one.group, one.consumer)));
        let free = assigned_max.saturating_sub(member.with_queues(|queues| queues.in_flight()));
        (room.min(usize::try_from(free).unwrap_or(usize::MAX)), room > 0 && free == 0)
    }

    /// Asks one queue.
    fn ask_queue(
        &self,
        locked: &mut LockedOwner,
        turn: Turn,
        share: usize,
        round: &mut Round,
        later: &mut Vec<u32>,
    ) -> Result<()> {
        let Turn { queue, consuming: GroupConsumer { group, consumer }, elsewhere } = turn;
        let (count_max, in_flight_max) = (share.min(round.left), self.member.assigned_max());
        let request = PullRequest { group, consumer, count_max, in_flight_max, beside: elsewhere };
        match locked.owner.pull(request, &mut locked.proposals)? {
            Pull::Deliveries(deliveries) => {
                round.left = round.left.saturating_sub(deliveries.len());
                round.asked = PullOutcome::Assigned;
                self.member.assigned(queue, deliveries);
            }
            // Its turn is the first one when its rows are read.
            Pull::Load(load) => {
                round.loads.push(load);
                round.next.push(queue);
            }
            // With no room it says nothing about the queue.
            Pull::Soon | Pull::Wait if count_max == 0 => round.next.push(queue),
            Pull::Soon => {
                if matches!(round.asked, PullOutcome::Nothing) {
                    round.asked = PullOutcome::Soon;
                }
                later.push(queue);
            }
            Pull::Wait => {}
            Pull::Gone if is_of_retries(queue) => self.member.with_queues(|queues| queues.set_consuming(queue, None)),
            Pull::Gone => {
                round.is_gone = true;
                round.next.push(queue);
            }
        }
        Ok(())
    }
}
