//! The publisher: messages, alone and in batches, waited for or left under way; cancels and moves.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use delaymq_core::error::{Error, Result};
use delaymq_core::units::Millis;
use delaymq_engine::{CancelOutcome, Due, MoveOutcome, PublishBatch, Receipt, Receipts, Store, Ticket};

use crate::arguments::Arguments;
use crate::chance::Chance;
use crate::on_terms::OnTerms;
use crate::telling::{Line, Telling, wall_ms};

const META: [u8; 5] = [0; 5];
const BATCH_MAX: u64 = 40;
const TICKETS_MAX: usize = 4;
/// Bytes of a message beside its body, rounded up.
const RECORD_BYTES: u64 = 160;
/// Messages of this life that may be cancelled or moved, at most.
const REMEMBERED_MAX: usize = 64;
/// What is due later than this may be cancelled or moved, in this life or a later one.
const CHANGED_FROM_MS: u64 = 10;
/// Between two tries on a full disk.
const FULL_PAUSE: Duration = Duration::from_millis(5);

/// The digest of a body: FNV-1a.
pub(crate) fn digest(body: &[u8]) -> String {
    let hash = body
        .iter()
        .fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3));
    format!("{hash:016x}")
}

/// Publishes, cancels and moves until the steps are made, if they are counted.
///
/// # Errors
/// What ends the store, and what must not be. A full disk is told and borne.
pub(crate) fn publish(arguments: &Arguments, telling: &Telling, store: &Store) -> Result<()> {
    let mut publisher = Publisher {
        arguments,
        telling,
        store,
        chance: Chance::new(arguments.seed, arguments.life, 0),
        batch: store.batch(),
        count: 0,
        under_way: VecDeque::new(),
        remembered: arguments.changes.clone().into(),
        began: Instant::now(),
        on_terms: arguments.has_terms.then(|| OnTerms::new(arguments, telling, store)),
    };
    for _ in 0..arguments.changes.len() {
        publisher.change()?;
    }
    let mut steps = 0_u64;
    while arguments.steps == 0 || steps < arguments.steps {
        publisher.step()?;
        steps = steps.saturating_add(1);
    }
    while publisher.finish_oldest()? {}
    Ok(())
}

/// The line with when it is due.
fn timed(line: Line, due: Due) -> Line {
    match due {
        Due::After(delay_ms) => line.number("delay_ms", delay_ms),
        Due::At(time) => line.number("due_ms", time.0),
    }
}

/// True where there is time to change it.
fn is_late(due: Due) -> bool {
    let late_ms = match due {
        Due::After(delay_ms) => delay_ms,
        Due::At(time) => time.0.saturating_sub(wall_ms()),
    };
    late_ms > CHANGED_FROM_MS
}

/// A message that was announced, and whether its receipt is worth telling.
struct Announced {
    id: String,
    is_late: bool,
}

struct Publisher<'a> {
    arguments: &'a Arguments,
    telling: &'a Telling,
    store: &'a Store,
    chance: Chance,
    batch: PublishBatch,
    /// Messages announced.
    count: u64,
    under_way: VecDeque<(Vec<Announced>, Ticket)>,
    remembered: VecDeque<(String, Receipt)>,
    began: Instant,
    /// Where such are published, too.
    on_terms: Option<OnTerms<'a>>,
}

