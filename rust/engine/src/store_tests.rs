use delaymq_core::error::Error;

use delaymq_core::message_log::Preparing;

use super::*;
use crate::background::thread::HelperState;
use crate::clock::system_clock::{Clock, ClockReading, SystemClock};

use crate::options::{Due, Durability, SubscribeOptions};

fn try_files_of(folder: &Path) -> std::io::Result<Vec<(std::path::PathBuf, Vec<u8>)>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(try_files_of(&path)?);
        } else {
            let bytes = std::fs::read(&path)?;
            files.push((path, bytes));
        }
    }
    files.sort();
    Ok(files)
}

fn files_of(folder: &Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    try_files_of(folder).unwrap()
}

/// The files once the threads of the store are idle.
fn files_at_rest(folder: &Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let mut looks: Vec<Vec<_>> = Vec::new();
    while looks.len() < 3 {
        std::thread::sleep(Duration::from_millis(150));
        // A file that gets its name meanwhile is not there under its old one.
        let look = try_files_of(folder).unwrap_or_default();
        looks.retain(|before| *before == look && !look.is_empty());
        looks.push(look);
    }
    looks.swap_remove(0)
}

/// How long it takes.
fn await_vouched(store: &Store) -> Duration {
    let began = Instant::now();
    let end = began + Duration::from_secs(20);
    while store.shared.writer().unwrap().get().unwrap().appender.witness_due() {
        assert!(Instant::now() < end, "nobody vouches");
        std::thread::sleep(Duration::from_millis(5));
    }
    began.elapsed()
}

/// As a rule, since any one may meet a busy machine. A driver that slept would be woken after two seconds, for
/// another reason.
fn is_soon(mut took: [Duration; 8]) {
    took.sort();
    assert!(took[4] < Duration::from_millis(500), "{took:?}");
}

#[test]
fn a_forked_child_touches_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { segment_bytes: 64 << 10, durability: Durability::Os, ..Options::default() };
    let store = Store::open(folder.path(), options, &mut |_| {}).unwrap();
    let messages = store.subscribe("orders", "billing", SubscribeOptions::default()).unwrap();
    let mut batch = store.batch();
    batch.push("orders", Due::After(0), &[], b"parent").unwrap();
    let ticket = store.submit(&mut batch).unwrap();
    assert!(ticket.wait(Duration::from_secs(5)).unwrap().is_some());
    let key = messages.pull(1, Duration::from_secs(5)).unwrap()[0].key;
    let before = files_at_rest(folder.path());
    let parent = std::process::id();
    store.shared.guard.pretend_child_of(parent + 1);
    let is_forked = |error: Option<Error>| {
        assert_eq!(error, Some(Error::ForkedProcess { owner: parent + 1, caller: parent }));
    };
    batch.push("orders", Due::After(0), &[], b"child").unwrap();
    is_forked(store.publish(&mut batch).err());
    is_forked(store.submit(&mut batch).err());
    is_forked(ticket.wait(Duration::ZERO).err());
    is_forked(store.cancel_many(&[]).err());
    is_forked(store.subscribe("orders", "other", SubscribeOptions::default()).err());
    is_forked(store.status().err());
    is_forked(store.next_report(Duration::ZERO).err());
    is_forked(store.checkpoint().err());
    is_forked(store.close().err());
    is_forked(messages.pull(1, Duration::ZERO).err());
    is_forked(messages.acknowledge(&[key]).err());
    is_forked(messages.give_back(key, 0).err());
    is_forked(messages.flush(Duration::ZERO).err());
    is_forked(messages.close().err());
    messages.stop();
    assert!(!messages.is_stopped());
    drop(messages);
    let shared = Arc::clone(&store.shared);
    drop(store);
    assert_eq!(files_of(folder.path()), before);
    // What the child leaked ends with it; here the threads must be let go by hand.
    shared.guard.pretend_child_of(parent);
    shared.stopping.store(true, Ordering::SeqCst);
    for signal in [&shared.committer, &shared.driver, &shared.helper] {
        signal.raise();
    }
}

