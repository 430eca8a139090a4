//! A client of QMQ, written from what is known of it and not from this project's codec.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use super::PATIENCE;

/// Longer than anything here takes, and shorter than what a pull may ask for.
pub(crate) const HOLD_MS: i64 = 15_000;

pub(crate) struct Qmq {
    pub(crate) socket: TcpStream,
    version: i16,
    opaque: i32,
    answers: HashMap<i32, (i16, Vec<u8>)>,
}

/// A message that was pulled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Pulled {
    pub(crate) offset: i64,
    pub(crate) id: String,
    pub(crate) tags: Vec<String>,
    pub(crate) attributes: Vec<(String, String)>,
    pub(crate) whole: Vec<u8>,
}

impl Pulled {
    pub(crate) fn attribute(&self, key: &str) -> Option<&str> {
        self.attributes.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
    }
}

/// A pull, before it is sent.
#[derive(Clone)]
pub(crate) struct Pull<'a> {
    pub(crate) subject: &'a str,
    pub(crate) group: &'a str,
    pub(crate) consumer: &'a str,
    pub(crate) count: i32,
    pub(crate) last: i64,
    pub(crate) hold_ms: i64,
    pub(crate) broadcast: bool,
    /// Tags with 1 for any and 2 for all of them.
    pub(crate) tags: Option<(i16, Vec<&'a str>)>,
    pub(crate) environment: Option<(&'a str, &'a str)>,
}

pub(crate) fn pull<'a>(subject: &'a str, group: &'a str, consumer: &'a str) -> Pull<'a> {
    Pull { subject, group, consumer, count: 50, last: -1, hold_ms: -1, broadcast: false, tags: None, environment: None }
}

impl Pull<'_> {
    fn body(&self, version: i16) -> Vec<u8> {
        let mut out = names(self.subject, self.group, self.consumer);
        out.extend(self.count.to_be_bytes());
        for number in [-1, -1, self.last, self.hold_ms] {
            out.extend(number.to_be_bytes());
        }
        out.push(u8::from(self.broadcast));
        let mut tags = Vec::new();
        let (rule, list) = self.tags.clone().unwrap_or_default();
        tags.extend(rule.to_be_bytes());
        tags.push(u8::try_from(list.len()).unwrap());
        for tag in &list {
            text(&mut tags, tag);
        }
        if version == 8 {
            out.extend(&tags);
        } else if version >= 9 {
            out.extend((1 + i32::from(self.environment.is_some())).to_be_bytes());
            out.extend(1_i16.to_be_bytes());
            out.extend(&tags);
            if let Some((environment, part)) = self.environment {
                out.extend(2_i16.to_be_bytes());
                text(&mut out, environment);
                text(&mut out, part);
            }
        }
        out
    }
}

impl Qmq {
    pub(crate) fn to(address: SocketAddr) -> Self {
        Self::of_version(address, 9)
    }

    pub(crate) fn of_version(address: SocketAddr, version: i16) -> Self {
        Self { version, ..Self::over(TcpStream::connect(address).unwrap()) }
    }

    pub(crate) fn over(socket: TcpStream) -> Self {
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.set_write_timeout(Some(PATIENCE)).unwrap();
        socket.set_nodelay(true).unwrap();
        Self { socket, version: 9, opaque: 0, answers: HashMap::new() }
    }

    pub(crate) fn whole_frame(&mut self) -> Vec<u8> {
        let mut frame = vec![0; 4];
        self.socket.read_exact(&mut frame).unwrap();
        let total = i32::from_be_bytes(frame[..4].try_into().unwrap());
        frame.resize(4 + usize::try_from(total).unwrap(), 0);
        self.socket.read_exact(&mut frame[4..]).unwrap();
        frame
    }

