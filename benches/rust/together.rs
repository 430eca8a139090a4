//! Messages over so many subjects in turn, ready at once, as in [`crate::subjects`]; but one subscription consumes from
//! all subjects.

use std::time::{Duration, Instant};

use delaymq_core::store::Selection;
use delaymq_engine::{SubscribeOptions, Subscription};

use crate::case::{Case, Failure, Figures, rate};
use crate::memory::anonymous_bytes;
use crate::subjects::{flush, own, publish_in_turn};

const PULL_MESSAGES: usize = 4_096;
const IN_FLIGHT_MAX: u32 = 16_384;
const SILENCE: Duration = Duration::from_secs(30);

pub(crate) fn run(case: &Case) -> Result<Figures, Failure> {
    let (messages, subjects) = (case.count("messages")?, case.count("subjects")?);
    let names: Vec<String> = (0..subjects).map(|number| format!("bench.subjects.{number}")).collect();
    let store = case.open(|_| ())?;
    let (empty, files, threads) = (anonymous_bytes(), own("fd"), own("task"));
    let began = Instant::now();
    let options = SubscribeOptions { in_flight_max: IN_FLIGHT_MAX, ..SubscribeOptions::default() };
    let subscription = store.subscribe_to(Selection::of(&names)?, "bench", options)?;
    let subscribed = began.elapsed();
    let (files, threads) = (own("fd") - files, own("task") - threads);
    let each = (anonymous_bytes() - empty).max(0.0) / rate(subjects, Duration::from_secs(1));
    let started = Instant::now();
    let pulls = std::thread::scope(|scope| {
        let publisher = scope.spawn(|| publish_in_turn(&store, &names, case, messages));
        let pulls = consume(&subscription, messages);
        publisher.join().map_err(|_| Failure("the publisher died".to_owned()))??;
        pulls
    })?;
    flush(&store, &subscription)?;
    let time = started.elapsed();
    drop(subscription);
    store.close()?;
    Ok(Figures::from([
        ("value", rate(messages, time)),
        ("bytes_per_subject", each),
        ("files_added", files),
        ("threads_added", threads),
        ("subscribe_s", subscribed.as_secs_f64()),
        ("messages_per_pull", rate(messages, Duration::from_secs(pulls.max(1)))),
    ]))
}

/// Takes and acknowledges all messages, and returns in how many pulls.
fn consume(subscription: &Subscription, messages: u64) -> Result<u64, Failure> {
    let (mut came, mut pulls) = (0, 0_u64);
    while came < messages {
        let batch = subscription.pull(PULL_MESSAGES, SILENCE)?;
        if batch.is_empty() {
            return Err(Failure(format!("{came} of {messages} messages came")));
        }
        let keys: Vec<_> = batch.iter().map(|message| message.key).collect();
        subscription.acknowledge(&keys)?;
        came = came.saturating_add(batch.len() as u64);
        pulls = pulls.saturating_add(1);
    }
    Ok(pulls)
}
