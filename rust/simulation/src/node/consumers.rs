//! Consuming: pulls, payloads, acknowledgements, messages given back.

use std::collections::VecDeque;

use delaymq_core::error::{Error, Result};
use delaymq_core::message_log::segment_path;
use delaymq_core::record::expire::{Expiry, OnExpiry};
use delaymq_core::record::header::read_record;
use delaymq_core::record::message::decode_message;
use delaymq_core::record::retry::Destination;
use delaymq_core::run::{read_payload, run_path};
use delaymq_core::store::{
    Delivery, JudgedPull, Offer, Owner, Pull, PullRequest, RetryTarget, dead_letter_subject, retry_subject,
};
use delaymq_core::units::{
    ConsumerNumber, GroupNumber, Location, LocationFile, Millis, PullOffset, Sequence, SubjectNumber,
};

use super::{Label, Node, Place};

/// Loads that one pull waits for at most.
const LOADS_MAX: usize = 64;

/// A message that was handed over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Handed {
    /// How the owner assigned it.
    pub delivery: Delivery,
    /// The subject that it was published to.
    pub subject: SubjectNumber,
    /// Its encoded meta.
    pub meta: Vec<u8>,
    /// Its body.
    pub body: Vec<u8>,
}

/// A message as it is stored.
struct Stored {
    subject: SubjectNumber,
    meta: Vec<u8>,
    body: Vec<u8>,
    expiry: Option<Expiry>,
}

/// A message that was assigned, and has expired before it was handed over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Expired {
    /// The message.
    pub handed: Handed,
    /// The effect of its expiry. A message that is dropped was dropped by the node; its user makes the dead letter.
    pub then: OnExpiry,
    /// The consumer may have received it before.
    pub received: bool,
}

/// The result of a pull.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Pulled {
    /// Messages in order, deliveries whose payload is damaged and which will be voided, and messages that have expired.
    Messages(Vec<Handed>, Vec<Delivery>, Vec<Expired>),
    /// Nothing now.
    Wait,
    /// The group or the consumer is gone.
    Gone,
}

impl Node {
    /// Pulls, and hands over the messages that were assigned. `ask` labels the assignment.
    pub fn pull(&mut self, request: PullRequest, ask: u64) -> Result<Pulled> {
        let place = (request.group, request.consumer);
        self.was_soon = false;
        if let Some(unread) = self.unread.remove(&place) {
            return self.hand_over(place, unread, request.count_max);
        }
        for _ in 0..LOADS_MAX {
            let pulled = self.owner.pull(request, &mut self.proposals);
            self.label(Label::Other);
            if let (Ok(Pull::Deliveries(_)), Some(last)) = (&pulled, self.labels.back_mut()) {
                *last = Label::Asked(ask);
            }
            let sent = self.send();
            if let (Err(_), Ok(Pull::Deliveries(deliveries))) = (&sent, &pulled) {
                // The assignment is decided and goes into the log once there is room. The next pull hands it over.
                self.unread.insert(place, deliveries.iter().copied().collect());
            }
            sent?;
            match pulled? {
                Pull::Deliveries(deliveries) => return self.hand_over(place, deliveries.into(), request.count_max),
                Pull::Wait => return Ok(Pulled::Wait),
                Pull::Soon => {
                    self.was_soon = true;
                    return Ok(Pulled::Wait);
                }
                Pull::Gone => return Ok(Pulled::Gone),
                Pull::Load(load) => {
                    let loaded = load.read()?;
                    self.loads = self.loads.saturating_add(1);
                    self.owner.loaded(loaded, &mut self.proposals)?;
                    self.label(Label::Other);
                    self.send()?;
                }
            }
        }
        Ok(Pulled::Wait)
    }

    /// As [`Self::pull`], of messages that pass by meta and body. Adds the entries of those that do not pass, and are finished for the
    /// group, to `passed_over`, also if the pull fails after that.
    pub fn pull_passing(
        &mut self,
        request: PullRequest,
        ask: u64,
        passes: &dyn Fn(&[u8], &[u8]) -> bool,
        passed_over: &mut Vec<Sequence>,
    ) -> Result<Pulled> {
        let place = (request.group, request.consumer);
        if let Some(unread) = self.unread.remove(&place) {
            return self.hand_over(place, unread, request.count_max);
        }
        let candidates = match self.decide_offer(PullRequest { count_max: request.count_max.max(4), ..request })? {
            Offer::Candidates(candidates) => candidates,
            Offer::Wait | Offer::Load(_) => return Ok(Pulled::Wait),
            Offer::Gone => return Ok(Pulled::Gone),
        };
        let mut judged = Vec::new();
        for candidate in candidates {
            let entry = candidate.entry;
            let is_passed = match self.read_message(entry.location(), entry.payload_sequence()) {
                Ok(stored) => passes(&stored.meta, &stored.body),
                // Whoever is handed it voids it.
                Err(Error::DamagedPayload { .. }) => true,
                Err(error) => return Err(error),
            };
            judged.push((candidate, is_passed));
        }
        let pulled = self.owner.assign_judged(request, &judged, &mut self.proposals);
        self.label(Label::Other);
        let Some(JudgedPull { deliveries, passed_over: count, .. }) = pulled else { return Ok(Pulled::Gone) };
        if let Some(last) = self.labels.back_mut().filter(|_| count > 0 || !deliveries.is_empty()) {
            *last = Label::Asked(ask);
        }
        let filtered = judged.iter().filter(|(_, is_passed)| !is_passed).take(count);
        passed_over.extend(filtered.map(|(candidate, _)| candidate.entry.sequence()));
        let sent = self.send();
        if deliveries.is_empty() {
            return sent.map(|_| Pulled::Wait);
        }
        if sent.is_err() {
            self.unread.insert(place, deliveries.into());
            return sent.map(|_| Pulled::Wait);
        }
        self.hand_over(place, deliveries.into(), request.count_max)
    }

