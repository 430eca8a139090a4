//! The memory that peers make the server keep, as the kernel counts it: bounded for a connection and for an address,
//! while others go on.

#![cfg(test)]

use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::faulty::serve_faulty;
use crate::keeping::{MEBI, from_address, groups, holding, large, settled};
use crate::support::qmq::{Pull, Qmq, checked, ids, message, pull, text};
use crate::support::{Client, PATIENCE, eventually, metric, options, serve, serve_with, subscribing};
use delaymq_core::queues::tags::{Filter, TagRule};
use delaymq_core::wire::extension::administration::{GroupName, Listing};
use delaymq_core::wire::extension::dead_letters::DeadLetters;
use delaymq_core::wire::extension::errors::ErrorCode;
use delaymq_core::wire::extension::publish::{DueTime, PublishWriter};
use delaymq_core::wire::extension::{DEAD_LETTERS, PING, PUBLISH, SUBSCRIBE, UNSUBSCRIBE};
use delaymq_core::wire::frame::{Header, put_frame};
use delaymq_core::wire::quota::memory_accounting::ScalesLimits;
use delaymq_core::wire::quota::unfinished::UnfinishedLimits;
use delaymq_engine::Durability;
use delaymq_server::ServerOptions;
use socket2::SockRef;

/// One test at a time, since what one keeps is counted with what another does.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Memory of this process that no file stands behind.
fn memory_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1_024
}

fn framed(command: i16, version: i16, opaque: i32, body: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    put_frame(&mut frame, Header::request(command, version, opaque), |out| {
        out.extend_from_slice(body);
        Ok(())
    })
    .unwrap();
    frame
}

#[test]
fn pulls_of_who_does_not_read_are_answered_as_far_as_there_is_room_and_the_rest_once_it_reads() {
    let _alone = alone();
    let served = serve_with(options(), Durability::Os);
    let (mut deaf, mut behind) = (Qmq::to(served.server.address()), Qmq::to(served.server.address()));
    let [first, next] = ["first", "next"].map(|consumer| Pull { hold_ms: 300_000, ..pull("later", "g", consumer) });
    let last = deaf.ask_pull(&first);
    eventually("it waits", || metric(&served, "held_pulls") == 1);
    let waiting = behind.ask_pull(&next);
    eventually("another waits behind it", || metric(&served, "held_pulls") == 2);
    let held = holding(&served, &mut deaf, &groups("deaf", 150));
    let before = memory_bytes();
    Qmq::to(served.server.address()).store(&[large("order", "a", 128)]);
    let answered = settled("the answers", 0, || metric(&served, "answered_messages"));
    let added = memory_bytes().saturating_sub(before);
    assert!(added < 64 * MEBI && answered < 20, "{answered} answers took {} MiB", added / MEBI);
    // What one of its pulls is woken with is for the next of the group.
    Qmq::to(served.server.address()).store(&[message("later", "c", &[], None)]);
    assert_eq!(ids(&behind.pulled(waiting)), ["c"]);
    // A message of the same group is for others meanwhile.
    let mut other = Qmq::to(served.server.address());
    Qmq::to(served.server.address()).store(&[message("order", "b", &[], None)]);
    let listed = served.store.groups().unwrap();
    let parked = listed.iter().find(|group| group.in_flight == 0).unwrap().name.clone();
    assert_eq!(ids(&other.take(&Pull { count: 1, ..pull("order", &parked, "other") }, 1)), ["a"]);
    for (group, asked) in groups("deaf", 150).into_iter().zip(held) {
        let first = if group == parked { "b" } else { "a" };
        assert_eq!(ids(&deaf.pulled(asked))[0], first);
    }
    assert!(!deaf.has_answer(last));
    eventually("nothing to be kept", || metric(&served, "kept_bytes") < MEBI);
}

