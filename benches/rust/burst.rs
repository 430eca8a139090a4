//! So many messages due in the same millisecond, of one subject or of several: seconds until a consumer has them all.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use delaymq_core::units::Millis;
use delaymq_engine::{Delivered, Due, PublishBatch, Store, SubscribeOptions, Subscription};

use crate::case::{Case, Failure, Figures, now_us, percentiles, publish, take_late, wait_applied};
use crate::memory::anonymous_bytes;

const PULL_MESSAGES: usize = 1_024;
const IN_FLIGHT_MAX: u32 = 16_384;
/// Messages between two looks at the memory.
const LOOK_EVERY: u64 = 20_000;
const SILENCE: Duration = Duration::from_secs(30);
const PUBLISH_MESSAGES: usize = 10_000;
/// How long one subject is waited for; each of several as long as none of them has anything.
const PULL_WAIT: Duration = Duration::from_millis(500);
const PULL_WAIT_OF_SEVERAL: Duration = Duration::from_millis(5);

/// Another subject, of which a little is due all the while.
const NEIGHBOUR: &str = "bench.neighbour";
const NEIGHBOUR_EVERY_MS: u64 = 2;
const NEIGHBOUR_MESSAGES: u64 = 30_000;

/// How many subjects it is of.
fn subjects(case: &Case) -> u64 {
    case.count("subjects").unwrap_or(1).max(1)
}

fn subject(number: u64) -> String {
    format!("bench.burst.{number}")
}

/// Publishes the burst, of all subjects by turns, and tells when it is due: `due_ms`.
fn prepare(store: &Store, case: &Case) -> Result<u64, Failure> {
    let messages = case.count("messages")?;
    let due_ms = now_us() / 1_000 + case.count("lead_ms")?;
    let names: Vec<String> = (0..subjects(case)).map(subject).collect();
    let mut filling: PublishBatch = store.batch();
    for (_, name) in (0..messages).zip(names.iter().cycle()) {
        filling.push(name, Due::At(Millis(due_ms)), &[], &[0xA5; 64])?;
        if filling.len() >= PUBLISH_MESSAGES {
            store.publish(&mut filling)?;
        }
    }
    if !filling.is_empty() {
        store.publish(&mut filling)?;
    }
    publish(store, NEIGHBOUR, NEIGHBOUR_MESSAGES, (10_000, &[0x5A; 64]), |number| {
        Due::At(Millis(due_ms + number * NEIGHBOUR_EVERY_MS))
    })?;
    wait_applied(store)?;
    if now_us() / 1_000 >= due_ms {
        return Err(Failure("the burst was due before all of it was published: a longer lead_ms is needed".to_owned()));
    }
    Ok(due_ms)
}

/// Who consumes the burst: one thread with a subscription for each of its subjects.
struct Consumers {
    subscriptions: Vec<Arc<Subscription>>,
    /// Whose turn it is.
    next: usize,
    /// How many of them had nothing, one after the other.
    had_nothing: usize,
}

impl Consumers {
    fn of(store: &Store, subjects: u64) -> Result<Self, Failure> {
        let options = SubscribeOptions { in_flight_max: IN_FLIGHT_MAX, ..SubscribeOptions::default() };
        let subscribe = |number| store.subscribe(&subject(number), "bench", options.clone());
        let subscriptions = (0..subjects).map(subscribe).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { subscriptions, next: 0, had_nothing: 0 })
    }

    /// What the next one has, acknowledged; nothing where it has nothing.
    fn pull(&mut self) -> Result<Vec<Delivered>, Failure> {
        let count = self.subscriptions.len();
        let wait = match (count, self.had_nothing < count) {
            (1, _) => PULL_WAIT,
            (_, true) => Duration::ZERO,
            (_, false) => PULL_WAIT_OF_SEVERAL,
        };
        let Some(subscription) = self.subscriptions.get(self.next) else { return Ok(Vec::new()) };
        let batch = subscription.pull(PULL_MESSAGES, wait)?;
        let keys: Vec<_> = batch.iter().map(|message| message.key).collect();
        subscription.acknowledge(&keys)?;
        self.next = (self.next + 1) % count;
        self.had_nothing = if batch.is_empty() { self.had_nothing + 1 } else { 0 };
        Ok(batch)
    }
}

/// Consumes what is due of the other subject until told to stop, and tells in milliseconds how late each message was.
fn neighbour(subscription: &Subscription, stop: &AtomicBool) -> Result<Vec<f64>, Failure> {
    let mut late = Vec::new();
    while !stop.load(Ordering::Acquire) {
        take_late(subscription, (PULL_MESSAGES, Duration::from_millis(50)), &mut late)?;
    }
    subscription.close()?;
    Ok(late)
}

/// Consumes the burst, acknowledging all, and tells the seconds from the due time to the last message, and how late
/// messages of another subject came meanwhile.
pub(crate) fn run(case: &Case) -> Result<Figures, Failure> {
    let messages = case.count("messages")?;
    let store = case.open(|_| ())?;
    let mut consumers = Consumers::of(&store, subjects(case))?;
    let beside = store.subscribe(NEIGHBOUR, "bench", SubscribeOptions::default())?;
    let due_ms = prepare(&store, case)?;
    let stop = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&stop);
    let beside = std::thread::spawn(move || neighbour(&beside, &told));
    let empty = anonymous_bytes();
    let mut highest = empty;
    let (mut came, mut early, mut heard) = (0_u64, 0_u64, Instant::now());
    let mut last_us = 0;
    while came < messages {
        let batch = consumers.pull()?;
        if batch.is_empty() {
            if now_us() < due_ms * 1_000 {
                // A large one is due later than that after it was published.
                heard = Instant::now();
            }
            if heard.elapsed() > SILENCE {
                return Err(Failure(format!("{came} of {messages} messages came")));
            }
            continue;
        }
        (heard, last_us) = (Instant::now(), now_us());
        early = early.saturating_add(if last_us < due_ms * 1_000 { batch.len() as u64 } else { 0 });
        if (came / LOOK_EVERY) != (came + batch.len() as u64) / LOOK_EVERY {
            highest = highest.max(anonymous_bytes());
        }
        came = came.saturating_add(batch.len() as u64);
    }
    stop.store(true, Ordering::Release);
    let mut late = beside.join().map_err(|_| Failure("who consumes beside it has failed".to_owned()))??;
    let beside = percentiles(&mut late);
    consumers.subscriptions.iter().try_for_each(|one| one.close())?;
    store.close()?;
    #[expect(clippy::cast_precision_loss, reason = "microseconds of our time fit into 2^52")]
    let seconds = last_us.saturating_sub(due_ms * 1_000) as f64 / 1e6;
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    let early = early as f64 + beside.get("early").copied().unwrap_or(0.0);
    let of_neighbour = |name| beside.get(name).copied().unwrap_or(0.0);
    Ok(Figures::from([
        ("value", seconds),
        ("early", early),
        ("memory_growth_bytes", highest - empty),
        ("neighbour_p50_ms", of_neighbour("p50_ms")),
        ("neighbour_p99_ms", of_neighbour("p99_ms")),
        ("neighbour_max_ms", of_neighbour("max_ms")),
        ("neighbour_count", of_neighbour("count")),
    ]))
}
