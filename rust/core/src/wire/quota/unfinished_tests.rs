//! Unfinished requests, in turns and bytes; the only clock is the argument.

use bytes::BufMut;

use super::connection_limits::ConnectionLimits;
use super::unfinished::{Borrower, ReadsOn, Unfinished, UnfinishedLimits};
use crate::units::Millis;
use crate::wire::connection::{Connection, Ending};
use crate::wire::frame::{Header, put_frame};
use crate::wire::qmq::send::SEND;

const READ_BYTES: usize = 64 << 10;
/// Turns of a connection in a millisecond.
const TURNS: usize = 16;
const HALF_BYTES: usize = 4 << 20;
const FRAME_BYTES: usize = 8 << 20;
const HOSTILE: u8 = 1;
const HONEST: u8 = 2;

fn book() -> Unfinished<u8> {
    Unfinished::new(UnfinishedLimits::default())
}

/// Connections that take turns; each turn reads 64 KiB if it may.
#[derive(Default)]
struct Reading {
    borrower: Borrower,
    bytes: usize,
}

impl Reading {
    /// Bytes read in one turn of a request of `whole` bytes.
    fn turn(&mut self, book: &mut Unfinished<u8>, address: u8, whole: usize, now: Millis) -> usize {
        if self.borrower.reads_on(book, address, self.bytes, now) != ReadsOn::Now {
            return 0;
        }
        let read = READ_BYTES.min(whole - self.bytes);
        self.bytes += read;
        read
    }

    fn request(&mut self, book: &mut Unfinished<u8>, address: u8, now: &mut Millis) -> u64 {
        let began = *now;
        while self.turn(book, address, FRAME_BYTES, *now) == 0 || self.bytes < FRAME_BYTES {
            *now = self.borrower.rests_until(*now).unwrap_or(*now);
        }
        self.borrower.finished(book, address, std::mem::take(&mut self.bytes), *now);
        now.since(began)
    }
}

/// The bytes read from these connections in this time. Each sends half of a request, closes, and connects again; in
/// each millisecond every connection has [`TURNS`] turns.
fn read_of_halves(book: &mut Unfinished<u8>, connections: usize, from: Millis, milliseconds: u64) -> u64 {
    let mut all: Vec<Reading> = (0..connections).map(|_| Reading::default()).collect();
    let mut read = 0;
    for passed in 0..milliseconds {
        let now = from.plus(passed);
        for turn in 0..connections * TURNS {
            let one = &mut all[turn % connections];
            read += one.turn(book, HOSTILE, HALF_BYTES, now) as u64;
            if one.bytes == HALF_BYTES {
                one.borrower.ended(book, HOSTILE, one.bytes, now);
                *one = Reading::default();
            }
        }
    }
    read
}

#[test]
fn halves_are_read_no_faster_than_they_are_paid_for() {
    let limits = UnfinishedLimits::default();
    for connections in [1, 8] {
        let mut book = book();
        let begun = (connections * HALF_BYTES) as u64;
        // The bytes of the first moments, before the address has a debt…
        let first = read_of_halves(&mut book, connections, Millis(0), 100);
        assert!(first <= limits.free_bytes + begun + 100 * limits.paid_bytes_per_ms, "{first}");
        // …and then the repaid bytes, and the small requests of each connection.
        let second = read_of_halves(&mut book, connections, Millis(100), 60_000);
        let paid = 60_000 * limits.paid_bytes_per_ms;
        assert!(second <= paid + paid / 16 + begun, "{second} of {paid}");
        let unhindered = 60_000 * (connections * TURNS * READ_BYTES) as u64;
        assert!(second < unhindered / 100);
    }
}

#[test]
fn who_finishes_what_it_begins_waits_for_nobody() {
    let mut book = book();
    read_of_halves(&mut book, 8, Millis(0), 1_000);
    let (mut now, mut fresh) = (Millis(1_000), Reading::default());
    for _ in 0..100 {
        assert_eq!(fresh.request(&mut book, HONEST, &mut now), 0);
    }
    // From the address with the unfinished requests, the first request comes in pieces, and later ones do not.
    let mut beside = Reading::default();
    let waited_ms = beside.request(&mut book, HOSTILE, &mut now);
    assert!((1..=20_000).contains(&waited_ms), "{waited_ms}");
    for _ in 0..100 {
        assert_eq!(beside.request(&mut book, HOSTILE, &mut now), 0);
    }
}

