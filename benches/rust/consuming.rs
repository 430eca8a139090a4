//! A process that consumes from a server what [`crate::producing`] publishes.

use delaymq_core::store::StartAt;
use delaymq_core::wire::client::caller::Heard;
use delaymq_core::wire::extension::consume::{CREDIT_MAX, Credit, Deliver, Subscribe};
use delaymq_core::wire::extension::settle::{Acknowledge, KeyRange};
use delaymq_core::wire::extension::{ACKNOWLEDGE, CREDIT, FLUSH, SUBSCRIBE};

use crate::case::{Case, Failure, Figures, now_us};
use crate::client::{Client, tell_others};
use crate::producing::SUBJECT;

/// The most messages that are held at once.
pub(crate) const IN_FLIGHT_MAX: u32 = 16_384;
/// The client's name for its subscription.
pub(crate) const SUBSCRIPTION: u32 = 1;

/// Consumes and acknowledges `messages`, each of them checked, and tells when the last one was here.
pub(crate) fn run(case: &Case) -> Result<Figures, Failure> {
    let messages = case.count("messages")?;
    let mut client = Client::of(case)?;
    subscribe(&mut client, SUBSCRIPTION, SUBJECT)?;
    tell_others(&case.folder.join("consuming"), "")?;
    let mut taken = Taken::default();
    while taken.count < messages {
        client.receive()?;
        take(&mut client, |deliver| taken.add(deliver))?;
    }
    let ended_us = now_us();
    flush(&mut client)?;
    if taken.sum != messages.saturating_mul(messages.saturating_sub(1)) / 2 || taken.count != messages {
        return Err(Failure("what was consumed is not what was published, each message once".to_owned()));
    }
    #[expect(clippy::cast_precision_loss, reason = "microseconds of our time, and counts, fit into 2^52")]
    Ok(Figures::from([("ended_us", ended_us as f64), ("early", taken.early as f64)]))
}

/// What came so far.
#[derive(Default)]
struct Taken {
    count: u64,
    sum: u64,
    early: u64,
}

impl Taken {
    fn add(&mut self, deliver: &Deliver<'_>) -> Result<(), Failure> {
        let now = now_us() / 1_000;
        for message in &deliver.messages {
            if !message.is_whole() {
                return Err(Failure("a payload does not pass its check".to_owned()));
            }
            let number = message.parts().1.first_chunk().copied().map_or(0, u64::from_le_bytes);
            self.sum = self.sum.wrapping_add(number);
            self.early = self.early.saturating_add(u64::from(message.due.0 > now));
        }
        self.count = self.count.saturating_add(deliver.messages.len() as u64);
        Ok(())
    }
}

/// Subscribes for a group of its own.
pub(crate) fn subscribe(client: &mut Client, subscription: u32, subject: &str) -> Result<(), Failure> {
    let request = Subscribe {
        subscription,
        subjects: vec![subject],
        group: "bench",
        consumer: "",
        start: StartAt::Unfinished,
        is_broadcast: false,
        in_flight_max: IN_FLIGHT_MAX,
        credit: CREDIT_MAX,
        filters: Vec::new(),
    };
    client.answer(SUBSCRIBE, |out| request.put(out)).map(|_| ())
}

/// Hands all deliveries that are here whole to `look`, and acknowledges them in one request.
pub(crate) fn take(
    client: &mut Client,
    mut look: impl FnMut(&Deliver<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut settled = Acknowledge { subscription: SUBSCRIPTION, ranges: Vec::new() };
    let mut count = 0_u64;
    while let Some(heard) = client.hear()? {
        let Heard::Deliver(body) = heard else { continue };
        let deliver = Deliver::read(&body).map_err(|malformed| Failure(format!("{malformed:?}")))?;
        look(&deliver)?;
        count = count.saturating_add(deliver.messages.len() as u64);
        for message in &deliver.messages {
            match settled.ranges.last_mut() {
                Some(last) if last.queue == message.queue && last.first + last.count == message.offset => {
                    last.count += 1;
                }
                _ => settled.ranges.push(KeyRange { queue: message.queue, first: message.offset, count: 1 }),
            }
        }
    }
    if count == 0 {
        return Ok(());
    }
    client.tell(ACKNOWLEDGE, |out| settled.put(out))?;
    let credit = Credit { subscription: SUBSCRIPTION, credit: u32::try_from(count).unwrap_or(CREDIT_MAX) };
    client.tell(CREDIT, |out| {
        credit.put(out);
        Ok(())
    })?;
    client.send()
}

/// Waits until everything that was acknowledged is durable.
pub(crate) fn flush(client: &mut Client) -> Result<(), Failure> {
    client
        .answer(FLUSH, |out| {
            out.extend_from_slice(&SUBSCRIPTION.to_be_bytes());
            Ok(())
        })
        .map(|_| ())
}
