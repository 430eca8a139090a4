//! What the tests of the server share: a served store, and a client of delaymq's own commands on a
//! plain socket.

pub(crate) mod group;
pub(crate) mod qmq;

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use delaymq_core::error::Result;
use delaymq_core::store::StartAt;
use delaymq_core::wire::extension::consume::{Credit, Deliver, Subscribe, Subscribed};
use delaymq_core::wire::extension::errors::{ErrorCode, RemoteError};
use delaymq_core::wire::extension::publish::{DueTime, PublishWriter, read_receipts};
use delaymq_core::wire::extension::settle::{Acknowledge, KeyRange};
use delaymq_core::wire::extension::{ACKNOWLEDGE, CREDIT, DELIVER, EXTENSION_VERSION, FLUSH, PING, PUBLISH, SUBSCRIBE};
use delaymq_core::wire::frame::{FLAG_ANSWER, FLAG_ONE_WAY, HEAD_BYTES, Header, put_frame, read_head};
use delaymq_core::wire::reader::Reader;
use delaymq_engine::{Durability, Options, Receipt, Store};
use delaymq_server::{Server, ServerOptions};

/// Longer than anything here takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Served {
    pub(crate) server: Server,
    pub(crate) store: Arc<Store>,
    pub(crate) folder: tempfile::TempDir,
}

pub(crate) fn options() -> ServerOptions {
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    ServerOptions { listen: any, http: Some(any), ..ServerOptions::default() }
}

pub(crate) fn store_options(durability: Durability) -> Options {
    Options { durability, segment_bytes: 32 << 20, ..Options::default() }
}

pub(crate) fn serve() -> Served {
    serve_with(options(), Durability::Disk)
}

pub(crate) fn serve_with(options: ServerOptions, durability: Durability) -> Served {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), store_options(durability), &mut |_| {}).unwrap();
    let server = Server::start(Arc::clone(&store), options).unwrap();
    Served { server, store, folder }
}

impl Served {
    pub(crate) fn connect(&self) -> Client {
        Client::to(self.server.address())
    }
}

