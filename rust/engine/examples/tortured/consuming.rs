//! The consumers of one group, on one thread: what comes is acknowledged, given back, put away, or held
//! until its consumer leaves.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use delaymq_core::error::{Error, Result};
use delaymq_engine::{Delivered, DeliveryKey, StartAt, Store, SubscribeOptions, Subscription};

use crate::arguments::Arguments;
use crate::chance::Chance;
use crate::publishing::digest;
use crate::recurring;
use crate::telling::{Line, Telling};

const PULL_MAX: usize = 32;
const PULL_WAIT: Duration = Duration::from_millis(2);
const FLUSH_WAIT: Duration = Duration::from_secs(5);
/// Acknowledgements between two flushes, at most.
const UNFLUSHED_MAX: usize = 48;

/// One consumer, and what it has of its messages.
struct Consumer {
    name: String,
    subject: String,
    subscription: Arc<Subscription>,
    /// Acknowledged and not flushed.
    unflushed: Vec<String>,
    /// Neither acknowledged nor given back.
    kept: usize,
}

/// The consumers of one group.
pub(crate) struct Group {
    store: Arc<Store>,
    name: String,
    life: u64,
    in_flight: u32,
    delay_ms_max: u64,
    chance: Chance,
    consumers: Vec<Consumer>,
    /// Consumers that there were in this life.
    count: u64,
    /// Acknowledges all at once.
    is_drain: bool,
}

/// The subjects of a store.
pub(crate) fn subjects(arguments: &Arguments) -> Vec<String> {
    let numbered = (0..arguments.subjects).map(|number| format!("s{number}"));
    let recurring = arguments.has_terms.then(|| String::from(recurring::SUBJECT));
    numbered.chain([String::from("ordered")]).chain(recurring).collect()
}

/// Subscribes each group to each subject: they are there before anything is published.
///
/// # Errors
/// As [`Store::subscribe`].
pub(crate) fn subscribe_all(arguments: &Arguments, store: &Arc<Store>) -> Result<Vec<Group>> {
    let mut groups = Vec::new();
    for number in 0..arguments.groups {
        let mut group = Group {
            store: Arc::clone(store),
            name: format!("g{number}"),
            life: arguments.life,
            in_flight: arguments.in_flight,
            delay_ms_max: arguments.delay_ms_max,
            chance: Chance::new(arguments.seed, arguments.life, number.saturating_add(1)),
            consumers: Vec::new(),
            count: 0,
            is_drain: arguments.is_drain,
        };
        for subject in subjects(arguments) {
            let consumer = group.subscribe(subject)?;
            group.consumers.push(consumer);
        }
        groups.push(group);
    }
    Ok(groups)
}

impl Group {
    fn subscribe(&mut self, subject: String) -> Result<Consumer> {
        let options = SubscribeOptions {
            start: StartAt::Unfinished,
            in_flight_max: self.in_flight,
            ..SubscribeOptions::default()
        };
        let subscription = self.store.subscribe(&subject, &self.name, options)?;
        let name = format!("{}-{}-{}", self.life, self.name, self.count);
        self.count = self.count.saturating_add(1);
        Ok(Consumer { name, subject, subscription, unflushed: Vec::new(), kept: 0 })
    }

    /// The name of the group.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Consumes until all is over; then all that was acknowledged is durable and the consumers have left.
    ///
    /// # Errors
    /// What ends the store, and what must not be.
    pub(crate) fn consume(mut self, telling: &Telling, is_over: &AtomicBool) -> Result<()> {
        while !is_over.load(Ordering::SeqCst) {
            self.round(telling)?;
        }
        for consumer in self.consumers.drain(..) {
            leave(telling, &self.name, consumer)?;
        }
        Ok(())
    }

    /// Lets each consumer pull once; how many messages came.
    ///
    /// # Errors
    /// As [`Self::consume`].
    pub(crate) fn round(&mut self, telling: &Telling) -> Result<usize> {
        let mut came = 0_usize;
        for mut consumer in std::mem::take(&mut self.consumers) {
            let count_max = 1 + usize::try_from(self.chance.below(PULL_MAX as u64)).unwrap_or(0);
            let pulled = consumer.subscription.pull(count_max, PULL_WAIT)?;
            came = came.saturating_add(pulled.len());
            self.take(telling, &mut consumer, &pulled)?;
            if consumer.unflushed.len() >= UNFLUSHED_MAX || (pulled.is_empty() && !consumer.unflushed.is_empty()) {
                flush(telling, &self.name, &mut consumer)?;
            }
            let is_full = consumer.kept >= self.in_flight as usize / 2;
            let consumer = if is_full || (!self.is_drain && self.chance.below(400) == 0) {
                let subject = consumer.subject.clone();
                leave(telling, &self.name, consumer)?;
                self.subscribe(subject)?
            } else {
                consumer
            };
            self.consumers.push(consumer);
        }
        Ok(came)
    }

