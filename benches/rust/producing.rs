//! A process that publishes to a server: so many connections with so many requests in flight on each.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use delaymq_core::wire::client::caller::Heard;
use delaymq_core::wire::extension::PUBLISH;
use delaymq_core::wire::extension::publish::{DueTime, PublishWriter};
use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::time::Timespec;

use crate::case::{Case, Failure, Figures, now_us, percentiles, rate};
use crate::client::{Client, tell_others, told_by_others};

/// What everybody publishes to.
pub(crate) const SUBJECT: &str = "bench.served";
/// After so long without an answer the server is lost.
const SILENCE: Timespec = Timespec { tv_sec: 20, tv_nsec: 0 };
const EVENTS: usize = 256;

/// Publishes `messages` by `batch` to a request, each request answered when it is durable, and tells how
/// many a second, when it began and how long answers took. With `meets` it waits for
/// the consumer, with `beside` for the hostile process.
pub(crate) fn run(case: &Case) -> Result<Figures, Failure> {
    let mut work = Work::of(case)?;
    let in_flight = usize::try_from(case.count("in_flight")?).unwrap_or(usize::MAX);
    let (sockets, mut lines) = (epoll::create(epoll::CreateFlags::CLOEXEC)?, Vec::new());
    for number in 0..case.count("connections")? {
        let mut client = Client::of(case)?;
        client.ping()?;
        epoll::add(&sockets, &client.socket, epoll::EventData::new_u64(number), epoll::EventFlags::IN)?;
        lines.push(Line { client, asked: VecDeque::new(), in_flight });
    }
    if case.flag("meets") {
        told_by_others(&case.folder.join("consuming"))?;
    }
    if case.flag("beside") {
        told_by_others(&case.folder.join("hostile"))?;
    }
    let (began_us, started) = (now_us(), Instant::now());
    for line in &mut lines {
        work.rest_until_due(started);
        line.fill(&mut work)?;
    }
    let mut events = Vec::with_capacity(EVENTS);
    while (work.answers.len() as u64) < work.requests {
        if epoll::wait(&sockets, spare_capacity(&mut events), Some(&SILENCE))? == 0 {
            return Err(Failure(format!("{} of {} requests were answered", work.answers.len(), work.requests)));
        }
        for event in events.drain(..) {
            let number = event.data.u64();
            if let Some(line) = usize::try_from(number).ok().and_then(|number| lines.get_mut(number)) {
                line.turn(&mut work, started)?;
            }
        }
    }
    let time = started.elapsed();
    tell_others(&case.folder.join("done"), "")?;
    let mut figures = percentiles(&mut work.answers);
    figures.remove("early");
    figures.remove("count");
    #[expect(clippy::cast_precision_loss, reason = "microseconds of our time fit into 2^52")]
    figures.insert("began_us", began_us as f64);
    figures.insert("value", rate(work.messages, time));
    Ok(figures)
}

/// One connection.
struct Line {
    client: Client,
    /// When what is not answered was asked, in order.
    asked: VecDeque<Instant>,
    in_flight: usize,
}

impl Line {
    /// Reads once, and asks as many times as it was answered.
    fn turn(&mut self, work: &mut Work, started: Instant) -> Result<(), Failure> {
        self.client.receive()?;
        while let Some(heard) = self.client.hear()? {
            let Heard::Answer { .. } = heard else { continue };
            if let Some(asked) = self.asked.pop_front() {
                work.answers.push(milliseconds(asked.elapsed()));
            }
        }
        work.rest_until_due(started);
        self.fill(work)
    }

    fn fill(&mut self, work: &mut Work) -> Result<(), Failure> {
        while self.client.pending() < self.in_flight && work.next()? {
            let (writer, wants_receipts) = (&work.writer, work.wants_receipts);
            self.client.ask(PUBLISH, |out| writer.put(out, wants_receipts))?;
            self.asked.push_back(Instant::now());
            if !work.gathers {
                self.client.send()?;
            }
        }
        self.client.send()
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// What is to be published, and what was answered.
struct Work {
    messages: u64,
    requests: u64,
    batch: u64,
    made: u64,
    /// Between two requests, where they are not sent as fast as they are answered.
    every: Duration,
    due: DueTime,
    wants_receipts: bool,
    /// One write for all requests that there is room for, not one for each.
    gathers: bool,
    body: Vec<u8>,
    writer: PublishWriter,
    /// Milliseconds that each answer took.
    answers: Vec<f64>,
}

impl Work {
    fn of(case: &Case) -> Result<Self, Failure> {
        let (messages, batch) = (case.count("messages")?, case.count("batch")?.max(1));
        let requests = messages.div_ceil(batch);
        Ok(Self {
            messages,
            requests,
            batch,
            made: 0,
            every: Duration::from_micros(case.count("every_us").unwrap_or(0)),
            due: DueTime::After(case.count("delay_ms")?),
            wants_receipts: case.flag("receipts"),
            gathers: case.flag("gathers"),
            body: vec![0xA5; usize::try_from(case.count("body_bytes")?).unwrap_or(0)],
            writer: PublishWriter::default(),
            answers: Vec::with_capacity(usize::try_from(requests).unwrap_or(0)),
        })
    }

    /// Waits until it is time for the next request.
    fn rest_until_due(&self, started: Instant) {
        let requests = u32::try_from(self.made / self.batch).unwrap_or(u32::MAX);
        std::thread::sleep(self.every.saturating_mul(requests).saturating_sub(started.elapsed()));
    }

    /// Writes the next request; false where there is none. Each body begins with the message's number.
    fn next(&mut self) -> Result<bool, Failure> {
        self.writer.clear();
        let end = self.made.saturating_add(self.batch).min(self.messages);
        for number in self.made..end {
            if let Some(head) = self.body.first_chunk_mut() {
                *head = number.to_le_bytes();
            }
            self.writer.push(SUBJECT, self.due, &[], &self.body)?;
        }
        self.made = end;
        Ok(!self.writer.is_empty())
    }
}
