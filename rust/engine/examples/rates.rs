//! How fast the engine is here and now: `cargo run --release --example rates -- NAME FOLDER`.
#![expect(clippy::print_stdout, clippy::unwrap_used, clippy::indexing_slicing, reason = "a tool for people")]
#![expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::cast_lossless,
    reason = "figures for people"
)]

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use delaymq_core::units::Millis;
use delaymq_engine::{DeliveryKey, Due, Durability, Options, StartAt, Store, SubscribeOptions};

const META: [u8; 5] = [0; 5];
const BODY: [u8; 200] = [7; 200];
const FAR: Due = Due::After(24 * 3_600_000);

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let root = Path::new(&arguments[2]);
    match arguments[1].as_str() {
        "single" => single(root),
        "batches" => batches(root),
        "tickets" => tickets(root),
        "lateness" => lateness(root, arguments.get(3).and_then(|which| which.parse().ok())),
        "burst" => burst(root),
        "hops" => hops(root),
        other => println!("what is {other}?"),
    }
}

fn fresh(root: &Path, name: &str, durability: Durability) -> Arc<Store> {
    let path = root.join(name);
    let _absent = std::fs::remove_dir_all(&path);
    Store::open(&path, Options { durability, ..Options::default() }, &mut |_| {}).unwrap()
}

fn per_second(count: usize, elapsed: Duration) -> f64 {
    count as f64 / elapsed.as_secs_f64()
}

fn single(root: &Path) {
    for (durability, count) in [(Durability::Os, 400_000), (Durability::Disk, 8_000)] {
        let store = fresh(root, "single", durability);
        let mut batch = store.batch();
        let began = Instant::now();
        for _ in 0..count {
            batch.push("orders", FAR, &META, &BODY).unwrap();
            store.publish(&mut batch).unwrap();
        }
        let rate = per_second(count, began.elapsed());
        let metrics = store.status().unwrap().metrics;
        let sync_us = metrics.sync_us as f64 / metrics.syncs.max(1) as f64;
        println!(
            "single publishes, {durability:?}: {rate:.0}/s, {:.0} us a sync of {}, {} steps, {} led, {} prepared",
            sync_us, metrics.syncs, metrics.steps, metrics.led_commits, metrics.prepared_segments
        );
    }
}

/// Publishing on one's own thread against publishing through the committer, in turns.
fn hops(root: &Path) {
    let store = fresh(root, "hops", Durability::Disk);
    let mut batch = store.batch();
    for turn in 0..8 {
        let before = store.status().unwrap().metrics;
        let began = Instant::now();
        for _ in 0..1_000 {
            batch.push("orders", FAR, &META, &BODY).unwrap();
            if turn % 2 == 0 {
                store.publish(&mut batch).unwrap();
            } else {
                store.submit(&mut batch).unwrap().finish().unwrap();
            }
        }
        let rate = per_second(1_000, began.elapsed());
        let after = store.status().unwrap().metrics;
        let sync_us = (after.sync_us - before.sync_us) as f64 / (after.syncs - before.syncs) as f64;
        let way = if turn % 2 == 0 { "own thread" } else { "committer" };
        println!("{way}: {rate:.0}/s, {sync_us:.0} us a sync, {} prepared", after.prepared_segments);
    }
}

fn batches(root: &Path) {
    for (durability, size) in
        [(Durability::Os, 1_000), (Durability::Os, 5_000), (Durability::Disk, 1_000), (Durability::Disk, 5_000)]
    {
        for (name, due) in [("far", FAR), ("near", Due::After(600_000))] {
            let store = fresh(root, "batches", durability);
            let mut batch = store.batch();
            let rounds = 3_000_000 / size;
            let began = Instant::now();
            let mut tickets = VecDeque::new();
            for _ in 0..rounds {
                for _ in 0..size {
                    batch.push("orders", due, &META, &BODY).unwrap();
                }
                tickets.push_back(store.submit(&mut batch).unwrap());
                if tickets.len() > 4 {
                    tickets.pop_front().unwrap().finish().unwrap();
                }
            }
            for ticket in tickets {
                ticket.finish().unwrap();
            }
            let published = began.elapsed();
            let pending = store.status().unwrap().pending;
            println!(
                "batches of {size}, {durability:?}, {name}: {:.2} M/s, applied after {:.0} ms more ({pending} pending)",
                per_second(rounds * size, published) / 1e6,
                (began.elapsed().saturating_sub(published)).as_secs_f64() * 1e3
            );
        }
    }
}

fn tickets(root: &Path) {
    for in_flight in [1_usize, 16, 64, 256, 1_024] {
        let store = fresh(root, "tickets", Durability::Disk);
        let mut batch = store.batch();
        let count = if in_flight < 16 { 8_000 } else { in_flight * 2_000 };
        let mut tickets = VecDeque::new();
        let began = Instant::now();
        for _ in 0..count {
            batch.push("orders", Due::After(300_000), &META, &BODY).unwrap();
            tickets.push_back(store.submit(&mut batch).unwrap());
            if tickets.len() >= in_flight {
                tickets.pop_front().unwrap().finish().unwrap();
            }
        }
        for ticket in tickets {
            ticket.finish().unwrap();
        }
        let elapsed = began.elapsed();
        let metrics = store.status().unwrap().metrics;
        println!(
            "durable acks, {in_flight} in flight: {:.0}/s, {} commits, {:.0} us a sync",
            per_second(count, elapsed),
            metrics.commits,
            metrics.sync_us as f64 / metrics.syncs as f64
        );
    }
}