#[test]
fn who_parks_pulls_and_goes_takes_nothing_along() {
    let _alone = alone();
    let served = serve_with(options(), Durability::Os);
    let mut deaf = Qmq::to(served.server.address());
    let names = groups("deaf", 30);
    drop(holding(&served, &mut deaf, &names));
    Qmq::to(served.server.address()).store(&[large("order", "a", 128)]);
    settled("the answers", 0, || metric(&served, "answered_messages"));
    drop(deaf);
    eventually("it to be gone", || metric(&served, "connections") == 0);
    assert_eq!((metric(&served, "kept_bytes"), metric(&served, "held_pulls")), (0, 0));
    let mut next = Qmq::to(served.server.address());
    for group in &names {
        assert_eq!(ids(&next.take(&pull("order", group, "c"), 1)), ["a"]);
    }
    // A stop does not wait for who is parked.
    let held = holding(&served, &mut next, &groups("later", 30));
    let before = metric(&served, "answered_messages");
    Qmq::to(served.server.address()).store(&[large("order", "b", 128)]);
    settled("the answers", before, || metric(&served, "answered_messages"));
    served.server.stop(PATIENCE);
    let told: Vec<usize> = held.into_iter().map(|asked| next.pulled(asked).len()).collect();
    assert!(told.contains(&1) && told.contains(&0), "{told:?}");
    assert_eq!(served.server.wait(PATIENCE).map(|stopped| stopped.cut_off), Some(0));
}

#[test]
fn lists_of_who_does_not_read_are_made_once_it_reads() {
    let _alone = alone();
    let served = serve_with(options(), Durability::Os);
    let mut deaf = served.connect();
    let letters =
        DeadLetters { name: GroupName { subject: "order", group: "g" }, listing: Listing { after: 0, count_max: 10 } };
    let mut qmq = Qmq::to(served.server.address());
    assert!(qmq.pull(&pull("order", "g", "c")).is_empty());
    qmq.store(&[large("%DEAD_RETRY%order%g", "a", 128)]);
    eventually("a dead letter", || deaf.done(DEAD_LETTERS, |out| letters.put(out)).len() > 4_000_000);
    let before = memory_bytes();
    let asked: Vec<i32> = (0..150).map(|_| deaf.send(DEAD_LETTERS, 0, |out| letters.put(out))).collect();
    settled("what is made", 0, || memory_bytes() / (8 * MEBI));
    let added = memory_bytes().saturating_sub(before);
    assert!(added < 64 * MEBI, "the lists took {} MiB", added / MEBI);
    // It takes no place of others who want a list.
    assert_eq!(metric(&served, "waiting_for_threads"), 0);
    assert!(served.connect().done(DEAD_LETTERS, |out| letters.put(out)).len() > 4_000_000);
    for opaque in asked {
        let (of, code, body) = deaf.answer();
        assert_eq!((of, code, body.len() > 4_000_000), (opaque, 0, true));
    }
}

/// The body of a pull with 16 filters of 127 tags each.
fn with_filters(tag: &str) -> Vec<u8> {
    let mut body = Vec::new();
    for name in ["order", "g", "c"] {
        text(&mut body, name);
    }
    body.extend(1_i32.to_be_bytes());
    for number in [-1_i64, -1, -1, 300_000] {
        body.extend(number.to_be_bytes());
    }
    body.push(0);
    body.extend(16_i32.to_be_bytes());
    for _ in 0..16 {
        body.extend([0, 1, 0, 1, 127]);
        (0..127).for_each(|_| text(&mut body, tag));
    }
    body
}

