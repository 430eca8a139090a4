//! Dead letters of a damaged store, made dead letters of the new store again. Only the fact that made a dead letter has
//! its reason, so the group gets each of them once and moves it to its dead letters.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use delaymq_core::error::{Error, Result};
use delaymq_core::record::retry::Death;
use delaymq_core::store::{SalvagedMessage, dead_letters_of, retry_subject};
use delaymq_core::units::Millis;

use crate::options::SubscribeOptions;
use crate::publish::batch::PublishBatch;
use crate::store::Store;

/// How many dead letters are published, and moved, together.
const BATCH_MESSAGES: usize = 1_000;
/// Only a store that cannot write keeps a published message back for so long.
const SILENCE_MAX: Duration = Duration::from_secs(30);
const LOOK_UP: Duration = Duration::from_millis(500);

/// The subject and the group of a dead letter of which it is known why it is one.
pub(crate) fn dead_letter_of<'a>(message: &SalvagedMessage<'a>) -> Option<(&'a str, &'a str)> {
    message.death.and_then(|_| dead_letters_of(message.subject))
}

/// Dead letters of one group that are not written yet.
struct PendingBatch {
    batch: PublishBatch,
    /// For each message of the batch, in order: when it died, and why.
    deaths: Vec<(Millis, Death)>,
}

/// See the module. Nothing else may be ready for these groups meanwhile.
pub(crate) struct DeadLetterWriter<'a> {
    store: &'a Store,
    batches: BTreeMap<(String, String), PendingBatch>,
}

impl<'a> DeadLetterWriter<'a> {
    pub(crate) fn new(store: &'a Store) -> Self {
        Self { store, batches: BTreeMap::new() }
    }

    /// Takes a dead letter that has its reason. Returns false for every other message.
    pub(crate) fn take(&mut self, message: &SalvagedMessage<'_>) -> Result<bool> {
        let (Some((subject, group)), Some(death)) = (dead_letter_of(message), message.death) else {
            return Ok(false);
        };
        let store = self.store;
        let pending = self
            .batches
            .entry((subject.to_owned(), group.to_owned()))
            .or_insert_with(|| PendingBatch { batch: store.batch(), deaths: Vec::new() });
        let retries = retry_subject(subject, group);
        if pending.batch.len() >= BATCH_MESSAGES {
            write_batch(store, subject, group, pending)?;
        }
        match pending.batch.push_salvaged(&retries, message.due, &message.message) {
            Err(Error::TooLarge { .. }) if !pending.batch.is_empty() => {
                write_batch(store, subject, group, pending)?;
                pending.batch.push_salvaged(&retries, message.due, &message.message)?;
            }
            other => other?,
        }
        pending.deaths.push((message.due, death.clone()));
        Ok(true)
    }

    /// Writes the rest.
    pub(crate) fn finish(mut self) -> Result<()> {
        for ((subject, group), pending) in &mut self.batches {
            write_batch(self.store, subject, group, pending)?;
        }
        Ok(())
    }
}

/// Publishes the batch to the group's retries, and moves it from there to the dead letters.
fn write_batch(store: &Store, subject: &str, group: &str, pending: &mut PendingBatch) -> Result<()> {
    if pending.batch.is_empty() {
        return Ok(());
    }
    store.begin_named_group(&retry_subject(subject, group), group)?;
    let first = store.publish(&mut pending.batch)?.first_sequence();
    let deaths = std::mem::take(&mut pending.deaths);
    let options = SubscribeOptions { in_flight_max: BATCH_MESSAGES as u32, ..SubscribeOptions::default() };
    let consumer = store.subscribe(subject, group, options)?;
    // An expiry is no reason to lose a dead letter, or to give it another reason.
    consumer.takes_expired.store(true, Ordering::Relaxed);
    let (mut left, mut silence) = (deaths.len(), Duration::ZERO);
    while left > 0 {
        let given = consumer.pull(left, LOOK_UP)?;
        silence = if given.is_empty() { silence.saturating_add(LOOK_UP) } else { Duration::ZERO };
        if silence >= SILENCE_MAX {
            return Err(Error::DiskFull);
        }
        for message in &given {
            let place = usize::try_from(message.sequence.since(first)).unwrap_or(usize::MAX);
            if let Some((died, death)) = deaths.get(place) {
                consumer.dead_letter_since(message.key, death.clone(), *died)?;
                left = left.saturating_sub(1);
            }
        }
    }
    consumer.close()
}
