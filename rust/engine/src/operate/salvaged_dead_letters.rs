//! Dead letters of a damaged store, put away again in the new one. A reason stands in the fact that
//! made the dead letter and nowhere else, so each is given to its group and put away by it once more.

use std::collections::BTreeMap;
use std::time::Duration;

use delaymq_core::error::{Error, Result};
use delaymq_core::store::{SalvagedMessage, dead_letters_of, retry_subject};
use delaymq_core::units::Millis;

use crate::options::SubscribeOptions;
use crate::publish::batch::PublishBatch;
use crate::store::Store;

/// Dead letters published, and put away, together.
const TOGETHER: usize = 1_000;
/// What was published at once is ready at once: only a store that cannot write keeps it back so long.
const SILENCE_MAX: Duration = Duration::from_secs(30);
const LOOK_UP: Duration = Duration::from_millis(500);

/// Where a dead letter with a reason goes: its subject and its group.
pub(crate) fn grave_of<'a>(message: &SalvagedMessage<'a>) -> Option<(&'a str, &'a str)> {
    message.reason.and_then(|_| dead_letters_of(message.subject))
}

/// Dead letters of one group that are not written yet.
struct Grave {
    batch: PublishBatch,
    /// Of those in the batch, in order: when each died, and why.
    stones: Vec<(Millis, String)>,
}

/// See the module. Nothing else may be ready for these groups meanwhile.
pub(crate) struct Burying<'a> {
    store: &'a Store,
    graves: BTreeMap<(String, String), Grave>,
}

impl<'a> Burying<'a> {
    pub(crate) fn new(store: &'a Store) -> Self {
        Self { store, graves: BTreeMap::new() }
    }

    /// Takes a dead letter that has its reason; false for every other message.
    pub(crate) fn take(&mut self, message: &SalvagedMessage<'_>) -> Result<bool> {
        let (Some((subject, group)), Some(reason)) = (grave_of(message), message.reason) else { return Ok(false) };
        let store = self.store;
        let grave = self
            .graves
            .entry((subject.to_owned(), group.to_owned()))
            .or_insert_with(|| Grave { batch: store.batch(), stones: Vec::new() });
        let retries = retry_subject(subject, group);
        if grave.batch.len() >= TOGETHER {
            bury(store, subject, group, grave)?;
        }
        match grave.batch.push_salvaged(&retries, message.due, &message.message) {
            Err(Error::TooLarge { .. }) if !grave.batch.is_empty() => {
                bury(store, subject, group, grave)?;
                grave.batch.push_salvaged(&retries, message.due, &message.message)?;
            }
            other => other?,
        }
        grave.stones.push((message.due, reason.to_owned()));
        Ok(true)
    }

    /// Writes the rest.
    pub(crate) fn finish(mut self) -> Result<()> {
        for ((subject, group), grave) in &mut self.graves {
            bury(self.store, subject, group, grave)?;
        }
        Ok(())
    }
}

/// Publishes what is in the batch to the group's retries, and puts it away from there.
fn bury(store: &Store, subject: &str, group: &str, grave: &mut Grave) -> Result<()> {
    if grave.batch.is_empty() {
        return Ok(());
    }
    store.begin_named_group(&retry_subject(subject, group), group)?;
    let first = store.publish(&mut grave.batch)?.first_sequence();
    let stones = std::mem::take(&mut grave.stones);
    let options = SubscribeOptions { in_flight_max: TOGETHER as u32, ..SubscribeOptions::default() };
    let consumer = store.subscribe(subject, group, options)?;
    let (mut left, mut silence) = (stones.len(), Duration::ZERO);
    while left > 0 {
        let given = consumer.pull(left, LOOK_UP)?;
        silence = if given.is_empty() { silence.saturating_add(LOOK_UP) } else { Duration::ZERO };
        if silence >= SILENCE_MAX {
            return Err(Error::DiskFull);
        }
        for message in &given {
            let place = usize::try_from(message.sequence.since(first)).unwrap_or(usize::MAX);
            if let Some((died, reason)) = stones.get(place) {
                consumer.dead_letter_since(message.key, reason, *died)?;
                left = left.saturating_sub(1);
            }
        }
    }
    consumer.close()
}