    /// Sends a request, and names it.
    pub(crate) fn send(&mut self, command: i16, body: &[u8]) -> i32 {
        self.opaque += 1;
        let mut frame = (i32::try_from(body.len()).unwrap() + 20).to_be_bytes().to_vec();
        frame.extend_from_slice(&18_i16.to_be_bytes());
        frame.extend_from_slice(&[0xDE, 0xC1, 0x0A, 0xDE]);
        frame.extend_from_slice(&command.to_be_bytes());
        frame.extend_from_slice(&self.version.to_be_bytes());
        frame.extend_from_slice(&self.opaque.to_be_bytes());
        frame.extend_from_slice(&0_i32.to_be_bytes());
        frame.extend_from_slice(&command.to_be_bytes());
        frame.extend_from_slice(body);
        self.socket.write_all(&frame).unwrap();
        self.opaque
    }

    /// The answer to a request, whatever comes before it.
    pub(crate) fn answer(&mut self, opaque: i32) -> (i16, Vec<u8>) {
        loop {
            if let Some(answer) = self.answers.remove(&opaque) {
                return answer;
            }
            let answer = self.whole_frame();
            assert_eq!(&answer[6..10], [0xDE, 0xC1, 0x0A, 0xDE]);
            assert_eq!(&answer[18..22], 1_i32.to_be_bytes(), "it is an answer");
            let of = i32::from_be_bytes(answer[14..18].try_into().unwrap());
            let code = i16::from_be_bytes(answer[10..12].try_into().unwrap());
            assert!(self.answers.insert(of, (code, answer[24..].to_vec())).is_none(), "it was answered once");
        }
    }

    /// True where a request was answered already. What came is read as far as the answer to a sign of life of one
    /// whom nobody knows, which is answered at once.
    pub(crate) fn has_answer(&mut self, opaque: i32) -> bool {
        assert_eq!(self.acknowledge(&pull("order", "nobody", "nobody"), -1, -1), 0);
        self.answers.contains_key(&opaque)
    }

    /// The code and body of the answer.
    pub(crate) fn ask(&mut self, command: i16, body: &[u8]) -> (i16, Vec<u8>) {
        let asked = self.send(command, body);
        self.answer(asked)
    }

    /// Sends messages that must all be stored.
    pub(crate) fn store(&mut self, messages: &[Vec<u8>]) {
        let body: Vec<u8> = messages.iter().flat_map(|message| checked(message)).collect();
        assert_eq!(self.ask(10, &body), (0, vec![]));
    }

    pub(crate) fn ask_pull(&mut self, pull: &Pull<'_>) -> i32 {
        let version = self.version;
        self.send(11, &pull.body(version))
    }

