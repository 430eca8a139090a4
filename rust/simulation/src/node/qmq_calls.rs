//! The calls of a server of QMQ's clients: messages in QMQ's layout, consumers that clients named, and the ends of many
//! deliveries in one submission.

use std::ops::Range;

use delaymq_core::error::Result;
use delaymq_core::message_log::Class;
use delaymq_core::record::attach::{Attach, encode_attach};
use delaymq_core::record::limits::group_subject;
use delaymq_core::record::message::{Message, encode_message};
use delaymq_core::record::name::{GroupStart, encode_group};
use delaymq_core::record::queue::NumberRange;
use delaymq_core::record::retry::Destination;
use delaymq_core::store::{
    Candidate, Delivery, GoesOn, JudgedPull, LoadRequest, LoadedPostings, Offer, Pull, PullRequest, Retried,
    RetryPlaces, RetryRule, Settlement, StartAt, goes_on, sent_retry_due,
};
use delaymq_core::units::{GroupNumber, Millis, PullOffset, ReadyNumber, Sequence};

use super::draft::{Draft, last_of};
use super::{Label, Node, Place};

/// A message of a QMQ producer.
#[derive(Clone, Copy, Debug)]
pub struct QmqMessage<'a> {
    /// The subject's name, which may be the name of a group's retry subject.
    pub subject: &'a str,
    /// Its due time; `None` if it is due at once.
    pub due: Option<Millis>,
    /// All its bytes.
    pub whole: &'a [u8],
}

/// Deliveries that end together.
#[derive(Clone, Copy, Debug)]
pub struct Settled<'a> {
    /// The subject that is consumed, and the group.
    pub names: (&'a str, &'a str),
    /// The consumer of the deliveries.
    pub place: Place,
    /// Offsets that are done.
    pub done: &'a [Range<PullOffset>],
    /// Deliveries that the rule sends to the retry subject or makes dead letters.
    pub passed_over: &'a [Delivery],
    /// See [`RetryRule`].
    pub rule: RetryRule,
    /// Whether the consumer ends as well. A broadcast consumer ends with its group, and nothing goes on.
    pub is_end: bool,
}

