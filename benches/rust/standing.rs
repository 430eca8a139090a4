//! What stands by costs a server: connections that are idle, and pulls that are held.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use delaymq_core::units::Millis;
use delaymq_core::wire::extension::publish::{DueTime, PublishWriter};
use delaymq_core::wire::extension::{EXTENSION_VERSION, PUBLISH};
use delaymq_core::wire::frame::Header;
use delaymq_core::wire::qmq::pull::{ConsumerName, PULL, PullRequest, put_pull};
use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::time::Timespec;

use crate::case::{Case, Failure, Figures, now_us, percentiles};
use crate::frames::Line;
use crate::memory::{MIB, anonymous_bytes_of};

const LINES: u64 = 16;
const SUBJECTS: u64 = 100;
const HOLD_MS: i64 = 300_000;
const PULL_VERSION: i16 = 9;
/// Pulls that are sent together, and the pause behind them.
const GROUP: u64 = 100;
const GROUP_PAUSE: Duration = Duration::from_millis(30);
/// Between two messages that wake somebody.
const WAKE_EVERY_MS: u64 = 4;
const SILENCE: Timespec = Timespec { tv_sec: 20, tv_nsec: 0 };
const LOOK_PAUSE: Duration = Duration::from_millis(100);
const LOOKS_MAX: u32 = 50;

/// MiB that so many `connections` add to the server, each of which has asked one thing and is silent.
pub(crate) fn idle(case: &Case) -> Result<Figures, Failure> {
    Line::of(case)?.ping()?;
    let empty = resting_bytes(case)?;
    let mut lines = Vec::new();
    for _ in 0..case.count("connections")? {
        let mut line = Line::of(case)?;
        line.ping()?;
        lines.push(line);
    }
    let full = resting_bytes(case)?;
    drop(lines);
    Ok(Figures::from([("value", (full - empty).max(0.0) / MIB), ("empty_bytes", empty), ("full_bytes", full)]))
}

/// MiB that so many held `pulls` add to the server, each of a consumer of its own that is made with it, and
/// how long after the due time some are woken.
pub(crate) fn held(case: &Case) -> Result<Figures, Failure> {
    let mut publisher = Line::of(case)?;
    let mut lines = (0..LINES).map(|_| Line::of(case)).collect::<Result<Vec<_>, _>>()?;
    lines.iter_mut().chain([&mut publisher]).try_for_each(Line::ping)?;
    let empty = resting_bytes(case)?;
    for number in 0..case.count("pulls")? {
        let place = usize::try_from(number % LINES).unwrap_or(0);
        let Some(line) = lines.get_mut(place) else { continue };
        pull(line, number)?;
        if number % GROUP == GROUP - 1 {
            // As of clients that come one after another; all at once they would wait for the disk.
            lines.iter_mut().try_for_each(Line::send)?;
            std::thread::sleep(GROUP_PAUSE);
        }
    }
    lines.iter_mut().try_for_each(Line::ping)?;
    let full = resting_bytes(case)?;
    let mut figures = percentiles(&mut wake(case, &mut publisher, &mut lines)?);
    figures.insert("value", (full - empty).max(0.0) / MIB);
    figures.insert("empty_bytes", empty);
    figures.insert("full_bytes", full);
    Ok(figures)
}

fn subject(number: u64) -> String {
    format!("bench.held.{}", number % SUBJECTS)
}

fn pull(line: &mut Line, number: u64) -> Result<(), Failure> {
    let (subject, consumer) = (subject(number), format!("consumer-{number}"));
    let request = PullRequest {
        name: ConsumerName { subject: &subject, group: "bench", consumer: &consumer },
        count: 1,
        offset: -1,
        first: -1,
        last: -1,
        timeout_ms: HOLD_MS,
        is_broadcast: false,
        filters: Vec::new(),
    };
    let opaque = i32::try_from(number + 1).unwrap_or(i32::MAX);
    line.put(Header::request(PULL, PULL_VERSION, opaque), |out| put_pull(out, &request, PULL_VERSION))
}

/// Publishes `wakes` messages, each due a little after the one before, and tells how long after its due
/// time each was here.
fn wake(case: &Case, publisher: &mut Line, lines: &mut [Line]) -> Result<Vec<f64>, Failure> {
    let wakes = case.count("wakes")?;
    let first_ms = now_us() / 1_000 + case.count("lead_ms")?;
    let mut dues: HashMap<u64, VecDeque<u64>> = HashMap::new();
    let mut writer = PublishWriter::default();
    for number in 0..wakes {
        let due_ms = first_ms + number * WAKE_EVERY_MS;
        writer.push(&subject(number), DueTime::At(Millis(due_ms)), &[], &[0xA5; 64])?;
        dues.entry(number % SUBJECTS).or_default().push_back(due_ms);
    }
    publisher.put(Header::request(PUBLISH, EXTENSION_VERSION, 1), |out| writer.put(out, false))?;
    publisher.send()?;
    if publisher.wait()?.0.code != 0 {
        return Err(Failure("the publish was refused".to_owned()));
    }
    let (sockets, mut events) = (epoll::create(epoll::CreateFlags::CLOEXEC)?, Vec::with_capacity(64));
    for (number, line) in lines.iter().enumerate() {
        epoll::add(&sockets, &line.socket, epoll::EventData::new_u64(number as u64), epoll::EventFlags::IN)?;
    }
    let mut late = Vec::new();
    while (late.len() as u64) < wakes {
        if epoll::wait(&sockets, spare_capacity(&mut events), Some(&SILENCE))? == 0 {
            return Err(Failure(format!("{} of {wakes} were woken", late.len())));
        }
        for event in events.drain(..) {
            let number = usize::try_from(event.data.u64()).unwrap_or(usize::MAX);
            let Some(line) = lines.get_mut(number) else { continue };
            line.receive()?;
            let now = now_us();
            while let Some((header, _)) = line.next()? {
                let woken = woken(&header)?;
                let due_ms = dues.get_mut(&(woken % SUBJECTS)).and_then(VecDeque::pop_front).unwrap_or(0);
                #[expect(clippy::cast_precision_loss, reason = "microseconds of our time fit into 2^52")]
                late.push(now as f64 / 1e3 - due_ms as f64);
            }
        }
    }
    Ok(late)
}

/// Which of those that wait this answer is for.
fn woken(header: &Header) -> Result<u64, Failure> {
    if header.request_code != PULL || header.code != 0 {
        return Err(Failure(format!("an answer {} to {}", header.code, header.request_code)));
    }
    Ok(u64::try_from(header.opaque).unwrap_or(0).saturating_sub(1))
}

/// Anonymous memory of the server once it does not change any more.
fn resting_bytes(case: &Case) -> Result<f64, Failure> {
    let pid = case.count("pid")?;
    let (started, mut before) = (Instant::now(), 0.0);
    while started.elapsed() < LOOK_PAUSE.saturating_mul(LOOKS_MAX) {
        let bytes = anonymous_bytes_of(&pid.to_string());
        if bytes.to_bits() == f64::to_bits(before) {
            break;
        }
        before = bytes;
        std::thread::sleep(LOOK_PAUSE);
    }
    Ok(before)
}
