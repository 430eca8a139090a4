//! Pulls whose consumer has filters. The owner offers ready messages, which still belong to nobody. The caller reads and
//! judges them without a lock. Then the owner assigns those that pass, under dense offsets, and finishes the others for
//! the group, in one submission. Messages that others were given meanwhile are left out: whose proposal comes first
//! decides, as in every race.

use std::sync::Arc;

use super::load_request::LoadRequest;
use super::proposals::Proposals;
use super::pull::{Deciding, Delivery, GroupDeciding, PullRequest};
use super::views::Views;
use crate::error::Result;
use crate::planted::{Planted, is_on};
use crate::queues::Group;
use crate::record::queue::{encode_assign, encode_pass_over, ranges_of};
use crate::schedule_log::Entry;
use crate::storage::Storage;
use crate::store::owner::Owner;
use crate::store::state::State;
use crate::units::{ConsumerNumber, ReadyNumber};

/// How many numbers are reserved ahead of the cursor for a consumer with filters, in addition to those in flight: most of
/// them are passed over.
const NUMBERS_AHEAD: u64 = 1 << 14;
/// The room of a second fact in the submission, in ranges.
const FACT_RANGES: usize = 8;

/// A ready message that filters may judge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// The message's number in its subject.
    pub number: ReadyNumber,
    /// The entry: where the payload is, the due time and the subject.
    pub entry: Entry,
}

/// The messages that a consumer's filters may judge.
#[derive(Debug)]
pub enum Offer {
    /// Messages, in the order in which the group receives them; at least one. They belong to nobody yet.
    Candidates(Vec<Candidate>),
    /// No message now. The group is woken when there may be one.
    Wait,
    /// Postings must be read first, outside any lock: see [`LoadRequest`].
    Load(LoadRequest),
    /// The group or the consumer is gone.
    Gone,
}

/// The result of judging candidates.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct JudgedPull {
    /// Those that passed and are assigned, in order.
    pub deliveries: Vec<Delivery>,
    /// How many did not pass and are finished for the group.
    pub passed_over: usize,
    /// True if a message that passes must wait for room under the consumer's bound, or for a reserve. It and those after
    /// it are judged again later.
    pub is_held_up: bool,
}

impl Owner {
    /// Offers up to `count_max` ready messages to be judged. Nothing is decided by this.
    ///
    /// # Errors
    /// `Corrupt` if the views lack an unfinished message: the store must stop.
    pub fn offer(&mut self, request: PullRequest, proposals: &mut Proposals) -> Result<Offer> {
        let numbers_max = self.options.assign_fact_numbers().saturating_sub(FACT_RANGES).max(1);
        let request = PullRequest { count_max: request.count_max.min(numbers_max), ..request };
        self.deciding.offer((&self.effects.storage, &self.state), request, proposals)
    }

    /// Takes judged candidates of one offer, each with whether it passes: assigns up to `count_max` of those that pass,
    /// and finishes those that do not, up to the first that passes and has no room. `None` if the group or the consumer
    /// is gone.
    pub fn assign_judged(
        &mut self,
        request: PullRequest,
        judged: &[(Candidate, bool)],
        proposals: &mut Proposals,
    ) -> Option<JudgedPull> {
        self.deciding.assign_judged(&self.state, request, judged, proposals)
    }
}

impl Deciding {
    fn offer(
        &mut self,
        (storage, state): (&Arc<dyn Storage>, &State),
        request: PullRequest,
        proposals: &mut Proposals,
    ) -> Result<Offer> {
        let Some((group, consumer)) = self.pulling(state, request) else { return Ok(Offer::Gone) };
        let Self { groups, loaded, reading } = self;
        let deciding = groups.entry(request.group).or_default();
        deciding.catch_up(group, consumer);
        deciding.propose_reserve(group, consumer, request, numbers_ahead(request), proposals);
        let mut found = Vec::new();
        loaded.pass(group, deciding.cursor);
        let views = Views { storage, state, loaded, reading };
        let cursor = deciding.cursor;
        let load = deciding.collect(views, group, (request.count_max, ReadyNumber(u64::MAX)), &mut found)?;
        // Nothing of it is decided: the next offer may have the same messages.
        deciding.cursor = cursor;
        if let Some(load) = load {
            return Ok(Offer::Load(load));
        }
        let candidates: Vec<Candidate> =
            found.into_iter().map(|(number, entry, _)| Candidate { number, entry }).collect();
        Ok(if candidates.is_empty() { Offer::Wait } else { Offer::Candidates(candidates) })
    }