fn wall_us() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros()).unwrap()
}

fn lateness(root: &Path, which: Option<usize>) {
    let cases = [
        (Durability::Disk, 1_000_u64, false),
        (Durability::Os, 1_000, false),
        (Durability::Disk, 20_000, false),
        (Durability::Disk, 1_000, true),
    ];
    let cases = cases.into_iter().enumerate().filter(|(index, _)| which.is_none_or(|which| which == *index));
    for (_, (durability, rate, beside)) in cases {
        let store = fresh(root, "lateness", durability);
        let options =
            SubscribeOptions { start: StartAt::Unfinished, in_flight_max: 1_024, ..SubscribeOptions::default() };
        let messages = store.subscribe("ticks", "group", options).unwrap();
        let seconds = 8;
        let total = usize::try_from(rate * seconds).unwrap();
        let mut batch = store.batch();
        let first_ms = wall_us() / 1_000 + 1_500;
        for number in 0..rate * seconds {
            batch.push("ticks", Due::At(Millis(first_ms + number * 1_000 / rate)), &META, &BODY).unwrap();
            if batch.len() == 1_000 {
                store.publish(&mut batch).unwrap();
            }
        }
        let done = Arc::new(AtomicBool::new(false));
        let publisher = beside.then(|| {
            let (store, done) = (Arc::clone(&store), Arc::clone(&done));
            std::thread::spawn(move || publish_beside(&store, &done))
        });
        let mut late = Vec::with_capacity(total);
        while late.len() < total {
            let pulled = messages.pull(256, Duration::from_secs(1)).unwrap();
            let now = wall_us();
            late.extend(pulled.iter().map(|message| now as i64 - message.due.0 as i64 * 1_000));
            let keys: Vec<DeliveryKey> = pulled.iter().map(|message| message.key).collect();
            messages.acknowledge(&keys).unwrap();
        }
        done.store(true, Ordering::SeqCst);
        let published = publisher.map(|thread| thread.join().unwrap());
        late.sort_unstable();
        let at = |share: f64| late[((late.len() - 1) as f64 * share) as usize] as f64 / 1_000.0;
        println!(
            "lateness at {rate}/s, {durability:?}, publishing beside {published:?}: min {:.2} p50 {:.2} p90 {:.2} p99 {:.2} p99.9 {:.2} max {:.2} ms",
            at(0.0),
            at(0.5),
            at(0.9),
            at(0.99),
            at(0.999),
            at(1.0)
        );
    }
}

/// Publishes far messages at about half of what the disk allows.
fn publish_beside(store: &Store, done: &AtomicBool) -> u64 {
    let mut batch = store.batch();
    let mut count = 0;
    let began = Instant::now();
    while !done.load(Ordering::SeqCst) {
        for _ in 0..500 {
            batch.push("other", FAR, &META, &BODY).unwrap();
        }
        store.publish(&mut batch).unwrap();
        count += 500;
        let ahead = Duration::from_secs_f64(count as f64 / 300_000.0);
        std::thread::sleep(ahead.saturating_sub(began.elapsed()));
    }
    (count as f64 / began.elapsed().as_secs_f64()) as u64
}

fn burst(root: &Path) {
    for in_flight_max in [256, 4_096] {
        let store = fresh(root, "burst", Durability::Disk);
        let options = SubscribeOptions { start: StartAt::Unfinished, in_flight_max, ..SubscribeOptions::default() };
        let messages = store.subscribe("ticks", "group", options).unwrap();
        let due_ms = wall_us() / 1_000 + 4_000;
        let mut batch = store.batch();
        for _ in 0..200 {
            for _ in 0..5_000 {
                batch.push("ticks", Due::At(Millis(due_ms)), &META, &BODY[..64]).unwrap();
            }
            store.publish(&mut batch).unwrap();
        }
        println!("published, {} ms ahead", due_ms as i64 - (wall_us() / 1_000) as i64);
        let mut count = 0;
        let mut first = None;
        let mut bytes = 0;
        while count < 1_000_000 {
            let pulled = messages.pull(1_024, Duration::from_secs(5)).unwrap();
            first.get_or_insert_with(wall_us);
            bytes += pulled.iter().map(|message| message.body().len()).sum::<usize>();
            count += pulled.len();
            let keys: Vec<DeliveryKey> = pulled.iter().map(|message| message.key).collect();
            messages.acknowledge(&keys).unwrap();
        }
        println!(
            "burst of 1 M, in flight {in_flight_max}: first after {:.1} ms, all after {:.2} s ({bytes} bytes)",
            (first.unwrap() as i64 - due_ms as i64 * 1_000) as f64 / 1e3,
            (wall_us() as i64 - due_ms as i64 * 1_000) as f64 / 1e6
        );
    }
}