    /// True if messages were ready for the last pull, and it has to wait for facts on their way or for its limit.
    pub fn was_soon(&self) -> bool {
        self.was_soon
    }

    /// True if messages were assigned that could not be read.
    pub fn has_unread(&self) -> bool {
        !self.unread.is_empty()
    }

    /// Reads up to `count_max` of the assigned messages. The rest, and messages that cannot be read now, come with the
    /// next pull.
    fn hand_over(&mut self, place: Place, mut deliveries: VecDeque<Delivery>, count_max: usize) -> Result<Pulled> {
        let mut handed = Vec::new();
        let (mut damaged, mut expired) = (Vec::new(), Vec::new());
        while handed.len() < count_max
            && let Some(delivery) = deliveries.pop_front()
        {
            let entry = delivery.entry;
            match self.read_message(entry.location(), entry.payload_sequence()) {
                Ok(Stored { subject, meta, body, expiry }) => {
                    let message = Handed { delivery, subject, meta, body };
                    match self.judge((place.0, false), message, expiry) {
                        Ok(message) => handed.push(message),
                        Err(message) => expired.push(*message),
                    }
                }
                Err(Error::DamagedPayload { .. }) => {
                    self.owner.void_ready(entry.subject(), delivery.number, &mut self.proposals);
                    self.label(Label::Other);
                    damaged.push(delivery);
                }
                Err(error) => {
                    deliveries.push_front(delivery);
                    if handed.is_empty() && expired.is_empty() {
                        self.unread.insert(place, deliveries);
                        return Err(error);
                    }
                    break;
                }
            }
        }
        if !deliveries.is_empty() {
            self.unread.insert(place, deliveries);
        }
        match self.send() {
            // The consumer keeps what it was handed. The facts wait for room.
            Err(error) if handed.is_empty() && expired.is_empty() => Err(error),
            _ => Ok(Pulled::Messages(handed, damaged, expired)),
        }
    }

    /// Judges the expiry of a message that is about to be handed to a consumer of this group. One that has expired is
    /// dropped, if that is what is to happen.
    fn judge(
        &mut self,
        (group, received): (GroupNumber, bool),
        message: Handed,
        expiry: Option<Expiry>,
    ) -> std::result::Result<Handed, Box<Expired>> {
        let Some(expiry) = expiry.filter(|expiry| expiry.is_over(self.reading.now)) else { return Ok(message) };
        if expiry.then == OnExpiry::Drop {
            let Delivery { number, entry, .. } = message.delivery;
            Owner::drop_expired((group, received), entry.subject(), &[number.0], &mut self.proposals);
            self.label(Label::Other);
        }
        Err(Box::new(Expired { handed: message, then: expiry.then, received }))
    }

    /// The message at a location, its record and payload checked: the subject it was published to, and its body.
    /// `DamagedPayload` if it is not there whole.
    pub fn read_payload(&self, location: Location, sequence: Sequence) -> Result<(SubjectNumber, Vec<u8>)> {
        self.read_message(location, sequence).map(|stored| (stored.subject, stored.body))
    }

