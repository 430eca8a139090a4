//! Publishes of one message each that arrive together. The server hands them to the log in one batch and answers each by
//! itself.

#![cfg(test)]

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::support::{Client, Served, metric, options, serve_with, store_options};
use delaymq_core::wire::extension::errors::{ErrorCode, RemoteError};
use delaymq_core::wire::extension::publish::{DueTime, PublishWriter, put_receipts, read_outcomes, read_receipts};
use delaymq_core::wire::extension::{CANCEL, EXTENSION_VERSION, PUBLISH};
use delaymq_core::wire::frame::{Header, put_frame};
use delaymq_core::wire::reader::Reader;
use delaymq_engine::{Clock, ClockReading, Durability, Options, Receipt, Store};
use delaymq_server::Server;

const COUNT: i32 = 300;
const DELAY_MS: u64 = 600_000;

/// A request under the number of its message. Every tenth carries a check that does not fit its body, and every seventh
/// wants no receipt.
fn put_request(out: &mut Vec<u8>, number: i32, body: &[u8], delay_ms: u64) {
    let mut writer = PublishWriter::default();
    writer.push("order", DueTime::After(delay_ms), &[], body).unwrap();
    let header = Header::request(PUBLISH, EXTENSION_VERSION, number);
    put_frame(out, header, |out| writer.put(out, number % 7 != 0)).unwrap();
    if number % 10 == 0 {
        *out.last_mut().unwrap() ^= 1;
    }
}

/// Sends all requests of a client at once, and returns its receipts by number.
fn asked(client: &mut Client, numbers: std::ops::Range<i32>, bytes: usize) -> BTreeMap<i32, Receipt> {
    let mut out = Vec::new();
    for number in numbers.clone() {
        let body = format!("{number:<bytes$}");
        put_request(&mut out, number, body.as_bytes(), DELAY_MS + u64::from(number.unsigned_abs()));
    }
    client.socket.write_all(&out).unwrap();
    let mut receipts = BTreeMap::new();
    for _ in numbers {
        let (number, code, body) = client.answer();
        if number % 10 == 0 {
            let error = RemoteError::read(code, &body).unwrap();
            assert_eq!(error.code, ErrorCode::InvalidArgument, "{number}: {error:?}");
            continue;
        }
        assert_eq!(code, 0, "{number}");
        let found = read_receipts(&mut Reader::new(&body)).unwrap();
        assert_eq!(found.len(), usize::from(number % 7 != 0), "{number}");
        receipts.extend(found.into_iter().map(|receipt| (number, receipt)));
    }
    receipts
}

/// Each receipt is that of its own message: the message of the receipt is due when that was asked for.
fn check(served: &Served, receipts: &BTreeMap<i32, Receipt>) {
    let mut client = served.connect();
    let delays: Vec<_> =
        receipts.iter().map(|(number, receipt)| receipt.key.due.0 - u64::from(number.unsigned_abs())).collect();
    let (first, last) = (delays.iter().min().unwrap(), delays.iter().max().unwrap());
    assert!(last - first < 20_000, "each was due {DELAY_MS} ms and its number later");
    for (number, receipt) in receipts {
        let body = client.done(CANCEL, |out| put_receipts(out, std::iter::once(*receipt)));
        let [outcome] = read_outcomes(&body).unwrap()[..] else { panic!("one outcome") };
        assert_eq!(format!("{outcome:?}"), "Done", "{number}");
    }
}

#[test]
fn each_is_answered_by_itself_and_a_refused_one_harms_no_other() {
    for durability in [Durability::Disk, Durability::Os] {
        let served = serve_with(options(), durability);
        let before = metric(&served, "commits");
        let mut clients = [served.connect(), served.connect()];
        let mut receipts = asked(&mut clients[0], 1..COUNT, 8);
        assert!(
            metric(&served, "commits") - before < u64::from(COUNT.unsigned_abs()) / 2,
            "they go to the log together"
        );
        receipts.extend(asked(&mut clients[1], COUNT..COUNT * 2, 8));
        check(&served, &receipts);
        let kept = (1..COUNT * 2).filter(|number| number % 10 != 0 && number % 7 == 0).count();
        assert_eq!(served.store.status().unwrap().pending, kept as u64, "those without receipts are left");
    }
}

/// A clock on which a millisecond passes with each reading.
struct Ticking(AtomicU64);

impl Clock for Ticking {
    fn read(&self) -> ClockReading {
        let passed_ns = self.0.fetch_add(1, Ordering::SeqCst) * 1_000_000;
        ClockReading { wall_ns: 1_800_000_000_000_000_000 + passed_ns, boot_ns: 1_000_000_000 + passed_ns }
    }
}

#[test]
fn no_delay_counts_from_before_its_request_was_sent() {
    let folder = tempfile::tempdir().unwrap();
    let ticking = Options { clock: Arc::new(Ticking(AtomicU64::new(0))), ..store_options(Durability::Os) };
    let store = Store::open(folder.path(), ticking, &mut |_| {}).unwrap();
    let server = Server::start(Arc::clone(&store), options()).unwrap();
    let served = Served { server, store, folder };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = served.connect();
                for _ in 0..200 {
                    let mut sent = BTreeMap::new();
                    for number in 1..40 {
                        let mut out = Vec::new();
                        put_request(&mut out, number * 10 + 1, b"x", DELAY_MS);
                        sent.insert(number * 10 + 1, served.store.now());
                        client.socket.write_all(&out).unwrap();
                    }
                    for _ in 1..40 {
                        let (number, _, body) = client.answer();
                        for receipt in read_receipts(&mut Reader::new(&body)).unwrap() {
                            assert!(receipt.key.due >= sent[&number].plus(DELAY_MS), "early");
                        }
                    }
                }
            });
        }
    });
}

#[test]
fn what_is_too_much_for_one_batch_takes_several() {
    let folder = tempfile::tempdir().unwrap();
    let small = Options { segment_bytes: 64 << 10, ..store_options(Durability::Os) };
    let store = Store::open(folder.path(), small, &mut |_| {}).unwrap();
    let server = Server::start(Arc::clone(&store), options()).unwrap();
    let served = Served { server, store, folder };
    let receipts = asked(&mut served.connect(), 1..60, 9_000);
    assert_eq!(receipts.len(), (1..60).filter(|number| number % 10 != 0 && number % 7 != 0).count());
    check(&served, &receipts);
}

#[test]
fn a_publish_follows_those_that_its_connection_sent_before() {
    let served = serve_with(options(), Durability::Os);
    let mut client = served.connect();
    let mut out = Vec::new();
    for number in 1..6 {
        put_request(&mut out, number, b"one", DELAY_MS);
    }
    let mut many = PublishWriter::default();
    for body in [b"first", b"other"] {
        many.push("order", DueTime::After(DELAY_MS), &[], body).unwrap();
    }
    put_frame(&mut out, Header::request(PUBLISH, EXTENSION_VERSION, 6), |out| many.put(out, true)).unwrap();
    put_request(&mut out, 8, b"one", DELAY_MS);
    client.socket.write_all(&out).unwrap();
    let mut sequences = BTreeMap::new();
    for _ in 0..7 {
        let (number, code, body) = client.answer();
        assert_eq!(code, 0, "{number}");
        let found = read_receipts(&mut Reader::new(&body)).unwrap();
        sequences.insert(number, found.iter().map(|receipt| receipt.key.sequence.0).collect::<Vec<_>>());
    }
    let in_order: Vec<u64> = sequences.into_values().flatten().collect();
    assert!(in_order.is_sorted(), "{in_order:?}");
}
