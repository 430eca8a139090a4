//! So many messages due evenly over one hour: what they cost in memory while they wait and while the hour passes, and
//! how fast they are handed over by a clock that goes as fast as they are consumed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use delaymq_core::units::Millis;
use delaymq_engine::{Clock, ClockReading, Due, OwnerOptions, Store, SubscribeOptions, Subscription};

use crate::case::{Case, Failure, Figures, figure, now_us, publish, rate, wait_applied};
use crate::memory::anonymous_bytes;

const SUBJECT: &str = "bench.hour";
const HOUR_MS: u64 = 3_600_000;
/// The hour begins so long after the publishing, by the store's clock.
const LEAD_MS: u64 = 60_000;
const NANOSECONDS_A_MILLISECOND: u64 = 1_000_000;
const PULL_MESSAGES: usize = 1_024;
const IN_FLIGHT_MAX: u32 = 16_384;
/// The clock is ahead of what has come by so many messages at most, and by a sixteenth of all.
const AHEAD_MESSAGES: u64 = 65_536;
/// How often a sleeper looks at the clock.
const LOOK: Duration = Duration::from_millis(1);
/// Messages between two looks at the memory.
const LOOK_EVERY: u64 = 50_000;
const SILENCE: Duration = Duration::from_secs(30);

/// Shows the time to which it was turned, and never an earlier one.
struct Turned {
    now_ms: AtomicU64,
}

impl Clock for Turned {
    fn read(&self) -> ClockReading {
        let wall_ns = self.now_ms.load(Ordering::SeqCst).saturating_mul(NANOSECONDS_A_MILLISECOND);
        ClockReading { wall_ns, boot_ns: wall_ns }
    }

    fn sleep_max(&self) -> Duration {
        LOOK
    }
}

/// The hour and its messages.
struct Hour {
    clock: Arc<Turned>,
    first_due_ms: u64,
    messages: u64,
}

impl Hour {
    /// When the message with this number is due.
    fn due_ms(&self, number: u64) -> u64 {
        let since = u128::from(number) * u128::from(HOUR_MS) / u128::from(self.messages.max(1));
        self.first_due_ms.saturating_add(u64::try_from(since).unwrap_or(HOUR_MS))
    }

    /// With so many consumed the clock shows when a few more are due.
    fn turn(&self, came: u64) {
        let ahead = AHEAD_MESSAGES.min(self.messages / 16).max(1);
        self.clock.now_ms.fetch_max(self.due_ms(came.saturating_add(ahead)), Ordering::SeqCst);
    }

    /// Publishes all of it in an order that has nothing to do with when it is due, and tells how much memory was taken
    /// at most.
    fn publish(&self, store: &Store) -> Result<f64, Failure> {
        // A prime: each of fewer messages than that is met once.
        const STEP: u64 = 2_654_435_761;
        let (mut highest, mut published) = (0.0_f64, 0);
        while published < self.messages {
            let part = LOOK_EVERY.min(self.messages - published);
            publish(store, SUBJECT, part, (10_000, &[0xA5; 64]), |number| {
                let place = u128::from(published + number) * u128::from(STEP) % u128::from(self.messages);
                Due::At(Millis(self.due_ms(u64::try_from(place).unwrap_or(0))))
            })?;
            published += part;
            highest = highest.max(anonymous_bytes());
        }
        wait_applied(store)?;
        store.checkpoint()?;
        Ok(highest.max(anonymous_bytes()))
    }

    /// Consumes all of it while the hour passes; tells how much memory was taken at most, and how many came early.
    fn pass(&self, subscription: &Subscription) -> Result<(f64, u64), Failure> {
        let (mut came, mut early, mut heard) = (0_u64, 0_u64, Instant::now());
        let (mut highest, mut keys) = (0.0_f64, Vec::with_capacity(PULL_MESSAGES));
        while came < self.messages {
            self.turn(came);
            let batch = subscription.pull(PULL_MESSAGES, Duration::from_millis(100))?;
            let now = Millis(self.clock.now_ms.load(Ordering::SeqCst));
            if batch.is_empty() && heard.elapsed() > SILENCE {
                return Err(Failure(format!("{came} of {} messages came", self.messages)));
            }
            if !batch.is_empty() {
                heard = Instant::now();
            }
            early += batch.iter().filter(|message| message.due > now).count() as u64;
            keys.clear();
            keys.extend(batch.iter().map(|message| message.key));
            subscription.acknowledge(&keys)?;
            let before = came;
            came += batch.len() as u64;
            if before / LOOK_EVERY != came / LOOK_EVERY {
                highest = highest.max(anonymous_bytes());
            }
        }
        Ok((highest, early))
    }
}

/// Messages a second, with the anonymous memory of the process: while it was filled, when all was pending, and while it
/// was drained, each over that of the empty store. Meant for a process of its own.
pub(crate) fn run(case: &Case) -> Result<Figures, Failure> {
    let start_ms = now_us() / 1_000;
    let clock = Arc::new(Turned { now_ms: AtomicU64::new(start_ms) });
    let hour = Hour {
        clock: Arc::clone(&clock),
        first_due_ms: start_ms.saturating_add(LEAD_MS),
        messages: case.count("messages")?,
    };
    let window_bytes = case.count("window_bytes").ok();
    let mut owner = OwnerOptions::default();
    window_bytes.map_or(Ok(()), |bytes| owner.set_window_bytes(bytes))?;
    let store = case.open(|options| (options.clock, options.owner) = (clock, owner))?;
    let options = SubscribeOptions { in_flight_max: IN_FLIGHT_MAX, ..SubscribeOptions::default() };
    let subscription = store.subscribe(SUBJECT, "bench", options)?;
    let empty = anonymous_bytes();
    let filling = Instant::now();
    let filled = hour.publish(&store)?;
    let filling = filling.elapsed();
    let pending = anonymous_bytes();
    let started = Instant::now();
    let (drained, early) = hour.pass(&subscription)?;
    let time = started.elapsed();
    subscription.close()?;
    store.close()?;
    Ok(Figures::from([
        ("value", rate(hour.messages, time)),
        ("early", figure(early)),
        ("filling_s", filling.as_secs_f64()),
        ("filling_bytes", (filled - empty).max(0.0)),
        ("pending_bytes", (pending - empty).max(0.0)),
        ("draining_bytes", (drained - empty).max(0.0)),
        ("anonymous_bytes", filled.max(drained)),
    ]))
}