    fn take(&mut self, telling: &Telling, consumer: &mut Consumer, pulled: &[Delivered]) -> Result<()> {
        let lines: Vec<Line> = pulled.iter().map(|message| delivered(message, &self.name, consumer)).collect();
        telling.tell(&lines);
        let mut acknowledged = Vec::new();
        for message in pulled {
            let Some(id) = told_id(message) else { continue };
            let id = id.as_str();
            match self.chance.below(100) {
                _ if self.is_drain => acknowledged.push((id.to_owned(), message.key)),
                0..86 => acknowledged.push((id.to_owned(), message.key)),
                86..93 => {
                    let delay_ms = if self.chance.percent(30) { 0 } else { self.chance.below(self.delay_ms_max) };
                    telling.tell(&[returned(id, &self.name, delay_ms)]);
                    consumer.subscription.give_back(message.key, delay_ms)?;
                }
                93 if consumer.subject != recurring::SUBJECT => {
                    consumer.subscription.dead_letter(message.key, "as its consumer chose")?;
                }
                _ => consumer.kept = consumer.kept.saturating_add(1),
            }
        }
        let lines: Vec<Line> = acknowledged.iter().map(|(id, _)| of_message("acknowledge", id, &self.name)).collect();
        telling.tell(&lines);
        let keys: Vec<DeliveryKey> = acknowledged.iter().map(|(_, key)| *key).collect();
        consumer.subscription.acknowledge(&keys)?;
        consumer.unflushed.extend(acknowledged.into_iter().map(|(id, _)| id));
        Ok(())
    }
}

/// Makes durable what a consumer acknowledged, and tells it.
fn flush(telling: &Telling, group: &str, consumer: &mut Consumer) -> Result<()> {
    if consumer.subscription.flush(FLUSH_WAIT)? {
        tell_acknowledged(telling, group, consumer);
    }
    Ok(())
}

fn tell_acknowledged(telling: &Telling, group: &str, consumer: &mut Consumer) {
    let told = |id: String| of_message("acknowledged", &id, group).text("result", "acknowledged");
    let lines: Vec<Line> = consumer.unflushed.drain(..).map(told).collect();
    telling.tell(&lines);
}

/// Ends a consumer: what it acknowledged is durable, what it kept is the group's again.
fn leave(telling: &Telling, group: &str, mut consumer: Consumer) -> Result<()> {
    telling.tell(&[Line::of("left").text("consumer", &consumer.name)]);
    match consumer.subscription.close() {
        Ok(()) => tell_acknowledged(telling, group, &mut consumer),
        Err(Error::DiskFull) => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

fn of_message(kind: &str, id: &str, group: &str) -> Line {
    Line::of(kind).text("id", id).text("group", group)
}

fn returned(id: &str, group: &str, delay_ms: u64) -> Line {
    of_message("returned", id, group).number("delay_ms", delay_ms)
}

fn delivered(message: &Delivered, group: &str, consumer: &Consumer) -> Line {
    let line = Line::of("delivered");
    let id = id_of(message.body());
    let line = told_id(message).map_or_else(|| line.clone().nothing("id"), |id| line.clone().text("id", &id));
    let line = line.text("subject", &message.subject).text("digest", &digest(message.body())).text("group", group);
    let line = line.text("consumer", &consumer.name).number("attempt", u64::from(message.attempt));
    let line = line.flag("redelivered", message.redelivered);
    match id.filter(|_| consumer.subject == "ordered").and_then(order) {
        Some(number) => line.number("number", number),
        None => line,
    }
}

/// The id under which a message is told.
fn told_id(message: &Delivered) -> Option<String> {
    let id = id_of(message.body())?;
    let is_occurrence = &*message.subject == recurring::SUBJECT;
    Some(if is_occurrence { format!("{id}@{}", message.first_due.0) } else { id.to_owned() })
}

/// The id that a body begins with, where it does.
pub(crate) fn id_of(body: &[u8]) -> Option<&str> {
    let end = body.iter().position(|byte| *byte == b' ')?;
    let id = std::str::from_utf8(body.get(..end)?).ok()?;
    order(id).map(|_| id)
}

/// Where a message stands among all of its store: lives first, then its place in its life.
fn order(id: &str) -> Option<u64> {
    let (life, count) = id.split_once('-')?;
    life.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(count.parse().ok()?)
}