    /// What a pull was answered with; nothing for 4.
    pub(crate) fn pulled(&mut self, asked: i32) -> Vec<Pulled> {
        match self.answer(asked) {
            (4, body) if body.is_empty() => Vec::new(),
            (0, body) => read_pulled(&body, self.version),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn pull(&mut self, pull: &Pull<'_>) -> Vec<Pulled> {
        let asked = self.ask_pull(pull);
        self.pulled(asked)
    }

    /// As a consumer that knows nothing of what it had: so many messages, held for.
    pub(crate) fn take(&mut self, names: &Pull<'_>, count: usize) -> Vec<Pulled> {
        let mut found: Vec<Pulled> = Vec::new();
        while found.len() < count {
            let last = found.last().map_or(names.last, |message| message.offset);
            let pull = Pull { last, hold_ms: HOLD_MS, ..names.clone() };
            let more = self.pull(&pull);
            assert!(!more.is_empty(), "{} of {count} came", found.len());
            found.extend(more);
        }
        found
    }

    /// Sends an acknowledgement, and names it.
    pub(crate) fn ask_acknowledge(&mut self, names: &Pull<'_>, first: i64, last: i64) -> i32 {
        let mut body = self::names(names.subject, names.group, names.consumer);
        body.extend(first.to_be_bytes());
        body.extend(last.to_be_bytes());
        if self.version >= 8 {
            body.push(u8::from(names.broadcast));
        }
        self.send(12, &body)
    }

    /// The code of an acknowledgement's answer.
    pub(crate) fn acknowledge(&mut self, names: &Pull<'_>, first: i64, last: i64) -> i16 {
        let asked = self.ask_acknowledge(names, first, last);
        let (code, body) = self.answer(asked);
        assert!(body.is_empty());
        code
    }

    /// The code of the answer to an operator who moves a group.
    pub(crate) fn manage(&mut self, subject: &str, group: &str, code: i32) -> i16 {
        let mut body = Vec::new();
        text(&mut body, subject);
        text(&mut body, group);
        body.extend(code.to_be_bytes());
        self.ask(25, &body).0
    }
}

fn names(subject: &str, group: &str, consumer: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for name in [subject, group, consumer] {
        text(&mut out, name);
    }
    out
}

pub(crate) fn ids(messages: &[Pulled]) -> Vec<&str> {
    messages.iter().map(|message| message.id.as_str()).collect()
}

pub(crate) fn offsets(messages: &[Pulled]) -> Vec<i64> {
    messages.iter().map(|message| message.offset).collect()
}

pub(crate) fn text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&u16::try_from(text.len()).unwrap().to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

/// A message as QMQ's producer writes it, without its check; due at `due` where there is one.
pub(crate) fn message(subject: &str, id: &str, tags: &[&str], due: Option<i64>) -> Vec<u8> {
    message_with(subject, id, tags, due, &[("qmq_createTime", "1700000000000"), ("data", "hello")])
}

pub(crate) fn message_with(
    subject: &str,
    id: &str,
    tags: &[&str],
    due: Option<i64>,
    attributes: &[(&str, &str)],
) -> Vec<u8> {
    let mut out = vec![if due.is_some() { 2 } else { 0 } | if tags.is_empty() { 0 } else { 4 }];
    out.extend_from_slice(&1_700_000_000_000_i64.to_be_bytes());
    out.extend_from_slice(&due.unwrap_or(1_700_000_000_000).to_be_bytes());
    text(&mut out, subject);
    text(&mut out, id);
    if !tags.is_empty() {
        out.push(u8::try_from(tags.len()).unwrap());
        for tag in tags {
            text(&mut out, tag);
        }
    }
    let mut body = Vec::new();
    for (key, value) in attributes {
        text(&mut body, key);
        text(&mut body, value);
    }
    out.extend_from_slice(&i32::try_from(body.len()).unwrap().to_be_bytes());
    out.extend_from_slice(&body);
    out
}

pub(crate) fn checked(message: &[u8]) -> Vec<u8> {
    let mut out = i64::from(crc32fast::hash(message)).to_be_bytes().to_vec();
    out.extend_from_slice(message);
    out
}

struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count);
        self.0 = rest;
        taken
    }

    fn i64(&mut self) -> i64 {
        i64::from_be_bytes(self.take(8).try_into().unwrap())
    }

    fn text(&mut self) -> String {
        let length = i16::from_be_bytes(self.take(2).try_into().unwrap());
        String::from_utf8(self.take(usize::try_from(length).unwrap()).to_vec()).unwrap()
    }
}

fn read_pulled(body: &[u8], version: i16) -> Vec<Pulled> {
    let mut bytes = Bytes(body);
    let first = bytes.i64();
    assert_eq!(bytes.i64(), -1);
    let mut found = Vec::new();
    for offset in first.. {
        if bytes.0.is_empty() {
            break;
        }
        let start = bytes.0;
        let flags = bytes.take(1)[0];
        bytes.take(16);
        let (_, id) = (bytes.text(), bytes.text());
        // Before version 8 the flag is kept, and the tags are not told.
        let count = if flags & 4 != 0 && version >= 8 { bytes.take(1)[0] } else { 0 };
        let tags = (0..count).map(|_| bytes.text()).collect();
        let length = i32::from_be_bytes(bytes.take(4).try_into().unwrap());
        let mut body = Bytes(bytes.take(usize::try_from(length).unwrap()));
        let mut attributes = Vec::new();
        while !body.0.is_empty() {
            attributes.push((body.text(), body.text()));
        }
        let whole = start[..start.len() - bytes.0.len()].to_vec();
        found.push(Pulled { offset, id, tags, attributes, whole });
    }
    found
}
