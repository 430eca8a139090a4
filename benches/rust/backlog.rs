//! So many messages that are ready and that nobody has pulled: what they cost in memory, and how fast a
//! group reads them, before and after other groups have finished them.

use std::io::{Write, stderr};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use delaymq_engine::{Due, Since, StartAt, Store, SubscribeOptions, Subscription};

use crate::case::{Case, Failure, Figures, publish, rate, wait_applied};
use crate::memory::{MIB, anonymous_bytes};

const SUBJECT: &str = "bench.backlog";
const PULL_MESSAGES: usize = 1_024;
/// Messages between two looks at the memory.
const LOOK_EVERY: u64 = 50_000;
/// Between two words on how far it is.
const TELL_EVERY: Duration = Duration::from_secs(5);
/// Who waits for the last messages looks so often whether they came to others.
const PULL_WAIT: Duration = Duration::from_millis(20);
const SILENCE: Duration = Duration::from_secs(30);
const FLUSH_WAIT: Duration = Duration::from_secs(60);

/// Makes `groups` groups, then publishes `messages`, all of which are ready and lie in runs at the end. They are due at
/// once, or in turn within `delay_ms_max` where that is given. The value is by how much memory is higher then;
/// `memory_growth_bytes` by how much it was at most.
pub(crate) fn fill(case: &Case) -> Result<Figures, Failure> {
    let (messages, groups) = (case.count("messages")?, case.count("groups")?);
    let body = vec![0xA5; usize::try_from(case.count("body_bytes")?).unwrap_or(0)];
    let delay_ms_max = case.count("delay_ms_max").unwrap_or(0);
    let store = case.open(|_| ())?;
    for group in 0..groups {
        subscribe(&store, group, 1)?.close()?;
    }
    publish(&store, SUBJECT, 10_000, (1_000, &body), |_| Due::After(0))?;
    settle(&store)?;
    let empty = anonymous_bytes();
    let (mut highest, mut left) = (empty, messages.saturating_sub(10_000));
    let mut telling = Telling::of(case, "published", messages);
    while left > 0 {
        let part = left.min(LOOK_EVERY);
        publish(&store, SUBJECT, part, (10_000, &body), |number| Due::After(number * 7_919 % delay_ms_max.max(1)))?;
        let now = anonymous_bytes();
        highest = highest.max(now);
        left -= part;
        telling.tell(messages.saturating_sub(left), now - empty);
    }
    std::thread::sleep(Duration::from_millis(delay_ms_max));
    settle(&store)?;
    let full = anonymous_bytes();
    store.close()?;
    Ok(Figures::from([("value", (full - empty).max(0.0)), ("memory_growth_bytes", (highest - empty).max(0.0))]))
}

/// Messages a second from the subscribe until all are acknowledged, durably as the store promises, by
/// `consumers` of the group, each with a thread.
pub(crate) fn drain(case: &Case) -> Result<Figures, Failure> {
    let store = case.open(|_| ())?;
    drain_of(case, &store)
}

/// The same for a group that starts at the earliest message kept, where every group has finished them all. `start_ms`
/// is the time until its start is durable, and `start_at_time_ms` that of another group, whose start is the last
/// message, so that its search reads the last segment; neither is in the value.
pub(crate) fn replay(case: &Case) -> Result<Figures, Failure> {
    let store = case.open(|_| ())?;
    let started = Instant::now();
    store.start_group(SUBJECT, &name_of(case.count("group")?), StartAt::Earliest)?;
    let start_ms = started.elapsed().as_secs_f64() * 1_000.0;
    let ago_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX).saturating_add(5);
    let (last, started) = (StartAt::Due(Since::Ago(ago_ms)), Instant::now());
    let since = format!("{}-since", name_of(case.count("group")?));
    store.start_group(SUBJECT, &since, last)?;
    let start_at_time_ms = started.elapsed().as_secs_f64() * 1_000.0;
    let mut figures = drain_of(case, &store)?;
    figures.extend([("start_ms", start_ms), ("start_at_time_ms", start_at_time_ms)]);
    Ok(figures)
}

fn drain_of(case: &Case, store: &Store) -> Result<Figures, Failure> {
    let (messages, group) = (case.count("messages")?, case.count("group")?);
    let in_flight_max = case.count("in_flight_max")?;
    let drained = Drained {
        messages,
        came: AtomicU64::new(0),
        empty_bytes: anonymous_bytes(),
        highest: Mutex::new((0.0, Telling::of(case, "drained", messages))),
    };
    let started = Instant::now();
    let consumers: Vec<_> =
        (0..case.count("consumers")?).map(|_| subscribe(store, group, in_flight_max)).collect::<Result<_, _>>()?;
    std::thread::scope(|scope| {
        let threads: Vec<_> = consumers.iter().map(|one| scope.spawn(|| drained.by(one))).collect();
        let ended = threads.into_iter().map(|thread| thread.join().unwrap_or(Err(Failure("it panicked".to_owned()))));
        ended.collect::<Result<Vec<()>, Failure>>()
    })?;
    let time = started.elapsed();
    consumers.iter().try_for_each(|one| one.close())?;
    store.close()?;
    let highest = drained.highest.lock().map_or(0.0, |highest| highest.0);
    Ok(Figures::from([("value", rate(messages, time)), ("memory_growth_bytes", highest)]))
}

/// What came to all consumers.
struct Drained {
    messages: u64,
    came: AtomicU64,
    /// Memory before the first message.
    empty_bytes: f64,
    /// By how much memory was higher at most, and who tells of it.
    highest: Mutex<(f64, Telling)>,
}

impl Drained {
    /// Pulls and acknowledges until every message has come to somebody.
    fn by(&self, subscription: &Subscription) -> Result<(), Failure> {
        let mut heard = Instant::now();
        let mut keys = Vec::with_capacity(PULL_MESSAGES);
        while self.came.load(Ordering::Relaxed) < self.messages {
            let batch = subscription.pull(PULL_MESSAGES, PULL_WAIT)?;
            if batch.is_empty() && heard.elapsed() > SILENCE {
                let came = self.came.load(Ordering::Relaxed);
                return Err(Failure(format!("{came} of {} messages came", self.messages)));
            }
            if !batch.is_empty() {
                heard = Instant::now();
            }
            keys.clear();
            keys.extend(batch.iter().map(|message| message.key));
            subscription.acknowledge(&keys)?;
            let count = batch.len() as u64;
            let before = self.came.fetch_add(count, Ordering::Relaxed);
            if before / LOOK_EVERY != (before + count) / LOOK_EVERY {
                self.look(before + count);
            }
        }
        let done = subscription.flush(FLUSH_WAIT)?;
        if done { Ok(()) } else { Err(Failure("the acknowledgements did not become durable".to_owned())) }
    }

    fn look(&self, came: u64) {
        if let Ok(mut highest) = self.highest.lock() {
            let grown = anonymous_bytes() - self.empty_bytes;
            highest.0 = highest.0.max(grown);
            highest.1.tell(came, grown);
        }
    }
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

fn subscribe(store: &Store, group: u64, in_flight_max: u64) -> Result<std::sync::Arc<Subscription>, Failure> {
    let in_flight_max = u32::try_from(in_flight_max).unwrap_or(u32::MAX);
    let options = SubscribeOptions { in_flight_max, ..SubscribeOptions::default() };
    Ok(store.subscribe(SUBJECT, &name_of(group), options)?)
}

fn name_of(group: u64) -> String {
    format!("bench-{group}")
}

/// Everything applied and in runs.
fn settle(store: &Store) -> Result<(), Failure> {
    wait_applied(store)?;
    Ok(store.checkpoint()?)
}
