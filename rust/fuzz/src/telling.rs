//! The values read from bytes as text, to compare them with any other reader: JSON of lists, numbers and texts in
//! hex digits.

use std::fmt::Write;

use bytes::Bytes;
use delaymq_core::queues::tags::{Filter, TagRule};
use delaymq_core::store::StartAt;
use delaymq_core::wire::frame::{Frame, Header, read_frame, read_head};
use delaymq_core::wire::malformed::Read;
use delaymq_core::wire::qmq::ack::{ACK, AckRequest, read_ack};
use delaymq_core::wire::qmq::consume_manage::{CONSUME_MANAGE, read_consume_manage};
use delaymq_core::wire::qmq::message::WireMessage;
use delaymq_core::wire::qmq::pull::{ConsumerName, PULL, PullRequest, read_pull, read_pulled};
use delaymq_core::wire::qmq::register::{CLIENT_REGISTER, RegisterRequest, read_register, read_registered};
use delaymq_core::wire::qmq::send::{SEND, read_failures, read_send};
use delaymq_core::wire::request::Request;

use crate::corpus::hex;
use crate::targets::scanned;

/// All flags of QMQ's messages.
const FLAGS_OF_QMQ: u8 = 7;

/// A JSON list.
#[derive(Default)]
struct List(String);

impl List {
    fn item(mut self, text: &str) -> Self {
        if !self.0.is_empty() {
            self.0.push(',');
        }
        self.0.push_str(text);
        self
    }

    fn number(self, number: impl Into<i128>) -> Self {
        self.item(&number.into().to_string())
    }

    fn text(self, text: &str) -> Self {
        self.bytes(text.as_bytes())
    }

    fn bytes(self, bytes: &[u8]) -> Self {
        self.item(&format!("\"{}\"", hex(bytes)))
    }

    fn flag(self, flag: bool) -> Self {
        self.item(if flag { "true" } else { "false" })
    }

    fn list(self, items: impl IntoIterator<Item = String>) -> Self {
        let whole = items.into_iter().fold(Self::default(), |list, item| list.item(&item));
        self.item(&whole.end())
    }

    fn end(self) -> String {
        format!("[{}]", self.0)
    }
}

/// The values of `bytes` read as `what` in this version: JSON, or `null` if they are refused; `"more"` if a frame
/// is incomplete.
///
/// # Errors
/// An unknown `what`.
pub fn told(what: &str, version: i16, bytes: &[u8]) -> Result<String, String> {
    let read = match what {
        "frame" => return Ok(frame(bytes)),
        "log" => return Ok(log(bytes)),
        "send" => send(bytes),
        "pull" => read_pull(bytes, version).map(|asked| pull(&asked)),
        "ack" => read_ack(bytes, version).map(|asked| ack(&asked)),
        "reset" => reset(bytes),
        "register" => read_register(bytes).map(|asked| register(&asked)),
        "pulled" => pulled(bytes),
        "failures" => failures(bytes),
        "registered" => registered(bytes),
        other => return Err(format!("nothing is called {other}")),
    };
    agreed(what, version, bytes, read.is_ok())?;
    Ok(read.unwrap_or_else(|_| "null".to_owned()))
}

/// Compares with the server's own call of the same reader.
fn agreed(what: &str, version: i16, bytes: &[u8], is_read: bool) -> Result<(), String> {
    let commands =
        [("send", SEND), ("pull", PULL), ("ack", ACK), ("reset", CONSUME_MANAGE), ("register", CLIENT_REGISTER)];
    let Some((_, command)) = commands.iter().find(|(name, _)| *name == what) else { return Ok(()) };
    let frame = Frame { header: Header::request(*command, version, 1), body: Bytes::copy_from_slice(bytes) };
    if Request::read(&frame).is_ok() == is_read {
        Ok(())
    } else {
        Err(format!("{what}: the server reads it otherwise"))
    }
}

fn frame(bytes: &[u8]) -> String {
    let head = match read_head(bytes) {
        Ok(Some(head)) => head,
        Ok(None) => return "\"more\"".to_owned(),
        Err(_) => return "null".to_owned(),
    };
    let Some(whole) = bytes.get(..head.frame_bytes) else { return "\"more\"".to_owned() };
    let Ok(frame) = read_frame(&Bytes::copy_from_slice(whole)) else { return "null".to_owned() };
    let Header { code, version, opaque, flags, request_code } = frame.header;
    let list = List::default().number(code).number(version).number(opaque).number(flags).number(request_code);
    list.bytes(&frame.body).number(head.frame_bytes as u64).end()
}

/// Flags, times, subject, id, tags and attributes; `None` if the body is not text attributes, as QMQ's are.
fn message(message: &WireMessage<'_>) -> Option<String> {
    if message.flags > FLAGS_OF_QMQ {
        return None;
    }
    let pairs: Read<Vec<(&str, &str)>> = message.attributes().collect();
    let list = List::default().number(message.flags).number(message.created_ms).number(message.expires_ms);
    let list = list.text(message.subject).text(message.message_id);
    let list = list.list(message.tags().map(|tag| format!("\"{}\"", hex(tag.as_bytes()))));
    let pairs = pairs.ok()?;
    Some(list.list(pairs.iter().map(|(key, value)| List::default().text(key).text(value).end())).end())
}

