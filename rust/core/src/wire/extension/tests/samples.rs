//! Samples of every request and answer, for the tests.

use crate::clock::Hold;
use crate::clock::report::{ClockReport, HeldReport};
use crate::error::{Error, StorageFault};
use crate::message_log::Durability;
use crate::queues::tags::{AttributeRule, Filter, TagRule};
use crate::record::expire::{Expires, ExpiresAfter, OnExpiry};
use crate::record::recurring::CatchUp;
use crate::record::terms::IfExists;
use crate::run::{LoadName, StagedRun};
use crate::store::StartAt;
use crate::store::{ConsumerListed, Forecast, ForecastSlot, GroupListed, PendingOf, Receipt, SubjectListed};
use crate::units::{ConsumerNumber, DueKey, Epoch, GroupNumber, Millis, ReadyNumber, Sequence, SubjectNumber, Tally};
use crate::wire::extension::administration::{Expire, GroupAt, GroupName, Listed, Listing, Redrive};
use crate::wire::extension::by_key::{CancelKeys, MoveKeys};
use crate::wire::extension::clock::ClockTold;
use crate::wire::extension::consume::{Credit, Delivered, IN_FLIGHT_MAX, PayloadForm, Subscribe, put_deliver};
use crate::wire::extension::consumers::Consumers;
use crate::wire::extension::dead_letters::{DeadLetters, Letter, LetterPayload, Letters};
use crate::wire::extension::errors::{Attribute, ErrorCode, RemoteError};
use crate::wire::extension::forecast::{ForecastAsked, ForecastTold};
use crate::wire::extension::hello::{Hello, Welcome, put_ping};
use crate::wire::extension::key_fate::KeyFate;
use crate::wire::extension::load::{LoadAsked, LoadTold};
use crate::wire::extension::moves::put_moves;
use crate::wire::extension::pending::{
    CountsAsked, CountsTold, FateTold, HiddenRow, PendingAsked, PendingRow, PendingTold, put_fates,
};
use crate::wire::extension::proof::Proof;
use crate::wire::extension::publish::{DueTime, PublishWriter, put_receipts};
use crate::wire::extension::recurring::{RecurAsked, SeriesAsked, SeriesName, SeriesRow, SeriesTold};
use crate::wire::extension::settle::{Acknowledge, GiveBack, GivenBack, KeyRange, PutAway};
use crate::wire::extension::status::StatusTold;
use crate::wire::extension::terms::{KeyAsked, TermsAsked, TermsWriter, put_key_move};
use crate::wire::extension::{
    ACCEPT_CLOCK, ACKNOWLEDGE, CANCEL, CANCEL_KEY, CANCEL_KEYS, CLOCK, CONSUMERS, CREDIT, DEAD_LETTERS, END_CONSUMER,
    END_RECURRING, EXPIRE, FLUSH, FORECAST, GIVE_BACK, GROUPS, HELLO, LOAD, LOOK_UP, LOOK_UP_KEY, MOVE, MOVE_KEY,
    MOVE_KEYS, PENDING, PENDING_COUNTS, PING, PUBLISH, PUBLISH_ON_TERMS, PUT_AWAY, RECUR, RECURRING, REDRIVE,
    REMOVE_GROUP, RESET_GROUP, START_GROUP, STATUS, SUBJECTS, SUBSCRIBE, UNSUBSCRIBE,
};
use crate::wire::qmq::pull::ConsumerName;

pub(in crate::wire::extension) fn receipt(sequence: u64) -> Receipt {
    let key = DueKey { due: Millis(1_800_000_000_123), sequence: Sequence(sequence) };
    Receipt::new([7; 16], Epoch(3), key, SubjectNumber(5), 17, &[9; 16])
}

pub(in crate::wire::extension) fn name() -> GroupName<'static> {
    GroupName { subject: "orders", group: "billing" }
}

pub(in crate::wire::extension) fn consumer() -> ConsumerName<'static> {
    ConsumerName { subject: "orders", group: "billing", consumer: "host@@1" }
}

pub(super) fn subscribe() -> Subscribe<'static> {
    Subscribe {
        subscription: 4,
        subjects: vec!["orders", "refunds"],
        group: "billing",
        consumer: "",
        start: StartAt::Latest,
        is_broadcast: false,
        in_flight_max: 256,
        credit: 1_024,
        filters: vec![
            Filter::Tags { rule: TagRule::All, tags: vec!["a".to_owned()] },
            Filter::Attribute { key: "kind".to_owned(), rule: AttributeRule::StartsWith(b"pay".to_vec()) },
        ],
    }
}