    /// As [`Self::read_payload`], with meta and expiry.
    fn read_message(&self, location: Location, sequence: Sequence) -> Result<Stored> {
        let loaded = match location.file() {
            LocationFile::Run(number) => self.owner.state().runs.get(&number).map(|known| &known.run),
            LocationFile::Segment(_) => None,
        };
        let loaded = loaded.filter(|run| run.relation().is_some());
        let path = match location.file() {
            LocationFile::Segment(number) => segment_path(number),
            LocationFile::Run(number) => run_path(number),
        };
        let offset = u64::from(location.offset());
        let damaged = |found: &str| Error::DamagedPayload {
            sequence: sequence.0,
            path: path.clone(),
            offset,
            expected: "a message".to_owned(),
            found: found.to_owned(),
        };
        let mut bytes = Vec::new();
        if let Some(run) = loaded {
            run.read_payload(offset, sequence, None, &mut bytes)?;
        } else {
            let file = match self.storage.open(&path) {
                Err(error) if error.is_not_found() => return Err(damaged("no file")),
                other => other?,
            };
            read_payload(file.as_ref(), offset, sequence, None, &mut bytes)?;
        }
        let record = read_record(&bytes, sequence).map_err(|_| damaged("another record"))?;
        let message = decode_message(&record).ok_or_else(|| damaged("another fact"))?;
        let (meta, body) = (message.meta.to_vec(), message.body.to_vec());
        Ok(Stored { subject: message.subject, meta, body, expiry: message.expiry })
    }

    /// Acknowledges offsets, ascending. `ask` labels the fact.
    pub fn acknowledge(
        &mut self,
        group: GroupNumber,
        consumer: ConsumerNumber,
        offsets: &[u64],
        ask: u64,
    ) -> Result<()> {
        Owner::acknowledge(group, consumer, offsets, &mut self.proposals);
        self.label(Label::Asked(ask));
        self.send().map(drop)
    }

    /// Gives a delivery back, to come again after a delay in the group's retry subject. Returns the new due time.
    /// `ask` labels the fact.
    pub fn give_back(
        &mut self,
        names: (&str, &str),
        place: Place,
        delivery: &Delivery,
        delay_ms: u64,
        ask: u64,
    ) -> Result<Millis> {
        let due = self.reading.now.plus(delay_ms);
        let name = retry_subject(names.0, names.1);
        self.move_on(&name, place, delivery, due, Destination::Again, ask)?;
        Ok(due)
    }

    /// Makes a delivery a dead letter of the group. Returns the time of its death. `ask` labels the fact.
    pub fn dead_letter(
        &mut self,
        names: (&str, &str),
        place: Place,
        delivery: &Delivery,
        reason: &str,
        ask: u64,
    ) -> Result<Millis> {
        self.put_away(names, place, delivery, Destination::DeadLetter { reason }, ask)
    }

    /// Makes a delivery whose message had expired a dead letter of the group, as [`Self::dead_letter`] does.
    pub fn put_away_expired(
        &mut self,
        names: (&str, &str),
        place: Place,
        (delivery, received): (&Delivery, bool),
        ask: u64,
    ) -> Result<Millis> {
        self.put_away(names, place, delivery, Destination::Expired { received }, ask)
    }

    fn put_away(
        &mut self,
        names: (&str, &str),
        place: Place,
        delivery: &Delivery,
        death: Destination<'_>,
        ask: u64,
    ) -> Result<Millis> {
        let due = self.reading.now;
        let name = dead_letter_subject(names.0, names.1);
        self.move_on(&name, place, delivery, due, death, ask)?;
        Ok(due)
    }

    fn move_on(
        &mut self,
        name: &str,
        place: Place,
        delivery: &Delivery,
        due: Millis,
        destination: Destination<'_>,
        ask: u64,
    ) -> Result<()> {
        let named = self.names.assign(name)?;
        let target = RetryTarget { subject: named.number, name: named.needs_fact.then_some(name), destination };
        Owner::retry(place.0, place.1, delivery, due, target, &mut self.proposals);
        self.label(Label::Asked(ask));
        self.send().map(drop)
    }

    /// The deliveries of a consumer, as applied, to be handed to it again under the same offsets, in order; and those
    /// that have expired since.
    pub fn hand_again(&mut self, number: GroupNumber, consumer: ConsumerNumber) -> Result<(Vec<Handed>, Vec<Expired>)> {
        let nothing = || Ok((Vec::new(), Vec::new()));
        let Some(group) = self.owner.state().groups.get(&number) else { return nothing() };
        let Some(consumer) = group.consumers.get(&consumer) else { return nothing() };
        let subject = group.subject;
        let held: Vec<(PullOffset, delaymq_core::queues::Held)> = consumer.held.iter().collect();
        let mut read = Vec::new();
        for (offset, held) in held {
            let Some(entry) = self.owner.ready_entry(subject, held.number)? else { continue };
            let attempt = u32::from(entry.attempt()).saturating_add(held.deliveries);
            let Stored { subject, meta, body, expiry } =
                self.read_message(entry.location(), entry.payload_sequence())?;
            let delivery = Delivery { offset, number: held.number, entry, attempt, is_again: true };
            read.push((Handed { delivery, subject, meta, body }, expiry));
        }
        let (mut handed, mut expired) = (Vec::new(), Vec::new());
        for (message, expiry) in read {
            match self.judge((number, true), message, expiry) {
                Ok(message) => handed.push(message),
                Err(message) => expired.push(*message),
            }
        }
        Ok((handed, expired))
    }
}
