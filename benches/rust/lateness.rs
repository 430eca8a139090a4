//! From the due time to the consumer's own code having the message, at a steady rate.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use delaymq_core::store::{PendingOf, PendingQuery};
use delaymq_core::units::Millis;
use delaymq_engine::{Due, Store, SubscribeOptions, Subscription};

use crate::case::{Case, Failure, Figures, far_ms, now_us, percentiles, publish, rate, take_late, wait_applied};

const SUBJECT: &str = "bench.lateness";
const PULL_MESSAGES: usize = 1_024;
const IN_FLIGHT_MAX: u32 = 16_384;
const LISTED_PAGE: usize = 10_000;
const SILENCE: Duration = Duration::from_secs(10); // after it, what has not come is lost

/// Publishes `rate_per_s` times `milliseconds` messages, due evenly, then consumes them.
pub(crate) fn run(case: &Case) -> Result<Figures, Failure> {
    let (rate, milliseconds) = (case.count("rate_per_s")?, case.count("milliseconds")?);
    let messages = rate.saturating_mul(milliseconds) / 1_000;
    let store = case.open(|options| options.owner.keep_finished_ms = 0)?;
    let options = SubscribeOptions { in_flight_max: IN_FLIGHT_MAX, ..SubscribeOptions::default() };
    let subscription = store.subscribe(SUBJECT, "bench", options)?;
    fill(case, &store)?;
    // Five microseconds for each message to be published are several times what it takes.
    let first_ms = now_us() / 1_000 + case.count("lead_ms")? + messages / 200;
    publish(&store, SUBJECT, messages, (1_000, &[0xA5; 64]), |number| {
        Due::At(Millis(first_ms + number.saturating_mul(1_000) / rate))
    })?;
    let stop = Arc::new(AtomicBool::new(false));
    let beside = case.flag("beside_publishing").then(|| {
        let (store, stop) = (Arc::clone(&store), Arc::clone(&stop));
        std::thread::spawn(move || publish_at_half_speed(&store, &stop))
    });
    let listing = case.flag("beside_listing").then(|| {
        let (store, stop) = (Arc::clone(&store), Arc::clone(&stop));
        std::thread::spawn(move || list_again_and_again(&store, &stop))
    });
    let late = consume(&subscription, messages);
    stop.store(true, Ordering::Release);
    let listed = listing.map(|thread| thread.join().map_err(|_| Failure("the list died".to_owned())));
    let published = beside.and_then(|thread| thread.join().ok()).unwrap_or(Ok(0))?;
    let mut figures = percentiles(&mut late?);
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    figures.insert("published_beside", published as f64);
    if let Some(listed_per_s) = listed {
        figures.insert("listed_per_s", listed_per_s??);
    }
    figures.insert("value", figures.get("p99_ms").copied().unwrap_or(0.0));
    subscription.close()?;
    store.close()?;
    Ok(figures)
}

/// Publishes as many messages that are due long after as the case says, and waits until they lie in runs.
fn fill(case: &Case, store: &Store) -> Result<(), Failure> {
    let pending = case.count("pending")?;
    if pending > 0 {
        publish(store, "bench.far", pending, (10_000, &[0xA5; 64]), |number| Due::After(far_ms(number)))?;
        wait_applied(store)?;
        store.checkpoint()?;
    }
    Ok(())
}

fn consume(subscription: &Subscription, messages: u64) -> Result<Vec<f64>, Failure> {
    let mut late = Vec::with_capacity(usize::try_from(messages).unwrap_or(0));
    let mut heard = Instant::now();
    while (late.len() as u64) < messages {
        if take_late(subscription, (PULL_MESSAGES, Duration::from_millis(500)), &mut late)? > 0 {
            heard = Instant::now();
        } else if heard.elapsed() > SILENCE {
            return Err(Failure(format!("{} of {messages} messages came", late.len())));
        }
    }
    Ok(late)
}

/// Lists all that is pending, page by page and from the beginning again, until told to stop; returns how many entries
/// that were a second.
fn list_again_and_again(store: &Store, stop: &AtomicBool) -> Result<f64, Failure> {
    let query = PendingQuery { of: PendingOf::Users, ..PendingQuery::default() };
    let (started, mut listed) = (Instant::now(), 0_u64);
    while !stop.load(Ordering::Acquire) {
        let mut reader = store.pending(&query)?;
        while let Some(page) = reader.next_page(LISTED_PAGE)?.filter(|_| !stop.load(Ordering::Acquire)) {
            listed = listed.saturating_add(page.entries.len() as u64);
        }
    }
    Ok(rate(listed, started.elapsed()))
}

/// Publishes, then rests for as long as that took, until told to stop; returns how many.
fn publish_at_half_speed(store: &Store, stop: &AtomicBool) -> Result<u64, Failure> {
    let mut published = 0_u64;
    while !stop.load(Ordering::Acquire) {
        let started = Instant::now();
        publish(store, "bench.beside", 1_000, (100, &[0x5A; 256]), |_| Due::After(3_600_000))?;
        published = published.saturating_add(1_000);
        std::thread::sleep(started.elapsed());
    }
    Ok(published)
}