pub(in crate::wire::extension) fn moves() -> [(Receipt, DueTime); 2] {
    [(receipt(1), DueTime::After(30_000)), (receipt(2), DueTime::At(Millis(1_800_000_900_000)))]
}

pub(in crate::wire::extension) fn batch() -> PublishWriter {
    let mut writer = PublishWriter::default();
    writer.push("orders", DueTime::After(5_000), b"", b"one").unwrap();
    writer.push("other", DueTime::At(Millis(9)), &[0; 5], b"").unwrap();
    writer.push("orders", DueTime::After(0), b"", b"three").unwrap();
    writer
}

/// A message that has a key.
pub(super) const ORDER_17: KeyAsked<'_> = KeyAsked { subject: "orders", key: "17" };

/// Terms of the first and the last of [`batch`].
pub(super) const TERMS: [TermsAsked<'_>; 2] = [
    TermsAsked { place: 0, key: Some("17"), if_exists: IfExists::Keep, deduplicates: false, expires: None },
    TermsAsked {
        place: 2,
        key: Some("k"),
        if_exists: IfExists::Replace,
        deduplicates: true,
        expires: Some((Expires::After(60_000), OnExpiry::DeadLetter)),
    },
];

pub(in crate::wire::extension) fn terms() -> TermsWriter {
    let mut writer = TermsWriter::default();
    for asked in &TERMS {
        writer.push(asked).unwrap();
    }
    writer
}

fn written(put: &dyn Fn(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    put(&mut out);
    out
}

/// A request of each command.
pub(super) fn every_request() -> Vec<(i16, Vec<u8>)> {
    let hello = Hello { version_min: 1, version_max: 3, client: "delaymq-python 0.1.0", token: b"secret" };
    let range = KeyRange { queue: 1, first: 7, count: 3 };
    let ranges = Acknowledge { subscription: 4, ranges: vec![range, KeyRange { queue: 0, first: 0, count: 1 }] };
    let back = GiveBack { subscription: 4, messages: vec![GivenBack { queue: 0, offset: 9, delay_ms: 250 }] };
    let away = PutAway { subscription: 4, reason: "no such order", keys: vec![(0, 1), (1, 2)] };
    let listing = Listing { after: 70, count_max: 100 };
    let at = GroupAt { name: name(), start: StartAt::Unfinished };
    vec![
        (HELLO, written(&|out| hello.put(out).unwrap())),
        (PING, written(&|out| put_ping(out, b"ping").unwrap())),
        (PUBLISH, written(&|out| batch().put(out, true).unwrap())),
        (CANCEL, written(&|out| put_receipts(out, [receipt(1), receipt(2)].into_iter()).unwrap())),
        (SUBSCRIBE, written(&|out| subscribe().put(out).unwrap())),
        (CREDIT, written(&|out| Credit { subscription: 4, credit: 64 }.put(out))),
        (ACKNOWLEDGE, written(&|out| ranges.put(out).unwrap())),
        (GIVE_BACK, written(&|out| back.put(out).unwrap())),
        (PUT_AWAY, written(&|out| away.put(out).unwrap())),
        (FLUSH, 4_u32.to_be_bytes().to_vec()),
        (UNSUBSCRIBE, 4_u32.to_be_bytes().to_vec()),
        (MOVE, written(&|out| put_moves(out, &moves()).unwrap())),
        (PUBLISH_ON_TERMS, written(&|out| terms().put(out, &batch(), true).unwrap())),
        (CANCEL_KEY, written(&|out| ORDER_17.put(out).unwrap())),
        (MOVE_KEY, written(&|out| put_key_move(out, &ORDER_17, DueTime::After(3_000)).unwrap())),
        (STATUS, Vec::new()),
        (GROUPS, written(&|out| listing.put(out))),
        (SUBJECTS, written(&|out| listing.put(out))),
        (START_GROUP, written(&|out| at.put(out).unwrap())),
        (RESET_GROUP, written(&|out| at.put(out).unwrap())),
        (REMOVE_GROUP, written(&|out| name().put(out).unwrap())),
        (DEAD_LETTERS, written(&|out| DeadLetters { name: name(), listing }.put(out).unwrap())),
        (REDRIVE, written(&|out| Redrive { name: name(), count_max: u64::MAX }.put(out).unwrap())),
        (EXPIRE, written(&|out| Expire { subject: "orders", older_than_ms: 60_000 }.put(out).unwrap())),
        (CONSUMERS, written(&|out| Consumers { name: name(), listing }.put(out).unwrap())),
        (END_CONSUMER, written(&|out| consumer().put(out).unwrap())),
        (LOOK_UP, written(&|out| put_receipts(out, [receipt(1)].into_iter()).unwrap())),
        (PENDING, written(&|out| pending_asked().put(out).unwrap())),
        (PENDING_COUNTS, written(&|out| counts_asked().put(out).unwrap())),
        (LOOK_UP_KEY, written(&|out| ORDER_17.put(out).unwrap())),
        (FORECAST, written(&|out| forecast_asked().put(out).unwrap())),
        (RECUR, written(&|out| recur_asked().put(out).unwrap())),
        (END_RECURRING, written(&|out| SeriesName { subject: "orders", name: "daily" }.put(out).unwrap())),
        (RECURRING, written(&|out| SeriesAsked { subject: "orders", after: 7 }.put(out).unwrap())),
        (LOAD, written(&|out| load_asked().put(out).unwrap())),
        (CANCEL_KEYS, written(&|out| cancel_keys().put(out).unwrap())),
        (MOVE_KEYS, written(&|out| move_keys().put(out).unwrap())),
        (CLOCK, Vec::new()),
        (ACCEPT_CLOCK, 3_600_000_u64.to_be_bytes().to_vec()),
    ]
}

fn cancel_keys() -> CancelKeys<'static> {
    CancelKeys { subject: "orders", keys: vec!["17", "k"], id: None }
}

