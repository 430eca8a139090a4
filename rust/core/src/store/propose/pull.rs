//! Decides which consumer gets which message. A decision is a proposed assignment fact. Until that fact is applied,
//! the decision is only here: a next number for each group and a next offset for each consumer. Decisions are never
//! saved. The messages of a decision that a crash loses were reserved before, and are redelivered with a mark.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::load_request::{LoadRequest, LoadedPostings};
use super::loaded_postings::Loaded;
use super::proposals::Proposals;
use super::views::{Found, Views, no_posting};
use crate::error::Result;
use crate::planted::{Planted, is_on};
use crate::queues::{Consumer, Group};
use crate::record::queue::{Reserve, encode_assign, encode_reserve, ranges_of};
use crate::schedule_log::Entry;
use crate::storage::Storage;
use crate::store::history::Continuation;
use crate::store::state::State;
use crate::units::{ConsumerNumber, GroupNumber, PullOffset, ReadyNumber};

/// So many readers of the log keep what they have read to find payloads, at most 8 MiB each.
const READERS_MAX: usize = 16;

/// One message on its way to a consumer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delivery {
    /// The consumer's pull offset.
    pub offset: PullOffset,
    /// The message's number in its subject.
    pub number: ReadyNumber,
    /// The entry: where the payload is, the due time and the subject.
    pub entry: Entry,
    /// Which delivery this is, over all retries; from 1.
    pub attempt: u32,
    /// The group was reset, and may have received the message before.
    pub is_again: bool,
}

impl Delivery {
    /// True if the message may have been delivered before.
    pub fn is_redelivered(&self) -> bool {
        self.attempt >= 2 || self.is_again
    }
}

/// The answer to a pull.
#[derive(Debug)]
pub enum Pull {
    /// Messages, in order.
    Deliveries(Vec<Delivery>),
    /// No message now. The group is woken when there may be one.
    Wait,
    /// As `Wait`, but messages are ready: a pull gets them once the proposed facts are applied.
    Soon,
    /// Postings must be read first, outside any lock: see [`LoadRequest`].
    Load(LoadRequest),
    /// The group or the consumer is gone.
    Gone,
}

/// Decisions that are not applied yet.
#[derive(Debug, Default)]
pub(in crate::store) struct Deciding {
    pub(super) groups: BTreeMap<GroupNumber, GroupDeciding>,
    pub(super) loaded: Loaded,
    /// Where the groups that read the log again go on.
    pub(super) reading: BTreeMap<GroupNumber, Vec<Continuation>>,
}

#[derive(Debug, Default)]
pub(super) struct GroupDeciding {
    pub(super) cursor: ReadyNumber,
    number_asked: ReadyNumber,
    /// Returned numbers that are assigned again, with the consumer and its offset.
    taken: BTreeMap<ReadyNumber, (ConsumerNumber, PullOffset)>,
    /// Numbers that proposed facts finish: those whose damaged postings are being voided, and those that were given back
    /// and did not pass filters.
    pub(super) finishing: BTreeSet<ReadyNumber>,
    consumers: BTreeMap<ConsumerNumber, ConsumerDeciding>,
    ending: bool,
}

#[derive(Debug, Default)]
struct ConsumerDeciding {
    next_offset: PullOffset,
    offset_asked: PullOffset,
    ending: bool,
}

/// The parameters of a pull.
#[derive(Clone, Copy, Debug)]
pub struct PullRequest {
    /// The group.
    pub group: GroupNumber,
    /// The consumer.
    pub consumer: ConsumerNumber,
    /// At most this many messages.
    pub count_max: usize,
    /// The consumer never holds more than this many unfinished messages.
    pub in_flight_max: u32,
    /// How many messages the same user has in flight in other queues. The in-flight limit holds for all together.
    pub beside: u64,
}

/// The posting of a message that a consumer holds.
pub(in crate::store) enum LookedUp {
    Entry(Entry),
    /// The posting must be read first.
    Load(LoadRequest),
    /// The posting is damaged, and the message is being voided.
    Damaged,
}

impl Deciding {
    /// Stops assigning to this consumer, whose end is proposed.
    pub(in crate::store) fn end_consumer(&mut self, group: GroupNumber, consumer: ConsumerNumber) {
        self.groups.entry(group).or_default().consumers.entry(consumer).or_default().ending = true;
    }

