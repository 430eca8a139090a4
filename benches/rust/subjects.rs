//! Messages over so many subjects in turn, ready at once: messages a second from the first publish until
//! all are acknowledged, each subject consumed by a subscription of its own and all of these by one thread.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use delaymq_engine::{Due, Listener, Pulled, Store, SubscribeOptions, Subscription};

use crate::case::{Case, Failure, Figures, rate};
use crate::memory::anonymous_bytes;

const PULL_MESSAGES: usize = 256;
const LOOK_AGAIN: Duration = Duration::from_millis(20);
const SILENCE: Duration = Duration::from_secs(30);

/// One thread that consumes from every subject.
struct Consumer {
    subscriptions: Vec<Arc<Subscription>>,
    listener: Listener,
    news: Receiver<()>,
    /// Subscriptions that are to be asked although no news was told.
    again: Vec<u64>,
    came: u64,
    pulls: u64,
}

pub(crate) fn run(case: &Case) -> Result<Figures, Failure> {
    let (messages, subjects) = (case.count("messages")?, case.count("subjects")?);
    let names: Vec<String> = (0..subjects).map(|number| format!("bench.subjects.{number}")).collect();
    let store = case.open(|_| ())?;
    let (empty, files, threads) = (anonymous_bytes(), own("fd"), own("task"));
    let began = Instant::now();
    let mut consumer = Consumer::of(&store, &names)?;
    let subscribed = began.elapsed();
    let (files, threads) = (own("fd") - files, own("task") - threads);
    let each = (anonymous_bytes() - empty).max(0.0) / rate(subjects, Duration::from_secs(1));
    let started = Instant::now();
    std::thread::scope(|scope| {
        let publisher = scope.spawn(|| publish_in_turn(&store, &names, case, messages));
        let consumed = consumer.consume(messages);
        publisher.join().map_err(|_| Failure("the publisher died".to_owned()))??;
        consumed
    })?;
    if let Some(subscription) = consumer.subscriptions.first() {
        flush(&store, subscription)?;
    }
    let time = started.elapsed();
    let pulls = consumer.pulls;
    drop(consumer);
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

/// How many open files, or threads, this process has.
pub(crate) fn own(folder: &str) -> f64 {
    let count = std::fs::read_dir(format!("/proc/self/{folder}")).map_or(0, Iterator::count);
    rate(count as u64, Duration::from_secs(1))
}

pub(crate) fn publish_in_turn(store: &Store, names: &[String], case: &Case, messages: u64) -> Result<(), Failure> {
    let body = vec![0xA5; usize::try_from(case.count("body_bytes")?).unwrap_or(0)];
    let batch = case.count("batch")?;
    let mut filling = store.batch();
    let numbered = names.iter().cycle().zip(1..=messages);
    for (name, number) in numbered {
        filling.push(name, Due::After(0), &[], &body)?;
        if number % batch == 0 || number == messages {
            store.publish(&mut filling)?;
        }
    }
    Ok(())
}

impl Consumer {
    fn of(store: &Arc<Store>, names: &[String]) -> Result<Self, Failure> {
        let (teller, news) = sync_channel(1);
        let listener = store.listener(Box::new(move || {
            let _is_told_already = teller.try_send(());
        }))?;
        let mut subscriptions = Vec::with_capacity(names.len());
        for (token, name) in names.iter().enumerate() {
            let subscription = store.subscribe(name, "bench", SubscribeOptions::default())?;
            subscription.watch_by(&listener, token as u64)?;
            subscriptions.push(subscription);
        }
        let again = (0..names.len() as u64).collect();
        Ok(Self { subscriptions, listener, news, again, came: 0, pulls: 0 })
    }

    fn consume(&mut self, messages: u64) -> Result<(), Failure> {
        let mut heard = Instant::now();
        while self.came < messages {
            let before = self.came;
            let mut tokens = std::mem::take(&mut self.again);
            tokens.extend(self.listener.drain()?.0.tokens);
            for token in tokens {
                self.ask(token)?;
            }
            if self.came > before {
                heard = Instant::now();
            } else if heard.elapsed() > SILENCE {
                return Err(Failure(format!("{} of {messages} messages came", self.came)));
            }
            if self.again.is_empty() {
                // What it says does not matter: the next look finds what there is.
                let _news = self.news.recv_timeout(LOOK_AGAIN);
            }
        }
        Ok(())
    }

    /// Takes and acknowledges what one subscription has.
    fn ask(&mut self, token: u64) -> Result<(), Failure> {
        let Some(subscription) = usize::try_from(token).ok().and_then(|at| self.subscriptions.get(at)) else {
            return Ok(());
        };
        loop {
            let batch = match subscription.try_pull(PULL_MESSAGES, false)? {
                Pulled::Messages(batch) => batch,
                Pulled::Nothing => return Ok(()),
                Pulled::WouldWait => subscription.pull(PULL_MESSAGES, Duration::ZERO)?,
            };
            if batch.is_empty() {
                self.again.push(token);
                return Ok(());
            }
            let keys: Vec<_> = batch.iter().map(|message| message.key).collect();
            subscription.acknowledge(&keys)?;
            self.came = self.came.saturating_add(batch.len() as u64);
            self.pulls = self.pulls.saturating_add(1);
        }
    }
}

/// Waits until all acknowledgements of the store are durable.
pub(crate) fn flush(store: &Store, subscription: &Subscription) -> Result<(), Failure> {
    let end = subscription.submit_flush()?;
    while !store.want(end)? {
        std::thread::sleep(Duration::from_micros(100));
    }
    Ok(())
}
