//! So many messages that are ready and that nobody has pulled: what they cost in memory, and how fast a
//! group that starts at the earliest reads them.

use std::io::{Write, stderr};
use std::time::{Duration, Instant};

use delaymq_engine::{Due, Store, SubscribeOptions, Subscription};

use crate::case::{Case, Failure, Figures, publish, rate, wait_applied};
use crate::memory::{MIB, anonymous_bytes};

const SUBJECT: &str = "bench.backlog";
const PULL_MESSAGES: usize = 1_024;
const IN_FLIGHT_MAX: u32 = 16_384;
/// Messages between two looks at the memory.
const LOOK_EVERY: u64 = 50_000;
/// Between two words on how far it is.
const TELL_EVERY: Duration = Duration::from_secs(5);
const SILENCE: Duration = Duration::from_secs(30);
const FLUSH_WAIT: Duration = Duration::from_secs(60);

/// Makes `groups` groups, then publishes `messages` that are due at once, all of which lie in runs at the
/// end. The value is by how much memory is higher then; `memory_growth_bytes` by how much it was at most.
pub(crate) fn fill(case: &Case) -> Result<Figures, Failure> {
    let (messages, groups) = (case.count("messages")?, case.count("groups")?);
    let body = vec![0xA5; usize::try_from(case.count("body_bytes")?).unwrap_or(0)];
    let store = case.open(|_| ())?;
    for group in 0..groups {
        subscribe(&store, group)?.close()?;
    }
    publish(&store, SUBJECT, 10_000, (1_000, &body), |_| Due::After(0))?;
    settle(&store)?;
    let empty = anonymous_bytes();
    let (mut highest, mut left) = (empty, messages.saturating_sub(10_000));
    let mut telling = Telling::of(case, "published", messages);
    while left > 0 {
        let part = left.min(LOOK_EVERY);
        publish(&store, SUBJECT, part, (10_000, &body), |_| Due::After(0))?;
        let now = anonymous_bytes();
        highest = highest.max(now);
        left -= part;
        telling.tell(messages.saturating_sub(left), now - empty);
    }
    settle(&store)?;
    let full = anonymous_bytes();
    store.close()?;
    Ok(Figures::from([("value", (full - empty).max(0.0)), ("memory_growth_bytes", (highest - empty).max(0.0))]))
}

/// Messages a second from the subscribe until all are acknowledged, durably as the store promises.
pub(crate) fn drain(case: &Case) -> Result<Figures, Failure> {
    let (messages, group) = (case.count("messages")?, case.count("group")?);
    let store = case.open(|_| ())?;
    let empty = anonymous_bytes();
    let started = Instant::now();
    let subscription = subscribe(&store, group)?;
    let (mut came, mut highest, mut heard) = (0_u64, empty, Instant::now());
    let mut keys = Vec::with_capacity(PULL_MESSAGES);
    let mut telling = Telling::of(case, "drained", messages);
    while came < messages {
        let batch = subscription.pull(PULL_MESSAGES, Duration::from_millis(500))?;
        if batch.is_empty() && heard.elapsed() > SILENCE {
            return Err(Failure(format!("{came} of {messages} messages came")));
        }
        if !batch.is_empty() {
            heard = Instant::now();
        }
        keys.clear();
        keys.extend(batch.iter().map(|message| message.key));
        subscription.acknowledge(&keys)?;
        if (came / LOOK_EVERY) != (came + batch.len() as u64) / LOOK_EVERY {
            let now = anonymous_bytes();
            highest = highest.max(now);
            telling.tell(came, now - empty);
        }
        came = came.saturating_add(batch.len() as u64);
    }
    if !subscription.flush(FLUSH_WAIT)? {
        return Err(Failure("the acknowledgements did not become durable".to_owned()));
    }
    let time = started.elapsed();
    subscription.close()?;
    store.close()?;
    Ok(Figures::from([("value", rate(messages, time)), ("memory_growth_bytes", (highest - empty).max(0.0))]))
}

/// Tells on standard error how far it is, where that is asked for.
struct Telling {
    verb: &'static str,
    messages: u64,
    last: Option<Instant>,
}

impl Telling {
    fn of(case: &Case, verb: &'static str, messages: u64) -> Self {
        Self { verb, messages, last: case.flag("tells").then(Instant::now) }
    }

    fn tell(&mut self, done: u64, grown_bytes: f64) {
        if self.last.is_some_and(|last| last.elapsed() >= TELL_EVERY) {
            self.last = Some(Instant::now());
            let (verb, messages, grown) = (self.verb, self.messages, grown_bytes / MIB);
            // Where nobody reads it, the measurement goes on.
            let _untold = writeln!(stderr(), "{verb} {done} of {messages}; anonymous memory {grown:+.1} MiB");
        }
    }
}

fn subscribe(store: &Store, group: u64) -> Result<std::sync::Arc<Subscription>, Failure> {
    let options = SubscribeOptions { in_flight_max: IN_FLIGHT_MAX, ..SubscribeOptions::default() };
    Ok(store.subscribe(SUBJECT, &format!("bench-{group}"), options)?)
}

/// Everything applied and in runs.
fn settle(store: &Store) -> Result<(), Failure> {
    wait_applied(store)?;
    Ok(store.checkpoint()?)
}