    /// Stops assigning in this group, whose end is proposed.
    pub(in crate::store) fn end_group(&mut self, group: GroupNumber) {
        self.groups.entry(group).or_default().ending = true;
    }

    /// Forgets groups and consumers that are gone.
    pub(in crate::store) fn forget_ended(&mut self, state: &State) {
        self.groups.retain(|number, deciding| {
            let Some(group) = state.groups.get(number) else { return false };
            deciding.consumers.retain(|consumer, _| group.consumers.contains_key(consumer));
            self.loaded.pass(group, deciding.cursor);
            true
        });
        self.loaded.retain(|group| self.groups.contains_key(&group));
        self.reading.retain(|group, _| self.groups.contains_key(group));
    }

    /// Keeps what was loaded for a group, and returns the damaged numbers that are new to it.
    pub(in crate::store) fn loaded(&mut self, postings: LoadedPostings) -> Vec<ReadyNumber> {
        let deciding = self.groups.entry(postings.group).or_default();
        let damaged = postings.found.damaged.into_iter().filter(|number| deciding.finishing.insert(*number)).collect();
        self.loaded.keep(postings.group, postings.found.entries);
        damaged
    }

    /// Keeps where a group goes on that reads the log again.
    pub(in crate::store) fn goes_on(&mut self, group: GroupNumber, next: Continuation) {
        let all: usize = self.reading.values().map(Vec::len).sum();
        if all >= READERS_MAX {
            self.reading.pop_first();
        }
        self.reading.entry(group).or_default().push(next);
    }

    /// Looks up the posting of a number that a consumer holds.
    pub(in crate::store) fn look_up(
        &mut self,
        (storage, state): (&Arc<dyn Storage>, &State),
        group: &Group,
        number: ReadyNumber,
    ) -> Result<LookedUp> {
        let is_damaged = |deciding: &GroupDeciding| deciding.finishing.contains(&number);
        if self.groups.get(&group.number).is_some_and(is_damaged) {
            return Ok(LookedUp::Damaged);
        }
        let mut views = Views { storage, state, loaded: &self.loaded, reading: &mut self.reading };
        match views.find(group, number) {
            Found::Entry(entry) => Ok(LookedUp::Entry(entry)),
            Found::Unread(unread) => {
                let wanted = number..state.dispatch.next_number(group.subject);
                Ok(LookedUp::Load(views.load(group, wanted, unread)))
            }
            Found::Gone => Err(no_posting(group, number)),
        }
    }

    /// Forgets loaded postings that the group will not assign any more.
    pub(in crate::store) fn forget_loaded(&mut self, group: &Group) {
        let deciding = self.groups.get(&group.number).map(|deciding| deciding.cursor).unwrap_or_default();
        self.loaded.pass(group, deciding.max(group.cursor));
    }

    /// Returns the offset behind the last one that was assigned to this consumer in this epoch.
    pub(in crate::store) fn next_offset(&self, group: GroupNumber, consumer: ConsumerNumber) -> PullOffset {
        let consumer = self.groups.get(&group).and_then(|deciding| deciding.consumers.get(&consumer));
        consumer.map(|consumer| consumer.next_offset).unwrap_or_default()
    }

    /// Returns how many messages this consumer has in flight, as decided; 0 if it does not exist.
    pub(in crate::store) fn in_flight(&self, state: &State, group: GroupNumber, consumer: ConsumerNumber) -> u64 {
        let applied = state.groups.get(&group).and_then(|group| group.consumers.get(&consumer));
        applied.map_or(0, |applied| applied.in_flight(self.next_offset(group, consumer)))
    }

    /// Returns how many postings were read from runs and not delivered yet.
    pub(in crate::store) fn loaded_count(&self) -> usize {
        self.loaded.len()
    }