fn move_keys() -> MoveKeys<'static> {
    let moves = vec![("17", DueTime::After(3_000)), ("k", DueTime::At(Millis(9)))];
    MoveKeys { subject: "orders", moves, id: None }
}

pub(super) fn pending_asked() -> PendingAsked<'static> {
    let of = PendingOf::Prefix("order.".to_owned());
    PendingAsked { of, due_from: Millis(7), due_before: None, after: "dmqp1-", count_max: 9 }
}

pub(super) fn counts_asked() -> CountsAsked<'static> {
    CountsAsked { of: PendingOf::Users, after: "orders", count_max: 9 }
}

pub(super) fn forecast_asked() -> ForecastAsked<'static> {
    ForecastAsked { subject: "orders", by_second: true, due_from: Some(Millis(7)), due_before: None }
}

pub(super) fn recur_asked() -> RecurAsked<'static> {
    RecurAsked {
        subject: "orders",
        name: "daily",
        every_ms: 0,
        cron: "30 9 * * *",
        zone: "Europe/Berlin",
        start: Some(Millis(7)),
        catch_up: CatchUp::Skip,
        if_exists: IfExists::Keep,
        meta: b"meta",
        body: b"body",
        expires_after: Some(ExpiresAfter { after_ms: 60_000, then: OnExpiry::Drop }),
    }
}

pub(super) fn load_asked() -> LoadAsked<'static> {
    let run = |nonce, rows| {
        let name = LoadName { staged: Millis(1_800_000_000_123), nonce: [nonce; 16] };
        StagedRun { name, length: 4_096 + rows, digest: 0xABCD_EF01, rows }
    };
    LoadAsked { job: "nightly", runs: vec![run(7, 3), run(9, 1 << 20)] }
}

pub(super) const LOAD_TOLD: LoadTold = LoadTold { first: Sequence(70), count: 9, again: true };

pub(super) fn series_told() -> SeriesTold<'static> {
    let row = |number, pending| SeriesRow {
        number,
        subject: "orders",
        name: "daily",
        rule: "30 9 * * *",
        zone: "Europe/Berlin",
        catch_up: CatchUp::All,
        expires_after: Some(ExpiresAfter { after_ms: number, then: OnExpiry::DeadLetter }).filter(|_| number > 8),
        pending,
    };
    SeriesTold { next: 9, rows: vec![row(8, Some(receipt(2))), row(9, None)] }
}

pub(super) fn forecast_told() -> ForecastTold {
    let slot = |start| ForecastSlot { start: Millis(start), tally: Tally { messages: 3, bytes: 70 } };
    let forecast = Forecast { slots: vec![slot(60_000), slot(180_000)], hidden_rows: 85 };
    ForecastTold { next: Millis(240_000), forecast }
}

