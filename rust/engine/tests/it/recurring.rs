//! Recurring series in a real store on a manual clock: one message is pending at a time, each at a time of its rule,
//! over restarts and checkpoints, and missed occurrences follow the policy.

#![cfg(test)]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::support::{bodies, open, options, publish, subscribe};
use delaymq_core::error::{Error, Result};
use delaymq_core::store::SERIES_BYTES_MAX;
use delaymq_core::units::Millis;
use delaymq_engine::{
    CancelOutcome, CatchUp, Due, Durability, Fate, IfExists, ManualClock, MoveOutcome, NewRecurring, Options,
    RecurringListed, Recurs, Store, Subscription,
};

/// A midnight, in UTC.
const START: Millis = Millis(1_800_057_600_000);
const HOUR: u64 = 3_600_000;
const DAY: u64 = 24 * HOUR;

const HOURLY: NewRecurring<'_> = NewRecurring {
    name: "hourly",
    recurs: Recurs::Every(HOUR),
    zone: "UTC",
    start: None,
    catch_up: CatchUp::One,
    expires_after: None,
    if_exists: IfExists::Refuse,
    meta: b"",
    body: b"again",
};

struct Bench {
    folder: tempfile::TempDir,
    clock: Arc<ManualClock>,
    store: Arc<Store>,
}

fn open_by(path: &Path, clock: &Arc<ManualClock>) -> Arc<Store> {
    let mut options = Options { clock: Arc::clone(clock) as _, segment_bytes: 256 << 10, ..options(Durability::Disk) };
    options.owner.keep_finished_ms = 0;
    open(path, options)
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock::new(START).unwrap());
        let store = open_by(folder.path(), &clock);
        Self { folder, clock, store }
    }

    fn turn(&self, by_ms: u64) {
        self.clock.advance(by_ms, Duration::from_secs(20), &mut || true).unwrap();
    }

    /// As kill -9, so long before it is opened again.
    fn crash(&mut self, off_ms: u64) {
        self.store.abandon().unwrap();
        self.turn(off_ms);
        self.store = open_by(self.folder.path(), &self.clock);
        self.turn(0);
    }

    fn recur(&self, new: &NewRecurring<'_>) -> RecurringListed {
        self.store.recur("jobs", new).unwrap()
    }

    /// When the pending message is due, in hours and the rest behind the start.
    fn due(&self) -> (u64, u64) {
        let listed = self.store.recurring(None, 0, 10).unwrap();
        assert_eq!(listed.len(), 1);
        let due = listed[0].pending.unwrap().key.due.since(START);
        (due / HOUR, due % HOUR)
    }

    fn pending(&self) -> u64 {
        self.store.status().unwrap().pending
    }
}

fn taken(messages: &Subscription) -> usize {
    let mut count = 0;
    loop {
        let pulled = messages.pull(1_000, Duration::ZERO).unwrap();
        let keys: Vec<_> = pulled.iter().map(|message| message.key).collect();
        messages.acknowledge(&keys).unwrap();
        if pulled.is_empty() {
            return count;
        }
        assert!(bodies(&pulled).iter().all(|body| body == "again"));
        count += pulled.len();
    }
}

fn argument(refused: Result<RecurringListed>) -> (&'static str, Error) {
    let error = refused.unwrap_err();
    match &error {
        Error::InvalidArgument { argument, .. }
        | Error::TooLarge { argument, .. }
        | Error::NamesFull { argument, .. } => (*argument, error),
        other => panic!("{other:?}"),
    }
}

#[test]
fn one_is_pending_at_a_time_and_nothing_drifts() {
    let mut bench = Bench::new();
    let messages = subscribe(&bench.store, "jobs", "workers");
    let begun = bench.recur(&HOURLY);
    assert_eq!((begun.name.as_str(), begun.rule.as_str(), begun.zone.as_str()), ("hourly", "every 3600000ms", "UTC"));
    assert_eq!((bench.due(), bench.pending(), begun.pending.unwrap().size), ((1, 0), 1, 5));
    bench.turn(HOUR - 1);
    assert_eq!(taken(&messages), 0, "early");
    bench.turn(1);
    assert_eq!((taken(&messages), bench.due(), bench.pending()), (1, (2, 0), 1));
    bench.turn(10 * DAY);
    assert_eq!((taken(&messages), bench.due(), bench.pending()), (240, (242, 0), 1));
    drop(messages);
    for round in 0..3 {
        if round == 1 {
            bench.store.checkpoint().unwrap();
        }
        bench.crash(0);
        assert_eq!((bench.due(), bench.pending()), ((242, 0), 1), "{round}");
    }
}

