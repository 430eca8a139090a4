//! From the due time to the consumer's own code having the message, through a server.

use delaymq_core::units::Millis;
use delaymq_core::wire::extension::PUBLISH;
use delaymq_core::wire::extension::consume::Deliver;
use delaymq_core::wire::extension::publish::{DueTime, PublishWriter};

use crate::case::{Case, Failure, Figures, now_us, percentiles};
use crate::client::Client;
use crate::consuming::{SUBSCRIPTION, flush, subscribe, take};

const SUBJECT: &str = "bench.lateness";
const BATCH: u64 = 1_000;
const BODY: [u8; 64] = [0xA5; 64];

/// Publishes `rate_per_s` times `milliseconds` messages, due evenly, then consumes them.
pub(crate) fn run(case: &Case) -> Result<Figures, Failure> {
    let (rate, milliseconds) = (case.count("rate_per_s")?, case.count("milliseconds")?);
    let messages = rate.saturating_mul(milliseconds) / 1_000;
    let mut client = Client::of(case)?;
    // Five microseconds for each message to be published are several times what it takes.
    let first_ms = now_us() / 1_000 + case.count("lead_ms")? + messages / 200;
    let mut writer = PublishWriter::default();
    for first in (0..messages).step_by(usize::try_from(BATCH).unwrap_or(1)) {
        writer.clear();
        for number in first..messages.min(first + BATCH) {
            let due = DueTime::At(Millis(first_ms + number.saturating_mul(1_000) / rate));
            writer.push(SUBJECT, due, &[], &BODY)?;
        }
        client.answer(PUBLISH, |out| writer.put(out, false))?;
    }
    subscribe(&mut client, SUBSCRIPTION, SUBJECT)?;
    let mut late = Vec::with_capacity(usize::try_from(messages).unwrap_or(0));
    while (late.len() as u64) < messages {
        client.receive()?;
        take(&mut client, |deliver| note(&mut late, deliver))?;
    }
    flush(&mut client)?;
    let mut figures = percentiles(&mut late);
    figures.insert("value", figures.get("p99_ms").copied().unwrap_or(0.0));
    Ok(figures)
}

#[expect(clippy::unnecessary_wraps, reason = "those who look at a delivery may refuse it")]
fn note(late: &mut Vec<f64>, deliver: &Deliver<'_>) -> Result<(), Failure> {
    let now = now_us();
    #[expect(clippy::cast_precision_loss, reason = "microseconds of our time fit into 2^52")]
    late.extend(deliver.messages.iter().map(|message| now as f64 / 1e3 - message.due.0 as f64));
    Ok(())
}
