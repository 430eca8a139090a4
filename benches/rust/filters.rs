//! Messages that filters judge, of which one in a hundred passes: by a subscription of the store, and by pulls of a QMQ
//! consumer over TCP.

use std::time::{Duration, Instant};

use delaymq_core::queues::tags::{Filter, TagRule};
use delaymq_core::record::message::{Meta, encode_meta};
use delaymq_core::units::{Millis, PullOffset};
use delaymq_core::wire::frame::{Header, answer};
use delaymq_core::wire::qmq::ack::{ACK, AckRequest, put_ack};
use delaymq_core::wire::qmq::message::{MessageParts, put_attribute, put_message};
use delaymq_core::wire::qmq::pull::{ConsumerName, PULL, PullRequest, put_pull, read_pulled};
use delaymq_core::wire::qmq::send::{SEND, put_sent};
use delaymq_engine::{Due, SubscribeOptions};

use crate::case::{Case, Failure, Figures, figure, now_us, rate, wait_applied};
use crate::frames::Line;

/// One message of so many passes.
pub(crate) const RARE_EVERY: u64 = 100;
/// Its tag, and that of the others.
pub(crate) const RARE: &str = "wanted";
pub(crate) const FREQUENT: &str = "others";
pub(crate) const BODY_BYTES: usize = 64;
const SUBJECT: &str = "bench.filters";
const GROUP: &str = "bench";
const BATCH: u64 = 500;
/// Messages of a full answer.
const PULL_MESSAGES: usize = 100;
const PULL_WAIT: Duration = Duration::from_secs(20);
const HOLD_MS: i64 = 20_000;
const VERSION: i16 = 9;
const NAME: ConsumerName<'_> = ConsumerName { subject: SUBJECT, group: GROUP, consumer: "bench@@1" };

fn tag_of(number: u64) -> &'static str {
    if number % RARE_EVERY == RARE_EVERY - 1 { RARE } else { FREQUENT }
}

fn filters() -> Vec<Filter> {
    vec![Filter::Tags { rule: TagRule::Any, tags: vec![RARE.to_owned()] }]
}

/// Messages judged a second by a subscription, from its first pull until it has acknowledged the last message that
/// passes. All of them are ready then, with their pages in memory.
pub(crate) fn run(case: &Case) -> Result<Figures, Failure> {
    let messages = case.count("messages")?;
    let store = case.open(|_| ())?;
    let options = SubscribeOptions { in_flight_max: 1_024, filters: filters(), ..SubscribeOptions::default() };
    let subscription = store.subscribe(SUBJECT, GROUP, options)?;
    let mut batch = store.batch();
    for number in 0..messages {
        let meta = Meta { tags: vec![tag_of(number).to_owned()], ..Meta::default() };
        let meta = encode_meta(&meta).unwrap_or_default();
        batch.push(SUBJECT, Due::After(0), &meta, &[0xA5; BODY_BYTES])?;
        if batch.len() as u64 >= BATCH || number == messages - 1 {
            store.publish(&mut batch)?;
        }
    }
    wait_applied(&store)?;
    let (started, mut came, mut pulls) = (Instant::now(), 0_u64, 0_u64);
    while came < messages / RARE_EVERY {
        let pulled = subscription.pull(PULL_MESSAGES, PULL_WAIT)?;
        if pulled.is_empty() {
            return Err(Failure(format!("only {came} messages came")));
        }
        subscription.acknowledge(&pulled.iter().map(|message| message.key).collect::<Vec<_>>())?;
        came += pulled.len() as u64;
        pulls += 1;
    }
    let time = started.elapsed();
    subscription.close()?;
    store.close()?;
    Ok(Figures::from([("value", rate(messages, time)), ("messages_a_pull", figure(came) / figure(pulls))]))
}

/// The same for a QMQ consumer that pulls from the server at `port`, and acknowledges each answer.
pub(crate) fn served(case: &Case) -> Result<Figures, Failure> {
    let messages = case.count("messages")?;
    let mut line = Line::of(case)?;
    // The group begins with the next message.
    pull(&mut line, None, -1)?;
    publish(&mut line, messages)?;
    let (started, mut received, mut pulls) = (Instant::now(), None, 0_u64);
    let wanted = messages / RARE_EVERY;
    while received.map_or(0, |last: u64| last + 1) < wanted {
        let Some((first, count)) = pull(&mut line, received, HOLD_MS)? else {
            return Err(Failure(format!("nothing comes behind {received:?}")));
        };
        if first != received.map_or(0, |last| last + 1) {
            return Err(Failure(format!("{first} follows {received:?}")));
        }
        let last = first + count - 1;
        (received, pulls) = (Some(last), pulls + 1);
        let request =
            AckRequest { name: NAME, offsets: Some((PullOffset(first), PullOffset(last))), is_broadcast: false };
        ask(&mut line, ACK, |out| put_ack(out, &request, VERSION))?;
    }
    let time = started.elapsed();
    Ok(Figures::from([("value", rate(messages, time)), ("messages_a_pull", figure(wanted) / figure(pulls))]))
}

/// Asks, and waits for the answer: its code and its body.
fn ask(
    line: &mut Line,
    command: i16,
    fill: impl FnOnce(&mut Vec<u8>) -> delaymq_core::error::Result<()>,
) -> Result<(i16, Vec<u8>), Failure> {
    line.put(Header::request(command, VERSION, 1), fill)?;
    line.send()?;
    let (header, body) = line.wait()?;
    Ok((header.code, body))
}

fn publish(line: &mut Line, messages: u64) -> Result<(), Failure> {
    let (mut number, mut attributes) = (0, Vec::new());
    put_attribute(&mut attributes, "k", &"x".repeat(BODY_BYTES))?;
    while number < messages {
        let mut body = Vec::new();
        for number in number..messages.min(number + BATCH) {
            let id = format!("m{number}");
            let parts = MessageParts {
                created: Millis(now_us() / 1_000),
                due: None,
                subject: SUBJECT,
                message_id: &id,
                tags: &[tag_of(number)],
                is_opaque: false,
                body: &attributes,
            };
            let mut message = Vec::new();
            put_message(&mut message, &parts)?;
            put_sent(&mut body, &message);
        }
        number += BATCH;
        let (code, refused) = ask(line, SEND, |out| {
            out.extend_from_slice(&body);
            Ok(())
        })?;
        if code != answer::SUCCESS || !refused.is_empty() {
            return Err(Failure(format!("messages are not stored: {code}")));
        }
    }
    Ok(())
}

/// A pull of a client that has received up to there: the first offset of its answer, and how many messages it has.
fn pull(line: &mut Line, received: Option<u64>, timeout_ms: i64) -> Result<Option<(u64, u64)>, Failure> {
    let last = received.and_then(|last| i64::try_from(last).ok()).unwrap_or(-1);
    let request = PullRequest {
        name: NAME,
        count: i32::try_from(PULL_MESSAGES).unwrap_or(1),
        offset: -1,
        first: -1,
        last,
        timeout_ms,
        is_broadcast: false,
        filters: filters(),
    };
    let (code, body) = ask(line, PULL, |out| put_pull(out, &request, VERSION))?;
    if code != answer::SUCCESS {
        return Ok(None);
    }
    let (first, messages) = read_pulled(&body).map_err(|malformed| Failure(format!("{malformed:?}")))?;
    Ok(Some((first.0, messages.len() as u64)))
}