#[test]
fn who_finishes_what_says_nothing_is_held_back_as_well() {
    let limits = UnfinishedLimits::default();
    let (mut book, mut now, mut one) = (book(), Millis(0), Reading::default());
    for _ in 0..4 {
        one.request(&mut book, HOSTILE, &mut now);
        one.borrower.worthless(&mut book, HOSTILE, READ_BYTES, now);
    }
    assert!(book.is_empty(), "what is small is not counted");
    for _ in 0..40 {
        one.request(&mut book, HOSTILE, &mut now);
        one.borrower.worthless(&mut book, HOSTILE, FRAME_BYTES, now);
    }
    let paid_for = 40 * FRAME_BYTES as u64 - limits.free_bytes - FRAME_BYTES as u64;
    assert!(now.0 >= paid_for / limits.paid_bytes_per_ms, "{now}");
}

#[test]
fn what_is_small_is_read_at_once_whatever_is_owed() {
    let mut book = book();
    read_of_halves(&mut book, 8, Millis(0), 1_000);
    for _ in 0..100 {
        let mut small = Reading::default();
        assert_eq!(small.turn(&mut book, HOSTILE, READ_BYTES, Millis(1_000)), READ_BYTES);
        small.borrower.finished(&mut book, HOSTILE, READ_BYTES, Millis(1_000));
    }
}

#[test]
fn a_connection_that_breaks_now_and_then_holds_nobody_back() {
    let mut book = book();
    let limits = UnfinishedLimits::default();
    let free_ms = limits.free_bytes / limits.paid_bytes_per_ms;
    for broken in 0..100 {
        let now = Millis(broken * (free_ms / 2));
        Borrower::default().ended(&mut book, HONEST, FRAME_BYTES - 1, now);
        assert_eq!(Reading::default().request(&mut book, HONEST, &mut now.plus(0)), 0);
    }
}

#[test]
fn as_many_wait_as_may_and_no_more() {
    let mut book = book();
    let limits = UnfinishedLimits::default();
    read_of_halves(&mut book, 16, Millis(0), 10);
    let now = Millis(10);
    let asked: Vec<ReadsOn> =
        (0..2_000).map(|_| Borrower::default().reads_on(&mut book, HOSTILE, READ_BYTES, now)).collect();
    let waiting = asked.iter().take_while(|reads_on| matches!(reads_on, ReadsOn::From(_))).count() as u64;
    assert!(asked.is_sorted_by_key(|reads_on| match reads_on {
        ReadsOn::Now => 0,
        ReadsOn::From(from) => from.0,
        ReadsOn::Never => u64::MAX,
    }));
    assert!(waiting > 0 && waiting <= limits.wait_ms_max * limits.paid_bytes_per_ms / limits.piece_bytes);
    assert!(asked[waiting as usize..].iter().all(|reads_on| *reads_on == ReadsOn::Never));
}

#[test]
fn what_is_owed_is_bounded_paid_and_forgotten() {
    let limits = UnfinishedLimits { addresses_max: 2, ..UnfinishedLimits::default() };
    let mut book = Unfinished::new(limits);
    for address in 0..3 {
        for _ in 0..1_000 {
            Borrower::default().ended(&mut book, address, FRAME_BYTES, Millis(0));
        }
    }
    assert_eq!(book.len(), 2, "the third cannot be told apart");
    let reads_on =
        |book: &mut Unfinished<u8>, address, now| Borrower::default().reads_on(book, address, READ_BYTES, Millis(now));
    let over = limits.owed_bytes_max - limits.free_bytes + limits.piece_bytes;
    let from = ReadsOn::From(Millis(over.div_ceil(limits.paid_bytes_per_ms)));
    assert_eq!([0, 1, 2].map(|address| reads_on(&mut book, address, 0)), [from, from, ReadsOn::Now]);
    for address in [0, 1] {
        assert_eq!(reads_on(&mut book, address, limits.held_back_ms), ReadsOn::Now);
    }
    assert!(book.is_empty());
}

#[test]
fn a_frame_is_not_late_by_what_the_server_let_it_rest() {
    let (now, limits) = (Millis(1_000), ConnectionLimits::default());
    let mut connection = Connection::new(limits, true, now);
    connection.prove();
    let mut bytes = Vec::new();
    put_frame(&mut bytes, Header::request(SEND, 9, 1), |out| {
        out.put_slice(b"body");
        Ok(())
    })
    .unwrap();
    connection.receive(&bytes[..bytes.len() - 1], now);
    // Two calls for one pause, and one for a longer pause that begins within it: 300 ms in all.
    connection.rests(now.plus(110), now.plus(10));
    connection.rests(now.plus(110), now.plus(60));
    connection.rests(now.plus(310), now.plus(100));
    let late = now.plus(limits.frame_ms_max + 300);
    assert_eq!(connection.deadline(), Some(late));
    connection.tick(Millis(late.0 - 1));
    assert_eq!(connection.ending(), None);
    connection.tick(late);
    assert_eq!(connection.ending(), Some(&Ending::FrameLate), "what it did not rest is its peer's time");
}