#[test]
fn what_was_missed_happens_as_the_policy_says() {
    // Stopped from the half of an hour, for five hours: five were missed.
    for (catch_up, missed) in [(CatchUp::One, 1), (CatchUp::Skip, 0), (CatchUp::All, 5)] {
        let mut bench = Bench::new();
        // The one that is pending when the store stops is stored already, and comes.
        bench.recur(&NewRecurring { catch_up, ..HOURLY });
        bench.turn(HOUR / 2);
        bench.store.checkpoint().unwrap();
        bench.crash(5 * HOUR);
        let messages = subscribe(&bench.store, "jobs", "workers");
        assert_eq!(taken(&messages), if catch_up == CatchUp::All { missed } else { missed + 1 }, "{catch_up:?}");
        assert_eq!((bench.due(), bench.pending()), ((6, 0), 1), "{catch_up:?}");
        bench.turn(HOUR);
        assert_eq!((taken(&messages), bench.due()), (1, (7, 0)), "{catch_up:?}");
    }
}

#[test]
fn a_pending_one_is_cancelled_and_moved_as_any_message() {
    let bench = Bench::new();
    let messages = subscribe(&bench.store, "jobs", "workers");
    let first = bench.recur(&HOURLY).pending.unwrap();
    assert_eq!(bench.store.look_up(&first).unwrap().fate, Fate::Pending);
    assert_eq!(bench.store.cancel(&first).unwrap(), CancelOutcome::Done);
    bench.turn(0);
    assert_eq!((bench.due(), bench.pending()), ((2, 0), 1), "the next regular one");
    let second = bench.store.recurring(Some("jobs"), 0, 1).unwrap()[0].pending.unwrap();
    let moved = bench.store.move_to(&second, Due::At(Millis(START.0 + 10 * HOUR + 7))).unwrap();
    let MoveOutcome::Done(moved) = moved else { panic!("{moved:?}") };
    assert_eq!((bench.due(), bench.pending()), ((10, 7), 1));
    assert_eq!(bench.store.recurring(None, 0, 1).unwrap()[0].pending, Some(moved));
    bench.turn(10 * HOUR);
    assert_eq!((taken(&messages), bench.due()), (0, (10, 7)), "it waits for the one that was moved");
    bench.turn(7);
    // What was missed meanwhile happens once, and then the next one of the grid.
    assert_eq!((taken(&messages), bench.due(), bench.pending()), (2, (11, 0), 1));
    let MoveOutcome::Done(_) =
        bench.store.move_to(&bench.store.recurring(None, 0, 1).unwrap()[0].pending.unwrap(), Due::After(0)).unwrap()
    else {
        panic!("it is pending");
    };
    bench.turn(0);
    assert_eq!((taken(&messages), bench.due(), bench.pending()), (1, (12, 0), 1));
}

#[test]
fn a_series_is_kept_replaced_and_ended_by_its_name() {
    let mut bench = Bench::new();
    let first = bench.recur(&HOURLY);
    let daily = NewRecurring { recurs: Recurs::Cron("30 9 * * *"), zone: "Europe/Berlin", body: b"daily", ..HOURLY };
    assert_eq!(argument(bench.store.recur("jobs", &daily)).0, "name");
    let kept = NewRecurring { if_exists: IfExists::Keep, ..daily };
    assert_eq!(bench.recur(&kept), first);
    let replaced = bench.recur(&NewRecurring { if_exists: IfExists::Replace, ..daily });
    assert!(replaced.number > first.number && replaced.rule == "30 9 * * *" && replaced.zone == "Europe/Berlin");
    assert_eq!(bench.store.look_up(&first.pending.unwrap()).unwrap().fate, Fate::Cancelled);
    assert_eq!((bench.due(), bench.pending()), ((8, HOUR / 2), 1));
    // Of another subject, and another name.
    bench.store.recur("mail", &HOURLY).unwrap();
    bench.recur(&NewRecurring { name: "other", ..HOURLY });
    let names = |bench: &Bench, subject: Option<&str>, after| {
        let listed = bench.store.recurring(subject, after, 10).unwrap();
        listed.into_iter().map(|one| format!("{} {}", one.subject, one.name)).collect::<Vec<_>>()
    };
    assert_eq!(names(&bench, None, 0), ["jobs hourly", "mail hourly", "jobs other"]);
    assert_eq!(names(&bench, Some("jobs"), replaced.number), ["jobs other"]);
    assert_eq!(bench.store.recurring(None, 0, 1).unwrap().len(), 1);
    assert!(matches!(
        bench.store.recurring(Some("none"), 0, 1),
        Err(Error::InvalidArgument { argument: "subject", .. })
    ));
    assert!(bench.store.end_recurring("jobs", "hourly").unwrap());
    for (subject, name) in [("jobs", "hourly"), ("none", "hourly")] {
        assert!(!bench.store.end_recurring(subject, name).unwrap());
    }
    assert_eq!(bench.pending(), 2);
    bench.crash(DAY);
    assert_eq!(names(&bench, None, 0), ["mail hourly", "jobs other"]);
}