    fn assign_judged(
        &mut self,
        state: &State,
        request: PullRequest,
        judged: &[(Candidate, bool)],
        proposals: &mut Proposals,
    ) -> Option<JudgedPull> {
        let (group, consumer) = self.pulling(state, request)?;
        let deciding = self.groups.entry(request.group).or_default();
        deciding.catch_up(group, consumer);
        let room = deciding.room(consumer, request);
        let mut taken = Taken::default();
        for (candidate, passes) in judged {
            let passes = *passes || is_on(Planted::FilteredAssigned);
            if !deciding.take_judged(group, (*candidate, passes), (room, request.count_max), &mut taken) {
                break;
            }
        }
        let pulled = deciding.propose_judged(group, request.consumer, &taken, proposals);
        deciding.propose_reserve(group, consumer, request, numbers_ahead(request), proposals);
        Some(pulled)
    }
}

/// The judged candidates that are taken.
#[derive(Default)]
struct Taken {
    assigned: Vec<(ReadyNumber, Entry, u32)>,
    passed_over: Vec<u64>,
    is_held_up: bool,
}

fn numbers_ahead(request: PullRequest) -> u64 {
    u64::from(request.in_flight_max).saturating_add(NUMBERS_AHEAD)
}

impl GroupDeciding {
    /// Takes one candidate if it still belongs to nobody. False if it and those after it must wait.
    fn take_judged(
        &mut self,
        group: &Group,
        (Candidate { number, entry }, passes): (Candidate, bool),
        (room, count_max): (usize, usize),
        taken: &mut Taken,
    ) -> bool {
        let returned = group.returned.get(&number).copied();
        if returned.is_some() && !self.is_open(group, number) {
            return true;
        }
        if returned.is_none() {
            let cursor = self.next_open(group, number);
            if cursor > number && !is_on(Planted::JudgedTwice) {
                // Another consumer was given it, or it is finished.
                return true;
            }
            if cursor < number {
                return false;
            }
        }
        if passes {
            if taken.assigned.len() >= count_max {
                return false;
            }
            let is_reserved = returned.is_some() || number < group.reserved_number;
            if taken.assigned.len() >= room || !is_reserved {
                taken.is_held_up = true;
                return false;
            }
            let first = if number < group.marked_below { 2 } else { 1 };
            taken.assigned.push((number, entry, returned.map_or(first, |before| before.saturating_add(1))));
        } else {
            taken.passed_over.push(number.0);
        }
        match returned {
            Some(_) => {
                self.finishing.extend((!passes).then_some(number));
            }
            None => self.cursor = number.next(),
        }
        true
    }

    /// The cursor, once it has passed what is finished before this number.
    fn next_open(&mut self, group: &Group, number: ReadyNumber) -> ReadyNumber {
        self.cursor = self.cursor.max(ReadyNumber(group.done.below()));
        while self.cursor <= number && (group.done.contains(self.cursor.0) || self.finishing.contains(&self.cursor)) {
            self.cursor = ReadyNumber(group.done.end_from(self.cursor.0)).max(self.cursor.next());
        }
        self.cursor
    }

    /// Proposes the facts. Those that do not pass come first: an assignment moves the cursor of the group past them.
    fn propose_judged(
        &mut self,
        group: &Group,
        consumer: ConsumerNumber,
        taken: &Taken,
        proposals: &mut Proposals,
    ) -> JudgedPull {
        let Taken { assigned, passed_over, is_held_up } = taken;
        let mut finished = passed_over.clone();
        if is_on(Planted::PassingPassedOver) && !finished.is_empty() {
            finished.extend(assigned.last().map(|(number, ..)| number.0));
        }
        finished.sort_unstable();
        let is_passed_over = !finished.is_empty();
        let deliveries = self.deliveries(group, consumer, assigned);
        let first = deliveries.first().map(|delivery| delivery.offset);
        let count = u32::from(is_passed_over).saturating_add(u32::from(first.is_some()));
        if count > 0 {
            proposals.push(count, false, |bytes| {
                if is_passed_over {
                    encode_pass_over(bytes, group.number, consumer, &ranges_of(finished));
                }
                if let Some(first) = first {
                    let numbers = ranges_of(assigned.iter().map(|(number, ..)| number.0));
                    encode_assign(bytes, group.number, consumer, first, &numbers);
                }
            });
        }
        JudgedPull { deliveries, passed_over: passed_over.len(), is_held_up: *is_held_up }
    }
}