pub(crate) fn eventually(what: &str, mut check: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !check() {
        assert!(Instant::now() < until, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// True once the other side has closed the connection; what it sends before is thrown away.
pub(crate) fn is_closed(mut socket: &TcpStream) -> bool {
    let mut bytes = vec![0; 65_536];
    loop {
        match socket.read(&mut bytes) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() == ErrorKind::ConnectionReset,
        }
    }
}

/// One page of plain HTTP: its status and body.
pub(crate) fn page(address: SocketAddr, request: &str) -> (u16, String) {
    page_with(address, request, "")
}

/// As [`page`], with further fields of the head.
pub(crate) fn page_with(address: SocketAddr, request: &str, fields: &str) -> (u16, String) {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(socket, "{request} HTTP/1.1\r\nHost: x\r\nConnection: close{fields}\r\n\r\n").unwrap();
    let mut text = String::new();
    socket.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

/// One value of `/metrics`, or the sum of those that differ in their labels. A counter may be named
/// without its `_total`.
pub(crate) fn metric(served: &Served, name: &str) -> u64 {
    metric_at(served.server.http_address().unwrap(), name)
}

/// As [`metric`], where only the address of the pages is known.
pub(crate) fn metric_at(http: SocketAddr, name: &str) -> u64 {
    let (_, text) = page(http, "GET /metrics");
    let names = [format!("delaymq_{name}"), format!("delaymq_{name}_total")];
    assert!(names.iter().any(|name| text.contains(&format!("# TYPE {name} "))), "there is no {name}");
    let lines = text.lines().filter(|line| names.iter().any(|name| line.split([' ', '{']).next() == Some(name)));
    lines.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
}

/// A message as a client reads it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Message {
    pub(crate) subscription: u32,
    pub(crate) queue: u32,
    pub(crate) offset: u64,
    pub(crate) is_qmq: bool,
    pub(crate) redelivered: bool,
    pub(crate) attempt: u32,
    pub(crate) subject: String,
    pub(crate) due: u64,
    pub(crate) payload: Vec<u8>,
    pub(crate) body: Vec<u8>,
}

pub(crate) struct Client {
    pub(crate) socket: TcpStream,
    opaque: i32,
    delivered: VecDeque<Message>,
}

impl Client {
    pub(crate) fn to(address: SocketAddr) -> Self {
        Self::over(TcpStream::connect(address).unwrap())
    }

    pub(crate) fn over(socket: TcpStream) -> Self {
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.set_nodelay(true).unwrap();
        Self { socket, opaque: 0, delivered: VecDeque::new() }
    }

    pub(crate) fn send(&mut self, command: i16, flags: i32, fill: impl FnOnce(&mut Vec<u8>) -> Result<()>) -> i32 {
        self.send_version(command, EXTENSION_VERSION, flags, fill)
    }

    pub(crate) fn send_version(
        &mut self,
        command: i16,
        version: i16,
        flags: i32,
        fill: impl FnOnce(&mut Vec<u8>) -> Result<()>,
    ) -> i32 {
        self.opaque += 1;
        let header = Header { flags, ..Header::request(command, version, self.opaque) };
        let mut out = Vec::new();
        put_frame(&mut out, header, fill).unwrap();
        self.socket.write_all(&out).unwrap();
        self.opaque
    }

    fn receive(&mut self) -> (Header, Vec<u8>) {
        let mut head = [0; HEAD_BYTES];
        self.socket.read_exact(&mut head).unwrap();
        let head = read_head(&head).unwrap().unwrap();
        let mut body = vec![0; head.frame_bytes - HEAD_BYTES];
        self.socket.read_exact(&mut body).unwrap();
        (head.header, body)
    }

    /// The next answer; what is delivered before it is kept.
    pub(crate) fn answer(&mut self) -> (i32, i16, Vec<u8>) {
        loop {
            let (header, body) = self.receive();
            if header.code == DELIVER && header.flags & FLAG_ANSWER == 0 {
                self.take(&body);
            } else {
                return (header.opaque, header.code, body);
            }
        }
    }

    fn take(&mut self, body: &[u8]) {
        let deliver = Deliver::read(body).unwrap();
        for message in deliver.messages {
            assert!(message.is_whole());
            self.delivered.push_back(Message {
                subscription: deliver.subscription,
                queue: message.queue,
                offset: message.offset,
                is_qmq: message.form == delaymq_core::wire::extension::consume::PayloadForm::Qmq,
                redelivered: message.redelivered,
                attempt: message.attempt,
                subject: message.subject.to_owned(),
                due: message.due.0,
                payload: message.payload.to_vec(),
                body: message.parts().1.to_vec(),
            });
        }
    }

    /// Asks, and the answer to it.
    pub(crate) fn ask(&mut self, command: i16, fill: impl FnOnce(&mut Vec<u8>) -> Result<()>) -> (i16, Vec<u8>) {
        let asked = self.send(command, 0, fill);
        let (opaque, code, body) = self.answer();
        assert_eq!(opaque, asked);
        (code, body)
    }

    /// True where the other side answers, false where it has closed the connection.
    pub(crate) fn is_served(&mut self) -> bool {
        let mut frame = Vec::new();
        put_frame(&mut frame, Header::request(PING, EXTENSION_VERSION, 0), |_| Ok(())).unwrap();
        // A connection that is closed already may refuse what is written.
        let written = self.socket.write_all(&frame);
        let mut answer = [0; HEAD_BYTES];
        written.is_ok() && self.socket.read_exact(&mut answer).is_ok()
    }

    /// True where a ping gets any answer, false where the connection is closed.
    pub(crate) fn is_answered(&mut self) -> bool {
        let mut frame = Vec::new();
        put_frame(&mut frame, Header::request(PING, EXTENSION_VERSION, 0), |_| Ok(())).unwrap();
        let mut head = [0; HEAD_BYTES];
        if self.socket.write_all(&frame).is_err() || self.socket.read_exact(&mut head).is_err() {
            return false;
        }
        let head = read_head(&head).unwrap().unwrap();
        self.socket.read_exact(&mut vec![0; head.frame_bytes - HEAD_BYTES]).is_ok()
    }

    /// Asks for what must be done.
    pub(crate) fn done(&mut self, command: i16, fill: impl FnOnce(&mut Vec<u8>) -> Result<()>) -> Vec<u8> {
        match self.ask(command, fill) {
            (0, body) => body,
            (code, body) => panic!("{:?}", RemoteError::read(code, &body)),
        }
    }

    /// Asks for what must be refused.
    pub(crate) fn refused(
        &mut self,
        command: i16,
        code: ErrorCode,
        fill: impl FnOnce(&mut Vec<u8>) -> Result<()>,
    ) -> RemoteError {
        let (number, body) = self.ask(command, fill);
        let error = RemoteError::read(number, &body).unwrap();
        assert_eq!((number, error.code), (code.number(), code), "{error:?}");
        error
    }

    pub(crate) fn publish(&mut self, subject: &str, bodies: &[&[u8]], delay_ms: u64) -> Vec<Receipt> {
        let mut writer = PublishWriter::default();
        for body in bodies {
            writer.push(subject, DueTime::After(delay_ms), &[], body).unwrap();
        }
        let body = self.done(PUBLISH, |out| writer.put(out, true));
        read_receipts(&mut Reader::new(&body)).unwrap()
    }

    pub(crate) fn subscribe(&mut self, number: u32, subject: &str, group: &str, credit: u32) -> Subscribed {
        let subscribe = subscribing(number, subject, group, credit);
        Subscribed::read(&self.done(SUBSCRIBE, |out| subscribe.put(out))).unwrap()
    }

    pub(crate) fn credit(&mut self, subscription: u32, credit: u32) {
        self.send(CREDIT, FLAG_ONE_WAY, |out| {
            Credit { subscription, credit }.put(out);
            Ok(())
        });
    }

    /// The next so many messages.
    pub(crate) fn messages(&mut self, count: usize) -> Vec<Message> {
        while self.delivered.len() < count {
            let (header, body) = self.receive();
            assert_eq!(header.code, DELIVER, "an answer that nobody waits for");
            self.take(&body);
        }
        self.delivered.drain(..count).collect()
    }

    /// How many messages came without being looked at.
    pub(crate) fn unseen(&self) -> usize {
        self.delivered.len()
    }

    /// Acknowledges these and waits until that is durable.
    pub(crate) fn acknowledge(&mut self, messages: &[Message]) {
        let Some(subscription) = messages.first().map(|message| message.subscription) else { return };
        let ranges = messages.iter().map(|one| KeyRange { queue: one.queue, first: one.offset, count: 1 }).collect();
        let acknowledge = Acknowledge { subscription, ranges };
        self.send(ACKNOWLEDGE, FLAG_ONE_WAY, |out| acknowledge.put(out));
        self.flush(subscription);
    }

    pub(crate) fn flush(&mut self, subscription: u32) {
        self.done(FLUSH, |out| {
            out.extend_from_slice(&subscription.to_be_bytes());
            Ok(())
        });
    }
}

pub(crate) fn subscribing<'a>(number: u32, subject: &'a str, group: &'a str, credit: u32) -> Subscribe<'a> {
    Subscribe {
        subscription: number,
        subjects: vec![subject],
        group,
        consumer: "",
        start: StartAt::Unfinished,
        is_broadcast: false,
        in_flight_max: 1_000,
        credit,
        filters: Vec::new(),
    }
}

/// Ends the server as a killed process does, and starts it again over the same files.
pub(crate) fn restarted(served: Served, options: ServerOptions) -> Served {
    let Served { server, store, folder } = served;
    store.abandon().unwrap();
    drop(server);
    drop(store);
    let store = Store::open(folder.path(), store_options(Durability::Disk), &mut |_| {}).unwrap();
    let server = Server::start(Arc::clone(&store), options).unwrap();
    Served { server, store, folder }
}