pub(super) fn pending_told() -> PendingTold<'static> {
    let row =
        |subject, sequence| PendingRow { subject, attempt: 2, published: Sequence(3), receipt: receipt(sequence) };
    let rows = vec![row("orders", 1), row("mail", 2), row("orders", 3)];
    let hidden = vec![HiddenRow { path: "runs/1", block: 4, rows: 85, reason: "torn" }];
    PendingTold { after: "dmqp1-", is_done: true, rows, hidden }
}

pub(super) fn counts_told() -> CountsTold<'static> {
    CountsTold { next: "orders", rows: vec![("mail", 0), ("orders", 7)] }
}

pub(super) const FATES: [(FateTold, &str); 4] = [
    (FateTold::Pending, "orders"),
    (FateTold::Dispatched, "orders"),
    (FateTold::Cancelled, "mail"),
    (FateTold::NotFound, ""),
];

pub(in crate::wire::extension) fn delivered(payload: &[u8], form: PayloadForm) -> Delivered<'_> {
    Delivered {
        queue: 1,
        offset: 70,
        form,
        redelivered: true,
        attempt: 2,
        sequence: Sequence(11),
        due: Millis(20),
        first_due: Millis(10),
        published: Millis(5),
        proof: Proof { epoch: Epoch(3), subject: SubjectNumber(5), check: 0xAB_CDEF_0123 },
        subject: "orders",
        meta_length: 2,
        check: crc32fast::hash(payload),
        payload,
    }
}

pub(super) fn every_error() -> Vec<Error> {
    let word = "word".to_owned();
    let fault = |fault| Error::Storage { operation: "open", path: word.clone(), fault, message: word.clone() };
    let (path, expected, found) = (word.clone(), word.clone(), word.clone());
    vec![
        fault(StorageFault::NoSpace),
        fault(StorageFault::NotFound),
        fault(StorageFault::AlreadyExists),
        fault(StorageFault::PermissionDenied),
        fault(StorageFault::Io),
        fault(StorageFault::Stopped),
        Error::corrupt("log/1", 7, "a", "b"),
        Error::DamagedPayload { sequence: 3, path, offset: 7, expected, found },
        Error::MissingFile { path: word.clone(), reason: word.clone() },
        Error::NewerFormat { path: word.clone(), offset: 8, found: 9, supported: 1 },
        Error::NotAStore { path: word.clone(), found: word.clone() },
        Error::Locked { path: word.clone() },
        Error::Poisoned { reason: word.clone() },
        Error::DiskFull,
        Error::BelowMark { free_bytes: 6, mark_bytes: 7 },
        Error::Closed,
        Error::ForkedProcess { owner: 1, caller: 2 },
        Error::InvalidArgument { argument: "body", expected: word.clone(), found: word.clone() },
        Error::TooLarge { argument: "body", limit: 4, found: 5 },
        Error::NotEnoughCopies { copies: 1, min_copies: 2, maybe_stored: false },
        Error::NotEnoughCopies { copies: 1, min_copies: 2, maybe_stored: true },
        Error::NotPrimary { epoch: 7 },
    ]
}

pub(in crate::wire::extension) fn welcome() -> Welcome {
    Welcome {
        version: 1,
        server: "0.1.0".to_owned(),
        stream: [5; 16],
        frame_bytes_max: 8 << 20,
        messages_max: 10_000,
        body_bytes_max: 4 << 20,
        in_flight_max: IN_FLIGHT_MAX,
        now: Millis(1_800_000_000_000),
        delay_ms_max: 86_400_000,
    }
}

pub(in crate::wire::extension) fn status() -> StatusTold {
    StatusTold {
        durability: Durability::Os,
        created: true,
        closed: false,
        held: true,
        disk_full: false,
        room_low: false,
        free_bytes: None,
        poisoned: Some("sync failed".to_owned()),
        epoch: Epoch(7),
        pending: 1,
        ready: 2,
        accepted: Sequence(30),
        visible: Sequence(29),
        applied: Sequence(28),
        now: Millis(9),
        recovered_ms: 12,
        recovered_facts: 13,
        voided: 1,
        expired: 2,
        hot_minutes: 0,
        aside: vec!["aside/1".to_owned()],
        zones: "2026a (delaymq)".to_owned(),
    }
}