    /// The group and the consumer of a request; `None` if one of them is gone or ends.
    pub(super) fn pulling<'a>(&mut self, state: &'a State, request: PullRequest) -> Option<(&'a Group, &'a Consumer)> {
        let group = state.groups.get(&request.group)?;
        let consumer = group.consumers.get(&request.consumer)?;
        let deciding = self.groups.entry(request.group).or_default();
        let is_ending = deciding.consumers.entry(request.consumer).or_default().ending;
        (!deciding.ending && !is_ending).then_some((group, consumer))
    }

    /// Decides a pull, and proposes the assignment and the next reserve.
    pub(in crate::store) fn pull(
        &mut self,
        (storage, state): (&Arc<dyn Storage>, &State),
        request: PullRequest,
        proposals: &mut Proposals,
    ) -> Result<Pull> {
        let Some((group, consumer)) = self.pulling(state, request) else { return Ok(Pull::Gone) };
        let Self { groups, loaded, reading } = self;
        let deciding = groups.entry(request.group).or_default();
        deciding.catch_up(group, consumer);
        let block = u64::from(request.in_flight_max);
        deciding.propose_reserve(group, consumer, request, block, proposals);
        loaded.pass(group, deciding.cursor);
        if !deciding.has_more(state, group) {
            return Ok(Pull::Wait);
        }
        let room = deciding.room(consumer, request);
        let mut found = Vec::new();
        let asked = if is_on(Planted::PulledBeforeReserved) { deciding.number_asked } else { ReadyNumber(0) };
        let bounds = (room, asked.max(group.reserved_number));
        let load = deciding.collect(Views { storage, state, loaded, reading }, group, bounds, &mut found)?;
        // The cursor may have passed many numbers that are done.
        deciding.propose_reserve(group, consumer, request, block, proposals);
        if let Some(load) = load {
            return Ok(Pull::Load(load));
        }
        if found.is_empty() {
            let is_ready = request.count_max > 0 && deciding.has_more(state, group);
            return Ok(if is_ready { Pull::Soon } else { Pull::Wait });
        }
        Ok(Pull::Deliveries(deciding.assign(group, request.consumer, &found, proposals)))
    }
}

impl GroupDeciding {
    pub(super) fn catch_up(&mut self, group: &Group, consumer: &Consumer) {
        self.cursor = self.cursor.max(group.cursor);
        self.taken.retain(|_, (holder, offset)| {
            group.consumers.get(holder).is_some_and(|holder| holder.next_offset <= *offset)
        });
        self.finishing.retain(|number| !group.done.contains(number.0));
        let deciding = self.consumers.entry(consumer.number).or_default();
        deciding.next_offset = deciding.next_offset.max(consumer.next_offset);
    }

    /// Proposes the next block of offsets and numbers when half of the last block is used. At most `in_flight_max`
    /// offsets and `number_block` numbers are reserved ahead of the assigned ones.
    pub(super) fn propose_reserve(
        &mut self,
        group: &Group,
        consumer: &Consumer,
        request: PullRequest,
        number_block: u64,
        proposals: &mut Proposals,
    ) {
        let block = u64::from(request.in_flight_max.max(1));
        let cursor = self.cursor;
        let deciding = self.consumers.entry(consumer.number).or_default();
        let offset_known = deciding.offset_asked.max(consumer.reserved_offset);
        let number_known = self.number_asked.max(group.reserved_number);
        let number_block = number_block.max(block);
        let low =
            offset_known.since(deciding.next_offset) <= block / 2 || number_known.since(cursor) <= number_block / 2;
        let offset_end = deciding.next_offset.plus(block).max(offset_known);
        let number_end = cursor.plus(number_block).max(number_known);
        if !low || (offset_end == offset_known && number_end == number_known) {
            return;
        }
        deciding.offset_asked = offset_end;
        self.number_asked = number_end;
        let reserve = Reserve { group: group.number, consumer: consumer.number, offset_end, number_end };
        proposals.push(1, !is_on(Planted::ReserveUnsynced), |bytes| encode_reserve(bytes, reserve));
    }

    /// Returns how many messages the consumer may get now.
    pub(super) fn room(&self, consumer: &Consumer, request: PullRequest) -> usize {
        let next = self.consumers.get(&consumer.number).map(|deciding| deciding.next_offset).unwrap_or_default();
        let in_flight = consumer.in_flight(next).saturating_add(request.beside);
        let credit = u64::from(request.in_flight_max).saturating_sub(in_flight);
        let asked = self.consumers.get(&consumer.number).map(|deciding| deciding.offset_asked).unwrap_or_default();
        let hasty = is_on(Planted::PulledBeforeReserved);
        let asked = if hasty { asked } else { PullOffset(0) };
        let reserved = asked.max(consumer.reserved_offset).since(next);
        usize::try_from(credit.min(reserved)).unwrap_or(usize::MAX).min(request.count_max)
    }