#[test]
fn filters_that_no_message_could_pass_are_not_kept() {
    let _alone = alone();
    // What says nothing is read slowly, from whom sends much of it; how fast it is read is no matter here.
    let unfinished = UnfinishedLimits { free_bytes: 1 << 30, ..UnfinishedLimits::default() };
    let served = serve_with(ServerOptions { unfinished, ..options() }, Durability::Os);
    let mut qmq = Qmq::to(served.server.address());
    let body = with_filters(&"x".repeat(4_000));
    assert!(qmq.pull(&pull("order", "g", "c")).is_empty(), "it proves itself");
    let before = memory_bytes();
    let asked: Vec<i32> = (0..30).map(|_| qmq.send(11, &body)).collect();
    eventually("all to be read", || metric(&served, "requests") >= 30);
    let added = memory_bytes().saturating_sub(before);
    assert!(added < 64 * MEBI, "the filters took {} MiB", added / MEBI);
    assert!(asked.into_iter().all(|asked| qmq.answer(asked) == (51, vec![])));
    // And so are many that each may be asked for.
    assert_eq!(qmq.ask(11, &with_filters(&"x".repeat(17))), (51, vec![]));
    assert!(qmq.pull(&pull("order", "g", "c")).is_empty());
}

#[test]
fn what_filters_take_counts_among_what_a_connection_may_keep() {
    let _alone = alone();
    let served = serve_with(options(), Durability::Os);
    let qmq = TcpStream::connect(served.server.address()).unwrap();
    let body = with_filters("x");
    let before = memory_bytes();
    let mut writing = qmq.try_clone().unwrap();
    // Until it is closed: most of it is not read.
    let writing = thread::spawn(move || {
        (0..1_000).take_while(|opaque| writing.write_all(&framed(11, 9, *opaque, &body)).is_ok()).count()
    });
    let held = settled("the pulls", 0, || metric(&served, "held_pulls"));
    let added = memory_bytes().saturating_sub(before);
    assert!((100..300).contains(&held) && added < 40 * MEBI, "{held} took {} MiB", added / MEBI);
    let kept = metric(&served, "kept_bytes");
    assert!((16 * MEBI..32 * MEBI).contains(&kept), "{kept}");
    // So much for subscriptions, too, which are told to come later.
    let mut own = served.connect();
    let tags = |_| Filter::Tags { rule: TagRule::Any, tags: vec!["x".to_owned(); 127] };
    let filters: Vec<Filter> = (0..16).map(tags).collect();
    let wanted = |number| {
        let subscribe = subscribing(number, "order", "own", 1);
        delaymq_core::wire::extension::consume::Subscribe { filters: filters.clone(), ..subscribe }
    };
    let made = (0..1_000).take_while(|number| own.ask(SUBSCRIBE, |out| wanted(*number).put(out)).0 == 0).count();
    assert!((100..300).contains(&made), "{made}");
    own.refused(SUBSCRIBE, ErrorCode::Busy, |out| wanted(2_000).put(out));
    own.subscribe(3_000, "order", "own", 1);
    own.done(UNSUBSCRIBE, |out| {
        out.extend_from_slice(&1_u32.to_be_bytes());
        Ok(())
    });
    eventually("room for one", || own.ask(SUBSCRIBE, |out| wanted(2_000).put(out)).0 == 0);
    qmq.shutdown(Shutdown::Both).unwrap();
    writing.join().unwrap();
    // Its end stands behind what nobody reads; where it is torn off, the server is told.
    SockRef::from(&qmq).set_linger(Some(Duration::ZERO)).unwrap();
    drop(qmq);
    drop(own);
    eventually("all to be gone", || metric(&served, "kept_bytes") == 0);
}

#[test]
fn a_batch_that_waits_for_the_disk_keeps_nothing_of_what_was_refused_of_it() {
    let _alone = alone();
    let weighed = waits_for_the_disk(options());
    assert!(weighed < 5, "{weighed} wait: each counts as if it kept its frame");
    // Where they may be many, none of them keeps it.
    let mut much = options();
    much.connection.kept_bytes_max = 1 << 30;
    assert_eq!(waits_for_the_disk(much), 30);
}