pub(in crate::wire::extension) fn groups() -> Listed<GroupListed> {
    let group = GroupListed {
        number: GroupNumber(4),
        name: "billing".to_owned(),
        subject: "orders".to_owned(),
        start: ReadyNumber(1),
        cursor: ReadyNumber(2),
        next_number: ReadyNumber(3),
        lag: 4,
        in_flight: 5,
        consumers: 6,
        dead_letters: 7,
    };
    Listed { next: 9, rows: vec![group.clone(), group] }
}

pub(in crate::wire::extension) fn subjects() -> Listed<SubjectListed> {
    let subject = SubjectListed {
        number: SubjectNumber(4),
        name: "orders".to_owned(),
        ready: 3,
        next_number: ReadyNumber(8),
        groups: vec!["a".to_owned(), "b".to_owned()],
        expired: 2,
        expired_before: Millis(0),
    };
    Listed { next: 0, rows: vec![subject] }
}

pub(in crate::wire::extension) fn consumers() -> Listed<ConsumerListed> {
    let (name, subject) = ("host@@1".to_owned(), "orders".to_owned());
    let (number, is_lasting, is_broadcast) = (ConsumerNumber(3), true, true);
    let one = ConsumerListed { number, name, subject, in_flight: 2, is_lasting, is_broadcast };
    Listed { next: 3, rows: vec![one] }
}

pub(in crate::wire::extension) fn letters() -> Letters<'static> {
    let payload = LetterPayload { published: Millis(6), form: PayloadForm::Qmq, meta_length: 2, bytes: b"mebody" };
    let whole = Letter {
        number: ReadyNumber(1),
        sequence: Sequence(2),
        died: Millis(3),
        attempt: 4,
        reason: "why",
        damage: None,
        payload: Some(payload),
    };
    let damaged = Letter { damage: Some("its row is damaged"), payload: None, reason: "", ..whole };
    Letters { next: 2, letters: vec![whole, damaged] }
}

pub(super) const STEPPED: Hold = Hold::SteppedAhead { by_ms: 3_600_000, while_closed: true };

/// A clock that is held for 5 s.
pub(super) fn clock_told(hold: Hold, accepted_in_ms: Option<u64>) -> ClockTold {
    let (now, wall) = (Millis(1_800_000_000_000), Millis(1_800_003_600_000));
    let held = HeldReport::new(hold, now, wall, 5_000, accepted_in_ms);
    ClockTold(ClockReport { now, wall, is_synchronised: false, held: Some(held) })
}

/// A delivery, a welcome, a status, the lists of groups, subjects and dead letters, an error, the list of
/// consumers, a page of what is pending, counts of it, fates, a forecast, series, a load, a clock, the fate of a key,
/// the error of a node that is not the primary, and that of a store with too few copies.
pub(super) fn every_answer() -> Vec<Vec<u8>> {
    let messages = [delivered(b"mebody", PayloadForm::Opaque), delivered(b"mewire", PayloadForm::Qmq)];
    let error = RemoteError::from(&Error::TooLarge { argument: "body", limit: 4, found: 5 });
    let not_primary = RemoteError::new(ErrorCode::NotPrimary, "this node is not the primary");
    let not_primary = not_primary.with(Attribute::Address, "b.example:20801").with(Attribute::Epoch, 7);
    let few_copies = Error::NotEnoughCopies { copies: 1, min_copies: 2, maybe_stored: true };
    let few_copies = RemoteError::from(&few_copies);
    vec![
        written(&|out| {
            put_deliver(out, 4, Millis(21), messages.len()).unwrap();
            for message in &messages {
                message.put(out).unwrap();
            }
        }),
        written(&|out| welcome().put(out).unwrap()),
        written(&|out| status().put(out).unwrap()),
        written(&|out| groups().put(out).unwrap()),
        written(&|out| subjects().put(out).unwrap()),
        written(&|out| letters().put(out).unwrap()),
        written(&|out| error.put(out).unwrap()),
        written(&|out| consumers().put(out).unwrap()),
        written(&|out| pending_told().put(out).unwrap()),
        written(&|out| counts_told().put(out).unwrap()),
        written(&|out| put_fates(out, &FATES).unwrap()),
        written(&|out| forecast_told().put(out).unwrap()),
        written(&|out| series_told().put(out).unwrap()),
        written(&|out| LOAD_TOLD.put(out)),
        written(&|out| clock_told(STEPPED, Some(60_000)).put(out)),
        written(&|out| KeyFate::Dispatched(receipt(1)).put(out)),
        written(&|out| not_primary.put(out).unwrap()),
        written(&|out| few_copies.put(out).unwrap()),
    ]
}