    /// Collects up to `room` messages: returned ones first, then from the cursor on, below `number_end`. Returns a load if
    /// the posting of the first message must be read.
    pub(super) fn collect(
        &mut self,
        mut views: Views<'_>,
        group: &Group,
        (room, number_end): (usize, ReadyNumber),
        found: &mut Vec<(ReadyNumber, Entry, u32)>,
    ) -> Result<Option<LoadRequest>> {
        let returned_end = group.returned.last_key_value().map(|(last, _)| last.next()).unwrap_or_default();
        for (number, before) in &group.returned {
            if found.len() >= room {
                return Ok(None);
            }
            if !self.is_open(group, *number) {
                continue;
            }
            match views.find(group, *number) {
                Found::Entry(entry) => found.push((*number, entry, before.saturating_add(1))),
                Found::Unread(unread) => {
                    return Ok(found.is_empty().then(|| views.load(group, *number..returned_end, unread)));
                }
                Found::Gone => return Err(no_posting(group, *number)),
            }
        }
        let next = views.state.dispatch.next_number(group.subject);
        self.cursor = self.cursor.max(ReadyNumber(group.done.below())).min(next);
        while found.len() < room && self.cursor < next {
            let number = self.cursor;
            if !group.done.contains(number.0) && !self.finishing.contains(&number) {
                if number >= number_end {
                    break;
                }
                match views.find(group, number) {
                    Found::Entry(entry) => {
                        found.push((number, entry, if number < group.marked_below { 2 } else { 1 }));
                    }
                    Found::Unread(unread) => {
                        return Ok(found.is_empty().then(|| views.load(group, number..next, unread)));
                    }
                    Found::Gone => return Err(no_posting(group, number)),
                }
            }
            self.cursor = number.next();
        }
        Ok(None)
    }

    /// True if a message is ready and not assigned.
    fn has_more(&self, state: &State, group: &Group) -> bool {
        let next = state.dispatch.next_number(group.subject);
        self.cursor < next || group.returned.keys().any(|number| self.is_open(group, *number))
    }

    /// True if a returned message is not assigned again, and is not being finished.
    pub(super) fn is_open(&self, group: &Group, number: ReadyNumber) -> bool {
        !self.taken.contains_key(&number) && !group.done.contains(number.0) && !self.finishing.contains(&number)
    }

    fn assign(
        &mut self,
        group: &Group,
        consumer: ConsumerNumber,
        found: &[(ReadyNumber, Entry, u32)],
        proposals: &mut Proposals,
    ) -> Vec<Delivery> {
        let deliveries = self.deliveries(group, consumer, found);
        let first_offset = deliveries.first().map_or(PullOffset(0), |delivery| delivery.offset);
        let numbers = ranges_of(found.iter().map(|(number, ..)| number.0));
        proposals.push(1, false, |bytes| encode_assign(bytes, group.number, consumer, first_offset, &numbers));
        deliveries
    }

    /// Gives these messages the next offsets of the consumer.
    pub(super) fn deliveries(
        &mut self,
        group: &Group,
        consumer: ConsumerNumber,
        found: &[(ReadyNumber, Entry, u32)],
    ) -> Vec<Delivery> {
        let deciding = self.consumers.entry(consumer).or_default();
        let first_offset = deciding.next_offset;
        let mut deliveries = Vec::with_capacity(found.len());
        let mut offset = first_offset;
        for (number, entry, handed) in found {
            if group.returned.contains_key(number) {
                self.taken.insert(*number, (consumer, offset));
            }
            let attempt = u32::from(entry.attempt()).saturating_add(*handed).saturating_sub(1);
            let is_again = *number < group.again_below;
            deliveries.push(Delivery { offset, number: *number, entry: *entry, attempt, is_again });
            offset = offset.next();
        }
        deciding.next_offset = offset;
        deliveries
    }
}