/// How many of 30 batches wait for a disk that is stuck, which have eight mebibytes each that are refused; they
/// take little memory.
fn waits_for_the_disk(options: ServerOptions) -> u64 {
    let (served, switches) = serve_faulty(options);
    served.connect().publish("order", &[b"first"], 3_600_000);
    let mut qmq = Qmq::to(served.server.address());
    switches.stuck.store(true, Ordering::SeqCst);
    let body: Vec<u8> = [message("order", "taken", &[], None), large("order", "refused", 240)]
        .iter()
        .flat_map(|message| checked(message))
        .collect();
    let frames: Vec<Vec<u8>> = (0..30).map(|opaque| framed(10, 9, opaque, &body)).collect();
    let before = memory_bytes();
    let mut writing = qmq.socket.try_clone().unwrap();
    let writing = thread::spawn(move || frames.iter().for_each(|frame| writing.write_all(frame).unwrap()));
    let waiting = settled("those that wait", 0, || metric(&served, "waiting_for_log"));
    let added = memory_bytes().saturating_sub(before);
    assert!(added < 64 * MEBI, "{waiting} took {} MiB", added / MEBI);
    served.connect().done(PING, |_| Ok(()));
    switches.stuck.store(false, Ordering::SeqCst);
    for opaque in 0..30 {
        let (code, listed) = qmq.answer(opaque);
        let id = [&[0, 7], &b"refused"[..], &[0, 0, 0, 1]].concat();
        assert_eq!((code, listed.starts_with(&id)), (0, true), "{listed:?}");
    }
    writing.join().unwrap();
    waiting
}

/// A frame of eight mebibytes that is read whole and refused for what it asks.
fn refused_publish(opaque: i32) -> Vec<u8> {
    let mut writer = PublishWriter::default();
    for _ in 0..2 {
        writer.push("order", DueTime::After(u64::MAX), &[], &vec![7; 4_000_000]).unwrap();
    }
    let mut body = Vec::new();
    writer.put(&mut body, false).unwrap();
    framed(PUBLISH, 1, opaque, &body)
}

#[test]
fn a_few_bytes_do_not_keep_what_was_read_before_them() {
    let _alone = alone();
    let (served, switches) = serve_faulty(options());
    let mut other = served.connect();
    other.publish("order", &[b"first"], 3_600_000);
    switches.stuck.store(true, Ordering::SeqCst);
    // A batch that waits behind a large request, and the beginning of the next one.
    let taken = framed(10, 9, 2, &checked(&message("order", "taken", &[], None)));
    let bytes = [refused_publish(1), taken.clone(), taken[..30].to_vec()].concat();
    let before = memory_bytes();
    let mut waiting: Vec<Client> = (0..30)
        .map(|_| {
            let mut client = served.connect();
            client.socket.write_all(&bytes).unwrap();
            let (opaque, code, _) = client.answer();
            assert!(opaque == 1 && code != 0, "{code}");
            client
        })
        .collect();
    eventually("all to wait", || metric(&served, "waiting_for_log") == 30);
    assert_eq!(metric(&served, "input_bytes"), 30 * 30);
    let added = memory_bytes().saturating_sub(before);
    assert!(added < 80 * MEBI, "30 times a few bytes took {} MiB", added / MEBI);
    switches.stuck.store(false, Ordering::SeqCst);
    for client in &mut waiting {
        assert_eq!(client.answer(), (2, 0, vec![]));
    }
}