#[test]
fn a_start_sets_the_grid() {
    let bench = Bench::new();
    let at = |ms: u64| Some(Millis(START.0 + ms));
    bench.turn(HOUR / 2);
    for (start, due) in
        [(at(5 * HOUR + 3), (5, 3)), (at(7), (1, 7)), (at(HOUR / 2), (1, HOUR / 2)), (None, (1, HOUR / 2))]
    {
        bench.recur(&NewRecurring { start, if_exists: IfExists::Replace, ..HOURLY });
        assert_eq!(bench.due(), due, "{start:?}");
    }
    let pattern = Recurs::Cron("15 * * * *");
    bench.recur(&NewRecurring { recurs: pattern, start: at(4 * HOUR), if_exists: IfExists::Replace, ..HOURLY });
    assert_eq!(bench.due(), (4, HOUR / 4));
}

#[test]
fn what_cannot_be_is_refused_by_name_and_nothing_changes() {
    let bench = Bench::new();
    publish(&bench.store, "jobs", Due::After(1), b"so that the subject is there");
    let large = vec![0; SERIES_BYTES_MAX];
    let refused: [(&str, NewRecurring<'_>); 14] = [
        ("every", NewRecurring { recurs: Recurs::Every(999), ..HOURLY }),
        ("every", NewRecurring { recurs: Recurs::Every(u64::MAX), ..HOURLY }),
        ("zone", NewRecurring { zone: "Europe/Berlin", ..HOURLY }),
        ("zone", NewRecurring { recurs: Recurs::Cron("0 0 * * *"), zone: "Mars", ..HOURLY }),
        ("cron", NewRecurring { recurs: Recurs::Cron("every 3600000ms"), ..HOURLY }),
        ("cron", NewRecurring { recurs: Recurs::Cron("0 0 30 2 *"), ..HOURLY }),
        ("cron", NewRecurring { recurs: Recurs::Cron("0 0 * *"), ..HOURLY }),
        ("name", NewRecurring { name: "", ..HOURLY }),
        ("name", NewRecurring { name: "a/b", ..HOURLY }),
        ("meta", NewRecurring { meta: b"x", ..HOURLY }),
        ("body", NewRecurring { body: &large, ..HOURLY }),
        ("start", NewRecurring { start: Some(Millis(u64::MAX)), ..HOURLY }),
        ("start", NewRecurring { start: Some(Millis(START.0 + 20 * 366 * DAY)), ..HOURLY }),
        ("subject", HOURLY),
    ];
    for (expected, new) in refused {
        let subject = if expected == "subject" { "a b" } else { "jobs" };
        let (found, error) = argument(bench.store.recur(subject, &new));
        assert_eq!(found, expected, "{error}");
    }
    assert_eq!((bench.store.recurring(None, 0, 10).unwrap(), bench.pending()), (vec![], 1));
}

#[test]
fn the_room_of_all_series_is_bounded() {
    let bench = Bench::new();
    let large = vec![0; SERIES_BYTES_MAX - 100];
    for number in 0..256 {
        bench.recur(&NewRecurring { name: &number.to_string(), body: &large, ..HOURLY });
    }
    let more = vec![0; 30_000];
    let (found, _) = argument(bench.store.recur("jobs", &NewRecurring { name: "more", body: &more, ..HOURLY }));
    assert_eq!(found, "series");
    assert_eq!(bench.store.recurring(None, 0, 1_000).unwrap().len(), 256);
    // What is replaced makes room for itself, and what has ended for others.
    bench.recur(&NewRecurring { name: "0", body: &large, if_exists: IfExists::Replace, ..HOURLY });
    assert!(bench.store.end_recurring("jobs", "1").unwrap());
    bench.recur(&NewRecurring { name: "more", body: &more, ..HOURLY });
}

#[test]
fn many_series_go_on_together() {
    let mut bench = Bench::new();
    for number in 0..300 {
        bench.recur(&NewRecurring { name: &number.to_string(), ..HOURLY });
    }
    let messages = subscribe(&bench.store, "jobs", "workers");
    bench.turn(HOUR);
    assert_eq!((taken(&messages), bench.pending()), (300, 300));
    drop(messages);
    bench.crash(3 * HOUR);
    let messages = subscribe(&bench.store, "jobs", "workers");
    // The one that was pending, and one for those that were missed.
    assert_eq!((taken(&messages), bench.pending()), (600, 300));
}

/// One turn takes 64 series, and the next one begins behind them, or the first series would have all of their
/// occurrences before the others have any. By how many two series differ depends on which occurrences are still on
/// their way through the log when a turn begins, so only half of what each of them catches up with is a bound that
/// holds on a busy machine.
#[test]
fn what_many_series_owe_is_caught_up_with_in_turns() {
    const SERIES: usize = 150;
    const MISSED: u32 = 24;
    let mut bench = Bench::new();
    for number in 0..SERIES {
        let (name, body) = (number.to_string(), u32::try_from(number).unwrap().to_le_bytes());
        bench.recur(&NewRecurring { name: &name, catch_up: CatchUp::All, body: &body, ..HOURLY });
    }
    bench.crash(u64::from(MISSED) * HOUR);
    let messages = subscribe(&bench.store, "jobs", "workers");
    let mut counts = vec![0_u32; SERIES];
    loop {
        let pulled = messages.pull(100, Duration::ZERO).unwrap();
        for message in &pulled {
            counts[u32::from_le_bytes(message.body().try_into().unwrap()) as usize] += 1;
            let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
            assert!(most - least <= MISSED / 2, "one has had {most}, and another {least}");
        }
        if pulled.is_empty() {
            break;
        }
        let keys: Vec<_> = pulled.iter().map(|message| message.key).collect();
        messages.acknowledge(&keys).unwrap();
    }
    assert!(counts.iter().all(|count| *count == MISSED), "{counts:?}");
}

#[test]
fn time_waits_for_the_room_of_what_recurs() {
    // All of one hour are larger than the segments that are there.
    let body = vec![b'x'; 60_000];
    for catch_up in [CatchUp::All, CatchUp::Skip] {
        let bench = Bench::new();
        for number in 0..12 {
            bench.recur(&NewRecurring { name: &number.to_string(), catch_up, body: &body, ..HOURLY });
        }
        let messages = subscribe(&bench.store, "jobs", "workers");
        bench.turn(10 * HOUR);
        let mut count = 0;
        loop {
            let pulled = messages.pull(1_000, Duration::ZERO).unwrap();
            let keys: Vec<_> = pulled.iter().map(|message| message.key).collect();
            messages.acknowledge(&keys).unwrap();
            assert!(pulled.iter().all(|message| message.body() == body));
            if pulled.is_empty() {
                break;
            }
            count += pulled.len();
        }
        assert_eq!((count, bench.pending()), (120, 12), "{catch_up:?}");
    }
}

#[test]
fn one_that_begins_has_its_message_whatever_others_catch_up_with() {
    let mut bench = Bench::new();
    for number in 0..100 {
        let every = NewRecurring { recurs: Recurs::Every(10_000), catch_up: CatchUp::All, ..HOURLY };
        bench.recur(&NewRecurring { name: &number.to_string(), ..every });
    }
    bench.store.abandon().unwrap();
    bench.turn(DAY);
    bench.store = open_by(bench.folder.path(), &bench.clock);
    for name in ["late", "later"] {
        let begun = bench.recur(&NewRecurring { name, ..HOURLY }).pending;
        assert_eq!(begun.map(|pending| pending.key.due), Some(Millis(START.0 + DAY + HOUR)));
    }
}