#[test]
fn an_idle_log_is_vouched_for() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { segment_bytes: 64 << 10, clock: Arc::new(Patient), ..Options::default() };
    let store = Store::open(folder.path(), options, &mut |_| {}).unwrap();
    let mut batch = store.batch();
    let took = [(); 8].map(|()| {
        batch.push("orders", Due::After(60_000), &[], b"x").unwrap();
        store.publish(&mut batch).unwrap();
        await_vouched(&store)
    });
    is_soon(took);
}

/// The thread that commits a cancel applies it, while the driver sleeps.
#[test]
fn an_idle_log_is_vouched_for_though_its_driver_had_no_part_in_what_came() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(Patient);
    let options = Options { segment_bytes: 64 << 10, durability: Durability::Os, clock, ..Options::default() };
    let store = Store::open(folder.path(), options, &mut |_| {}).unwrap();
    let mut batch = store.batch();
    for _ in 0..8 {
        batch.push("orders", Due::After(60_000), &[], b"x").unwrap();
    }
    let receipts = store.publish(&mut batch).unwrap();
    let mut receipts = receipts.iter();
    let took = [(); 8].map(|()| {
        std::thread::sleep(Duration::from_millis(150));
        store.cancel_many(&[receipts.next().unwrap()]).unwrap();
        await_vouched(&store)
    });
    is_soon(took);
}

#[test]
fn abandoning_writes_nothing_and_closing_does() {
    for close in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let options = Options { segment_bytes: 64 << 10, durability: Durability::Os, ..Options::default() };
        let store = Store::open(folder.path(), options, &mut |_| {}).unwrap();
        let messages = store.subscribe("orders", "billing", SubscribeOptions::default()).unwrap();
        let mut batch = store.batch();
        batch.push("orders", Due::After(0), &[], b"held").unwrap();
        store.publish(&mut batch).unwrap();
        assert_eq!(messages.pull(1, Duration::from_secs(5)).unwrap().len(), 1);
        let before = files_at_rest(folder.path());
        if close {
            store.close().unwrap();
        } else {
            store.abandon().unwrap();
        }
        assert_eq!(files_of(folder.path()) == before, !close);
    }
}

#[test]
fn closing_takes_a_whole_segment_away_that_the_log_did_not_take_in() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), Options::default(), &mut |_| {}).unwrap();
    let header = store.shared.writer().unwrap().get().unwrap().appender.plan_next(0);
    store.close().unwrap();
    // As the helper that had just prepared one when the log ended.
    let prepared = Preparing::begin(Arc::clone(&store.shared.storage), header, false).unwrap().finish().unwrap();
    let file = folder.path().join(prepared.temporary());
    let mut helping = HelperState::default();
    assert_eq!(store.shared.adopt(prepared, &mut helping), Err(Error::Closed));
    assert!(file.exists());
    *crate::held(&store.shared.background.unfinished) = helping.unfinished;
    store.shared.clear_up();
    assert!(!file.exists());
}

#[test]
fn closing_takes_a_half_prepared_segment_away_and_inspecting_names_one() {
    for close in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let open = || Store::open(folder.path(), Options::default(), &mut |_| {}).unwrap();
        let store = open();
        let mut batch = store.batch();
        for _ in 0..20 {
            batch.push("orders", Due::After(3_600_000), &[], &vec![0; 1 << 20]).unwrap();
            store.publish(&mut batch).unwrap();
        }
        store.close().unwrap();
        let store = open();
        let preparing = || {
            let seen = crate::inspect(folder.path(), &crate::KeepFinished::default()).unwrap().inspection;
            // The first segments of an opening are small. A store that was given much prepares large ones.
            let large = |file: &&crate::InspectedFile| file.bytes > 32 << 20;
            seen.files.iter().filter(large).filter(|file| file.kind == crate::FileKind::Preparing).count()
        };
        let until = Instant::now() + Duration::from_secs(10);
        while preparing() == 0 {
            assert!(Instant::now() < until, "no segment is prepared");
        }
        if close {
            store.close().unwrap();
        } else {
            store.abandon().unwrap();
        }
        assert_eq!(preparing(), usize::from(!close));
    }
}