#[test]
fn an_address_has_its_share_of_the_pulls_that_wait_and_no_pull_is_told_at_once_that_there_is_nothing() {
    let _alone = alone();
    let served = serve_with(ServerOptions { held_pulls_max: 40, ..options() }, Durability::Os);
    let hostile: Vec<TcpStream> = (0..10).map(|_| from_address(&served, [127, 0, 1, 1])).collect();
    for mut socket in &hostile {
        // Names that no consumer has are held as well.
        let mut body = with_filters("x");
        body[7..10].copy_from_slice(b"\0\x01/");
        for opaque in 0..10 {
            socket.write_all(&framed(11, 9, opaque, &body)).unwrap();
        }
    }
    eventually("all to wait", || metric(&served, "held_pulls") == 100);
    assert_eq!(metric(&served, "held_requests"), 20, "half of them is an address's share");
    let mut good = Qmq::to(served.server.address());
    let held = holding(&served, &mut good, &groups("good", 19));
    assert_eq!(metric(&served, "held_requests"), 39);
    assert!(held.iter().all(|asked| !good.has_answer(*asked)));
    good.store(&[message("order", "a", &[], None)]);
    for asked in held {
        assert_eq!(ids(&good.pulled(asked)), ["a"]);
    }
    let nothing_came = |mut socket: &TcpStream| {
        socket.set_nonblocking(true).unwrap();
        std::io::Read::read(&mut socket, &mut [0; 1]).is_err()
    };
    assert!(hostile.iter().all(nothing_came), "who is told at once asks at once");
    // What is over the share is under way, as any other request, and of those there are so many.
    assert_eq!(metric(&served, "requests_in_flight"), 100);
    drop(hostile);
    eventually("its share", || metric(&served, "held_requests") == 0);
}

#[test]
fn an_address_that_does_not_read_has_its_share_of_memory_and_others_are_given_messages() {
    let _alone = alone();
    let scales = ScalesLimits { all_bytes_max: 64 << 20, each_bytes_max: 24 << 20, free_bytes: 64 << 10 };
    let served = serve_with(ServerOptions { scales, ..options() }, Durability::Os);
    let mut deaf: Vec<(Qmq, Vec<i32>)> = (0..8)
        .map(|number| {
            let mut qmq = Qmq::over(from_address(&served, [127, 0, 1, 1]));
            let held = holding(&served, &mut qmq, &groups(&format!("deaf-{number}"), 4));
            (qmq, held)
        })
        .collect();
    let mut good = Qmq::to(served.server.address());
    let waiting = holding(&served, &mut good, &groups("good", 4));
    let before = memory_bytes();
    Qmq::to(served.server.address()).store(&[large("order", "a", 128)]);
    for asked in waiting {
        assert_eq!(ids(&good.pulled(asked)), ["a"]);
    }
    settled("the answers", 0, || metric(&served, "answered_messages"));
    let (kept, added) = (metric(&served, "kept_bytes"), memory_bytes().saturating_sub(before));
    assert!(kept < 32 * MEBI && added < 80 * MEBI, "{} MiB, in memory {}", kept / MEBI, added / MEBI);
    // One that keeps little is heard there, and one that keeps much is heard once it has read.
    let mut small = Client::over(from_address(&served, [127, 0, 1, 1]));
    small.publish("order", &[b"small"], 3_600_000);
    thread::scope(|scope| {
        for (qmq, held) in &mut deaf {
            scope.spawn(move || {
                for asked in held {
                    assert_eq!(ids(&qmq.pulled(*asked)), ["a"]);
                }
                qmq.store(&[message("elsewhere", "b", &[], None)]);
            });
        }
    });
    eventually("nothing to be kept", || metric(&served, "kept_bytes") < MEBI);
    let mut own = served.connect();
    assert_eq!(own.publish("order", &[&vec![7; 4 << 20]], 3_600_000).len(), 1);
}

#[test]
fn subscriptions_of_who_does_not_read_pull_nothing_more() {
    let _alone = alone();
    let served = serve();
    let mut producer = served.connect();
    for _ in 0..10 {
        producer.publish("order", &[&vec![7; 4 << 20]], 0);
    }
    let mut deaf = served.connect();
    for number in 0..20 {
        deaf.send(SUBSCRIBE, 0, |out| subscribing(number, "order", &format!("g-{number}"), 100).put(out));
    }
    let sent = settled("what is sent", 0, || metric(&served, "sent_messages"));
    let pulled = metric(&served, "pulled_messages");
    assert!(sent < 20 && pulled < sent + 10, "{pulled} were pulled, {sent} sent");
    drop(deaf);
}