impl Publisher<'_> {
    fn step(&mut self) -> Result<()> {
        self.keep_pace();
        if let Some(on_terms) = &mut self.on_terms
            && self.chance.percent(30)
        {
            self.count = self.count.saturating_add(1);
            return on_terms.publish();
        }
        match self.chance.below(100) {
            0..88 => {
                let is_batch = self.chance.percent(40);
                let count = if is_batch { 2 + self.chance.below(BATCH_MAX - 1) } else { 1 };
                let is_submitted = self.chance.percent(self.arguments.submitted_percent);
                if is_submitted { self.submit(count) } else { self.publish(count) }
            }
            88..98 => self.change(),
            98 => self.checkpoint(),
            _ => {
                std::thread::sleep(Duration::from_millis(self.chance.below(30)));
                Ok(())
            }
        }
    }

    fn keep_pace(&self) {
        let per_second = self.arguments.messages_per_second.max(1);
        let ahead = Duration::from_millis(self.count.saturating_mul(1_000).checked_div(per_second).unwrap_or(0));
        std::thread::sleep(ahead.saturating_sub(self.began.elapsed()));
    }

    /// Fills the batch and announces what is in it.
    fn announce(&mut self, count: u64) -> Result<Vec<Announced>> {
        let is_ordered = self.chance.percent(20);
        let subject = format!("s{}", self.chance.below(self.arguments.subjects.max(1)));
        let subject = if is_ordered { "ordered" } else { &subject };
        // A batch takes half a segment at most.
        let room =
            u64::from(self.arguments.segment_bytes / 2).checked_div(self.arguments.body_bytes_max + RECORD_BYTES);
        let count = count.min(room.unwrap_or(1)).max(1);
        let together = self.chance.percent(30).then(|| self.due());
        let batch = format!("{}-{}", self.arguments.life, self.count);
        // The delays of a batch count from its first message.
        let began_ms = wall_ms();
        let (mut announced, mut lines) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let due = if is_ordered { Due::After(0) } else { together.unwrap_or_else(|| self.due()) };
            let id = format!("{}-{}", self.arguments.life, self.count);
            self.count = self.count.saturating_add(1);
            let mut body = format!("{id} ").into_bytes();
            let length = self.chance.below(self.arguments.body_bytes_max);
            body.extend((0..length).map(|_| self.chance.below(256) as u8));
            let line =
                Line::at("publish", began_ms).text("id", &id).text("subject", subject).text("digest", &digest(&body));
            let line = line.text("batch", &batch);
            lines.push(timed(line, due));
            announced.push(Announced { id, is_late: is_late(due) });
            self.batch.push(subject, due, &META, &body)?;
        }
        self.telling.tell(&lines);
        Ok(announced)
    }

    fn due(&mut self) -> Due {
        let arguments = self.arguments;
        let ahead_ms = match self.chance.below(10) {
            0..3 => return Due::After(0),
            3..8 => self.chance.below(arguments.delay_ms_max.max(1)),
            8 => arguments.delay_ms_max.saturating_add(self.chance.below(arguments.far_ms_max)),
            // Edges of runs and windows: many on the same whole tenth of a second, some of it past.
            _ => return Due::At(Millis((wall_ms() / 100 + self.chance.below(20)).saturating_sub(2) * 100)),
        };
        if self.chance.percent(50) { Due::After(ahead_ms) } else { Due::At(Millis(wall_ms() + ahead_ms)) }
    }

    fn publish(&mut self, count: u64) -> Result<()> {
        let announced = self.announce(count)?;
        let result = self.store.publish(&mut self.batch);
        self.told(&announced, result)
    }

    fn submit(&mut self, count: u64) -> Result<()> {
        let announced = self.announce(count)?;
        match self.store.submit(&mut self.batch) {
            Ok(ticket) => self.under_way.push_back((announced, ticket)),
            Err(error) => self.told(&announced, Err(error))?,
        }
        if self.chance.percent(50) {
            // Told the moment that it is answered, which is not this thread's doing.
            while self.finish_oldest()? {}
        } else if self.under_way.len() > TICKETS_MAX {
            self.finish_oldest()?;
        }
        Ok(())
    }

    fn finish_oldest(&mut self) -> Result<bool> {
        let Some((announced, ticket)) = self.under_way.pop_front() else { return Ok(false) };
        let result = ticket.finish();
        self.told(&announced, result)?;
        Ok(true)
    }

    fn told(&mut self, announced: &[Announced], result: Result<Receipts>) -> Result<()> {
        let word = match &result {
            Ok(_) => "acknowledged",
            Err(Error::DiskFull) => "refused",
            Err(_) => "ambiguous",
        };
        let mut lines = Vec::with_capacity(announced.len());
        for (index, one) in announced.iter().enumerate() {
            let line = Line::of("published").text("id", &one.id).text("result", word);
            let receipt = result.as_ref().ok().filter(|_| one.is_late).and_then(|receipts| receipts.get(index));
            lines.push(match &receipt {
                Some(receipt) => line.text("receipt", &receipt.to_text()),
                None => line,
            });
            self.remembered.extend(receipt.map(|receipt| (one.id.clone(), receipt)));
        }
        self.telling.tell(&lines);
        while self.remembered.len() > REMEMBERED_MAX {
            self.remembered.pop_front();
        }
        match result {
            Err(Error::DiskFull) => {
                self.batch.clear();
                std::thread::sleep(FULL_PAUSE);
                Ok(())
            }
            other => other.map(drop),
        }
    }

    /// Cancels or moves one of the messages that may be.
    fn change(&mut self) -> Result<()> {
        let index = self.chance.below(self.remembered.len() as u64);
        let Some((id, receipt)) = self.remembered.remove(usize::try_from(index).unwrap_or(0)) else { return Ok(()) };
        if self.chance.percent(50) { self.cancel(&id, &receipt) } else { self.move_to(id, &receipt) }
    }

    fn move_to(&mut self, id: String, receipt: &Receipt) -> Result<()> {
        let due = self.due();
        self.telling.tell(&[timed(Line::of("move").text("id", &id), due)]);
        let result = self.store.move_to(receipt, due);
        let word = match &result {
            Ok(MoveOutcome::Done(_)) => "done",
            Ok(MoveOutcome::AlreadyDispatched) => "already_dispatched",
            Ok(MoveOutcome::NotFound) => "not_found",
            Err(Error::DiskFull) => "refused",
            Err(_) => "ambiguous",
        };
        let line = Line::of("moved").text("id", &id).text("result", word);
        match result {
            Ok(MoveOutcome::Done(receipt)) if is_late(due) => {
                self.telling.tell(&[line.text("receipt", &receipt.to_text())]);
                self.remembered.push_back((id, receipt));
                Ok(())
            }
            other => {
                self.telling.tell(&[line]);
                other.map(drop).or_else(|error| if error == Error::DiskFull { Ok(()) } else { Err(error) })
            }
        }
    }

    fn cancel(&self, id: &str, receipt: &Receipt) -> Result<()> {
        self.telling.tell(&[Line::of("cancel").text("id", id)]);
        let result = self.store.cancel(receipt);
        let word = match &result {
            Ok(CancelOutcome::Done) => "done",
            Ok(CancelOutcome::AlreadyDispatched) => "already_dispatched",
            Ok(CancelOutcome::NotFound) => "not_found",
            Err(Error::DiskFull) => "refused",
            Err(_) => "ambiguous",
        };
        self.telling.tell(&[Line::of("cancelled").text("id", id).text("result", word)]);
        match result {
            Err(Error::DiskFull) => Ok(()),
            other => other.map(drop),
        }
    }

    fn checkpoint(&self) -> Result<()> {
        match self.store.checkpoint() {
            Err(error) if error.is_no_space() => Ok(()),
            other => other,
        }
    }
}