#[test]
fn settling_waits_for_nobody_who_has_the_owner() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { segment_bytes: 64 << 10, durability: Durability::Os, ..Options::default() };
    let store = Store::open(folder.path(), options, &mut |_| {}).unwrap();
    let messages = store.subscribe("orders", "billing", SubscribeOptions::default()).unwrap();
    let mut batch = store.batch();
    for number in 0..9_u8 {
        batch.push("orders", Due::After(0), &[0; 5], &[number]).unwrap();
    }
    store.publish(&mut batch).unwrap();
    let found = messages.pull(9, Duration::from_secs(5)).unwrap();
    assert_eq!(found.len(), 9);
    {
        // The lock is not one that its holder may take again: waiting here would be for ever.
        let _held = store.shared.lock_owner().unwrap();
        for (number, message) in found.iter().enumerate() {
            match number % 3 {
                0 => drop(messages.acknowledge(&[message.key]).unwrap()),
                1 => assert!(messages.give_back(message.key, 3_600_000).unwrap()),
                _ => assert!(messages.dead_letter(message.key, &format!("reason {number}")).unwrap()),
            }
            messages.give_back(message.key, 0).unwrap(); // settled already
        }
        assert!(messages.begin_flush().unwrap().is_none());
    }
    assert!(messages.flush(Duration::from_secs(5)).unwrap());
    let status = store.status().unwrap();
    assert_eq!((status.pending, status.ready), (3, 3), "three given back, three dead letters");
    let reasons: Vec<String> =
        store.dead_letters("orders", "billing", 10).unwrap().into_iter().map(|letter| letter.reason).collect();
    assert_eq!(reasons, ["reason 2", "reason 5", "reason 8"]);
}

/// The system's clock, under which no thread looks again without being woken.
struct Patient;

impl Clock for Patient {
    fn read(&self) -> ClockReading {
        SystemClock.read()
    }
    fn sleep_max(&self) -> Duration {
        Duration::from_secs(3_600)
    }
}

#[test]
fn what_was_settled_beside_a_busy_owner_is_sent_by_the_driver() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(Patient);
    let options = Options { segment_bytes: 64 << 10, durability: Durability::Os, clock, ..Options::default() };
    let store = Store::open(folder.path(), options, &mut |_| {}).unwrap();
    let messages = store.subscribe("orders", "billing", SubscribeOptions::default()).unwrap();
    for given_back in 1..=20 {
        let mut batch = store.batch();
        batch.push("orders", Due::After(0), &[0; 5], b"x").unwrap();
        store.publish(&mut batch).unwrap();
        let first = messages.pull(1, Duration::from_secs(5)).unwrap().remove(0);
        // The driver comes to rest, so that it is woken only by what is left to it.
        std::thread::sleep(Duration::from_millis(60));
        {
            let _held = store.shared.lock_owner().unwrap();
            messages.give_back(first.key, 3_600_000).unwrap();
        }
        let until = Instant::now() + Duration::from_secs(10);
        while store.status().unwrap().pending < given_back {
            assert!(Instant::now() < until, "nobody sent it");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
fn every_subscription_of_a_group_hears_of_what_was_given_back_also_one_that_came_later() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { segment_bytes: 64 << 10, durability: Durability::Os, ..Options::default() };
    let store = Store::open(folder.path(), options, &mut |_| {}).unwrap();
    let [first, other] =
        ["billing", "audit"].map(|group| store.subscribe("orders", group, SubscribeOptions::default()).unwrap());
    let mut batch = store.batch();
    let mut publish = || {
        batch.push("orders", Due::After(0), &[], b"42").unwrap();
        store.publish(&mut batch).unwrap();
        first.pull(1, Duration::from_secs(30)).unwrap()[0].key
    };
    first.give_back(publish(), 0).unwrap();
    let again = first.pull(1, Duration::from_secs(30)).unwrap();
    assert_eq!(again[0].attempt, 2);
    first.acknowledge(&[again[0].key]).unwrap();
    let later = store.subscribe("orders", "billing", SubscribeOptions::default()).unwrap();
    // Ready by itself after a while, so that nothing of the group's own subject tells of it.
    first.give_back(publish(), 100).unwrap();
    assert!(first.flush(Duration::from_secs(30)).unwrap());
    store.status().unwrap();
    let [seen, others] = [&later, &other].map(|one| one.member.news.count());
    assert!(later.member.news.wait_beyond(seen, Duration::from_secs(30)));
    assert_eq!(other.member.news.count(), others, "what one group gives back is nothing to another");
}