impl Node {
    /// Stores messages of a QMQ client, all or none. They are visible when everything below the returned sequence is.
    pub fn publish_qmq(&mut self, messages: &[QmqMessage<'_>]) -> Result<Option<Sequence>> {
        let now = self.reading.now;
        let (mut draft, mut seen) = (Draft::default(), Vec::new());
        for message in messages {
            let subject = self.subject_in(&mut draft, message.subject)?;
            if seen.contains(&subject) {
                continue;
            }
            seen.push(subject);
            if let Some(owner) = group_subject(message.subject) {
                draft.add(|records| encode_group(records, subject, GroupStart::Unfinished, owner.group));
            }
        }
        for message in messages {
            let subject = self.subject_in(&mut draft, message.subject)?;
            let due = message.due.unwrap_or(now);
            let due = group_subject(message.subject).map_or(due, |owner| sent_retry_due(&owner, due.max(now)));
            let stored =
                Message { due, published: now, subject, opaque: false, expiry: None, meta: b"", body: message.whole };
            draft.add(|records| encode_message(records, &stored));
        }
        Ok(self.submit_draft(&draft, Class::Growing, false)?.map(|range| range.end))
    }

    /// Submits a consumer that a client named, with its subject and group. With a block of 0 it only says that its
    /// client was seen.
    pub fn attach_named(
        &mut self,
        (subject, group, consumer): (&str, &str, &str),
        block: u32,
        is_broadcast: bool,
    ) -> Result<Option<Sequence>> {
        let mut draft = Draft::default();
        let number = self.subject_in(&mut draft, subject)?;
        let is_own = group_subject(subject).is_some_and(|own| own.group == group);
        let start = if is_own { GroupStart::Unfinished } else { GroupStart::Latest };
        let attach = Attach { subject: number, start, block, is_broadcast, group, consumer };
        draft.add(|records| encode_attach(records, &attach));
        Ok(self.submit_draft(&draft, Class::Finishing, block > 0)?.map(last_of))
    }

    /// Lets the owner decide a pull and reads the runs that it needs. The caller reads the payloads with
    /// [`Self::read_payload`].
    pub fn decide_pull(&mut self, request: PullRequest) -> Result<Pull> {
        loop {
            let pulled = self.owner.pull(request, &mut self.proposals)?;
            self.label(Label::Other);
            let Pull::Load(load) = pulled else {
                // The pull is decided. A fact that finds no room now goes into the log later.
                let sent = self.send();
                return if self.commits.poison().is_some() { sent.map(|_| pulled) } else { Ok(pulled) };
            };
            let loaded = load.read()?;
            self.owner.loaded(loaded, &mut self.proposals)?;
            self.label(Label::Other);
        }
    }

    /// The load that the owner asks for before it decides a pull.
    pub fn asked_load(&mut self, request: PullRequest) -> Result<Option<LoadRequest>> {
        let pulled = self.owner.pull(request, &mut self.proposals)?;
        self.label(Label::Other);
        self.send()?;
        Ok(if let Pull::Load(load) = pulled { Some(load) } else { None })
    }

    /// Gives the owner what a load has read. Returns the lost numbers.
    pub fn loaded(&mut self, loaded: LoadedPostings) -> Result<Vec<ReadyNumber>> {
        let lost = self.owner.loaded(loaded, &mut self.proposals)?;
        self.label(Label::Other);
        self.send()?;
        Ok(lost)
    }

    /// Lets the owner offer ready messages to be judged, and reads the runs that it needs.
    pub fn decide_offer(&mut self, request: PullRequest) -> Result<Offer> {
        loop {
            let offer = self.owner.offer(request, &mut self.proposals)?;
            self.label(Label::Other);
            let Offer::Load(load) = offer else {
                let sent = self.send();
                return if self.commits.poison().is_some() { sent.map(|_| offer) } else { Ok(offer) };
            };
            let loaded = load.read()?;
            self.owner.loaded(loaded, &mut self.proposals)?;
            self.label(Label::Other);
        }
    }

    /// Lets the owner assign those of the judged messages that pass; `None` if the consumer is gone.
    pub fn decide_judged(&mut self, request: PullRequest, judged: &[(Candidate, bool)]) -> Result<Option<JudgedPull>> {
        let pulled = self.owner.assign_judged(request, judged, &mut self.proposals);
        self.label(Label::Other);
        // It is decided, as a pull is.
        let sent = self.send();
        if self.commits.poison().is_some() { sent.map(|_| pulled) } else { Ok(pulled) }
    }

    /// The next offset of a consumer and all its deliveries, as applied; `None` if it has ended.
    pub fn everything_held(&mut self, place: Place) -> Result<Option<(PullOffset, Vec<Delivery>)>> {
        let (mut found, mut from) = (Vec::new(), PullOffset(0));
        loop {
            let piece = self.owner.held_from(place.0, place.1, from)?;
            let (Some(piece), Some(next)) = (piece, self.owner.next_offset(place.0, place.1)) else { return Ok(None) };
            found.extend(piece.deliveries);
            if let Some(load) = piece.load {
                self.owner.loaded(load.read()?, &mut self.proposals)?;
                self.label(Label::Other);
            }
            match piece.next {
                Some(offset) => from = offset,
                None => return Ok(Some((next, found))),
            }
        }
    }

    /// Ends deliveries, and with [`Settled::is_end`] the consumer, in one submission behind everything decided before.
    /// It is durable when everything below the returned sequence is visible.
    pub fn settle_by_rule(&mut self, settled: &Settled<'_>) -> Result<Option<Sequence>> {
        if !self.send()? {
            return Ok(None);
        }
        let Settled { names, place, passed_over, rule, is_end, .. } = *settled;
        if is_end && let Some(end) = self.owner.state().broadcast_end(place.0, place.1) {
            let mut records = Vec::new();
            let count = u32::try_from(end.encode(&mut records)).unwrap_or(u32::MAX);
            let Some(range) = self.submit(&records, count, Class::Finishing, false)? else { return Ok(None) };
            self.owner.broadcast_ends(&end);
            return Ok(Some(range.end));
        }
        let GoesOn { again, dead } = goes_on(names.0, names.1);
        let (again_named, dead_named) =
            (self.names.assign(&again)?, dead.as_deref().map(|dead| self.names.assign(dead)));
        let dead_named = dead_named.transpose()?;
        let places = RetryPlaces {
            rule,
            now: self.reading.now,
            from: self.reading.now,
            again: again_named.number,
            dead: dead_named.map(|named| named.number),
            death: Destination::DeadLetter { reason: "not finished" },
        };
        let retried: Vec<Retried<'_>> = passed_over.iter().map(|one| places.retried(one)).collect();
        let needs = |is_dead: bool| passed_over.iter().any(|one| places.is_dead(one) == is_dead);
        let mut subjects = Vec::new();
        if again_named.needs_fact && needs(false) {
            subjects.push((again_named.number, again.as_str()));
        }
        if let (Some(named), Some(dead)) = (dead_named.filter(|named| named.needs_fact), &dead)
            && needs(true)
        {
            subjects.push((named.number, dead.as_str()));
        }
        let filled = settled.done.iter().filter(|range| !range.is_empty());
        let done: Vec<NumberRange> =
            filled.map(|range| NumberRange { first: range.start.0, count: range.end.since(range.start) }).collect();
        let (group, consumer) = place;
        let all = Settlement { group, consumer, subjects: &subjects, done: &done, retried: &retried, is_end };
        let mut records = Vec::new();
        let count = u32::try_from(all.encode(&mut records)).unwrap_or(u32::MAX);
        if count == 0 {
            return Ok(Some(self.commits.next_sequence()));
        }
        let Some(range) = self.submit(&records, count, Class::Finishing, false)? else { return Ok(None) };
        for (_, name) in &subjects {
            self.names.confirm(name);
        }
        if is_end {
            self.owner.consumer_ends(group, consumer);
        }
        Ok(Some(range.end))
    }

    /// Submits the reset of a group that clients consume for. Their consumers end with it.
    pub fn reset_live_group(&mut self, group: GroupNumber, start: StartAt) -> Result<Option<Sequence>> {
        if !self.send()? {
            return Ok(None);
        }
        let mut records = Vec::new();
        let start = self.restart_of(group, start)?;
        let count = self.owner.encode_reset_with_consumers(group, start, &mut records);
        let submitted = self.submit(&records, u32::try_from(count).unwrap_or(u32::MAX), Class::Finishing, true)?;
        if submitted.is_some() {
            self.owner.consumers_end(group);
        }
        Ok(submitted.map(last_of))
    }
}