/// A list of messages after the fields before them; `null` if one is not QMQ's.
fn messages(list: List, messages: impl Iterator<Item = Option<String>>) -> String {
    let each: Option<Vec<String>> = messages.collect();
    each.map_or_else(|| "null".to_owned(), |each| list.list(each).end())
}

fn send(body: &[u8]) -> Read<String> {
    let sent = read_send(body)?;
    let each = sent.iter().map(|one| Some(List::default().number(one.check).item(&message(&one.message)?).end()));
    Ok(messages(List::default(), each))
}

fn name(list: List, name: &ConsumerName<'_>) -> List {
    list.text(name.subject).text(name.group).text(name.consumer)
}

fn pull(asked: &PullRequest<'_>) -> String {
    let list = name(List::default(), &asked.name).number(asked.count).number(asked.offset);
    let list = list.number(asked.first).number(asked.last).number(asked.timeout_ms).flag(asked.is_broadcast);
    list.list(asked.filters.iter().map(filter)).end()
}

fn filter(filter: &Filter) -> String {
    match filter {
        Filter::Tags { rule, tags } => {
            let rule: u8 = if *rule == TagRule::Any { 1 } else { 2 };
            List::default().number(rule).list(tags.iter().map(|tag| format!("\"{}\"", hex(tag.as_bytes())))).end()
        }
        Filter::SubEnvironment { environment, part } => List::default().text(environment).text(part).end(),
        // The independent reader reads QMQ's frames, which have none.
        Filter::Attribute { key, .. } => List::default().text(key).end(),
    }
}

fn ack(asked: &AckRequest<'_>) -> String {
    let list = name(List::default(), &asked.name);
    let list = match asked.offsets {
        Some((first, last)) => list.number(first.0).number(last.0),
        None => list.number(-1).number(-1),
    };
    list.flag(asked.is_broadcast).end()
}

fn reset(body: &[u8]) -> Read<String> {
    let asked = read_consume_manage(body)?;
    let start: u8 = match asked.start {
        Some(StartAt::Latest) => 1,
        Some(StartAt::Earliest) => 2,
        Some(StartAt::Unfinished) | None => 0,
        Some(_) => 3,
    };
    Ok(List::default().text(asked.subject).text(asked.group).number(start).end())
}

fn register(asked: &RegisterRequest<'_>) -> String {
    let list = List::default().text(asked.subject).number(asked.client_type.number()).text(asked.app_code);
    list.text(asked.client_id).text(asked.group).flag(asked.is_new).text(asked.room).end()
}

fn pulled(body: &[u8]) -> Read<String> {
    let (first, found) = read_pulled(body)?;
    Ok(messages(List::default().number(first.0.cast_signed()), found.iter().map(message)))
}

fn failures(body: &[u8]) -> Read<String> {
    let failures = read_failures(body)?;
    let each = failures
        .iter()
        .map(|one| List::default().text(&one.message_id).number(one.code.number()).text(&one.remark).end());
    Ok(List::default().list(each).end())
}

fn registered(body: &[u8]) -> Read<String> {
    let answer = read_registered(body)?;
    let list = List::default().number(answer.timestamp_ms).text(&answer.subject).text(&answer.group);
    let list = list.flag(!answer.is_online).number(answer.client_type.number());
    let groups = answer.groups.iter().map(|group| {
        let list = List::default().text(&group.name).text(&group.address).number(group.updated_ms);
        list.number(group.access.number()).end()
    });
    Ok(list.list(groups).end())
}

/// The end of a log of one segment, and its batches: offset, first sequence, records with their kinds and payloads.
fn log(content: &[u8]) -> String {
    use delaymq_core::record::Records;
    use delaymq_core::units::Sequence;
    let Ok((ending, batches)) = scanned(content) else { return "null".to_owned() };
    let each = batches.iter().map(|batch| {
        let base = batch.header.base_sequence.get();
        let records = Records::new(batch.records(), Sequence(base)).flatten().map(|(_, record)| {
            let whole = record.payload_is_whole();
            List::default().number(record.header.kind).flag(whole).bytes(record.fixed).bytes(record.payload).end()
        });
        List::default().number(batch.start.offset()).number(base).list(records).end()
    });
    List::default().number(ending.end.offset()).flag(ending.sealed).list(each).end()
}

/// The answer to a line `what version hex`.
pub fn answered(line: &str) -> String {
    let mut words = line.split_whitespace();
    let what = words.next().unwrap_or_default();
    let version = words.next().and_then(|word| word.parse().ok());
    let bytes = crate::corpus::digits(words.next().unwrap_or_default());
    let told = match (version, bytes) {
        (Some(version), Some(bytes)) => told(what, version, &bytes),
        _ => Err("what version hex".to_owned()),
    };
    let mut answer = String::new();
    let written = match told {
        Ok(text) => write!(answer, "{text}"),
        Err(error) => write!(answer, "{{\"error\": \"{}\"}}", hex(error.as_bytes())),
    };
    written.map_or_else(|_| "{}".to_owned(), |()| answer)
}
