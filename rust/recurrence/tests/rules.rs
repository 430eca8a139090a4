//! Rules against calendars written by hand, against a scan second by second, and against hostile texts.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use delaymq_recurrence::{
    CatchUp, EVERY_MS_MAX, EVERY_MS_MIN, HORIZON_MS, Refused, Rule, TEXT_BYTES_MAX, Zones, next_turn,
};
use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use proptest::prelude::*;

fn at(text: &str) -> u64 {
    u64::try_from(text.parse::<Timestamp>().unwrap().as_millisecond()).unwrap()
}

fn shown(at_ms: u64) -> String {
    Timestamp::from_millisecond(i64::try_from(at_ms).unwrap()).unwrap().to_string()
}

fn parsed(text: &str, zone: &str) -> Result<Rule, Refused> {
    Rule::parse(text, zone, &Zones::bundled())
}

fn rule(text: &str, zone: &str) -> Rule {
    parsed(text, zone).unwrap()
}

fn times(text: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
    let rule = rule(text, zone);
    let mut last = at(after);
    let mut found = Vec::new();
    for _ in 0..count {
        last = rule.next_after(last).unwrap().unwrap();
        found.push(shown(last));
    }
    found
}

#[test]
fn patterns_have_names_ranges_steps_and_lists() {
    assert_eq!(
        times("0 9 * * mon-fri", "Europe/Berlin", "2026-01-09T00:00:00Z", 2),
        ["2026-01-09T08:00:00Z", "2026-01-12T08:00:00Z"]
    );
    assert_eq!(
        times("*/20 8,20 1 JAN,jul *", "UTC", "2026-01-01T08:10:00Z", 4),
        ["2026-01-01T08:20:00Z", "2026-01-01T08:40:00Z", "2026-01-01T20:00:00Z", "2026-01-01T20:20:00Z"]
    );
    assert_eq!(times("15 30 12 * * *", "UTC", "2026-01-01T12:30:14.999Z", 1), ["2026-01-01T12:30:15Z"]);
    assert_eq!(times("0 0 L * *", "UTC", "2028-02-01T00:00:00Z", 2), ["2028-02-29T00:00:00Z", "2028-03-31T00:00:00Z"]);
    assert_eq!(times("0 0 * * fri#2", "UTC", "2026-01-01T00:00:00Z", 1), ["2026-01-09T00:00:00Z"]);
    assert_eq!(times("0 0 29 2 *", "UTC", "2096-03-01T00:00:00Z", 1), ["2104-02-29T00:00:00Z"]);
}

#[test]
fn nicknames_and_ranges_that_wrap_are_what_people_mean() {
    let friday = "2026-01-09T12:00:00Z";
    assert_eq!(times("@daily", "Europe/Berlin", friday, 1), ["2026-01-09T23:00:00Z"]);
    assert_eq!(times("@hourly", "UTC", friday, 2), ["2026-01-09T13:00:00Z", "2026-01-09T14:00:00Z"]);
    assert_eq!(times("@yearly", "UTC", friday, 1), ["2027-01-01T00:00:00Z"]);
    assert_eq!(times("@every 5m", "UTC", friday, 2), ["2026-01-09T12:05:00Z", "2026-01-09T12:10:00Z"]);
    assert_eq!(parsed("@every 5m", "Europe/Berlin").unwrap_err().part, "zone");
    assert_eq!(
        times("0 0 * * fri-mon", "UTC", friday, 4),
        ["2026-01-10T00:00:00Z", "2026-01-11T00:00:00Z", "2026-01-12T00:00:00Z", "2026-01-16T00:00:00Z"]
    );
    assert_eq!(
        times("0 22-1 * * *", "UTC", friday, 5),
        [
            "2026-01-09T22:00:00Z",
            "2026-01-09T23:00:00Z",
            "2026-01-10T00:00:00Z",
            "2026-01-10T01:00:00Z",
            "2026-01-10T22:00:00Z"
        ]
    );
}

#[test]
fn what_falls_into_a_gap_happens_at_its_end_once() {
    // 2026-03-29: 02:00 to 03:00 is not there in Berlin; 03:00 is 01:00 in UTC.
    let after = "2026-03-28T12:00:00Z";
    assert_eq!(times("30 2 * * *", "Europe/Berlin", after, 2), ["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]);
    assert_eq!(times("0 3 * * *", "Europe/Berlin", after, 2), ["2026-03-29T01:00:00Z", "2026-03-30T01:00:00Z"]);
    // The gap of two hours of Troll, and one at midnight.
    assert_eq!(times("30 1 * * *", "Antarctica/Troll", after, 1), ["2026-03-29T01:00:00Z"]);
    assert_eq!(times("30 0 * * *", "America/Havana", "2026-03-07T12:00:00Z", 1), ["2026-03-08T05:00:00Z"]);
    // Of a day that a zone left out, which is longer than any gap of today, nothing happens.
    assert_eq!(
        times("0 9 * * *", "Pacific/Apia", "2011-12-30T00:00:00Z", 2),
        ["2011-12-30T19:00:00Z", "2011-12-31T19:00:00Z"]
    );
}

#[test]
fn a_pattern_goes_on_at_the_very_end_of_a_long_gap() {
    // The 30th was not there, and the 31st began at 10:00 in UTC, whatever the minute that is asked from.
    for after in ["2011-12-29T10:00:00Z", "2011-12-29T10:30:01Z", "2011-12-30T09:59:59.999Z"] {
        assert_eq!(times("0 0 * * *", "Pacific/Apia", after, 1), ["2011-12-30T10:00:00Z"], "{after}");
    }
}

#[test]
fn a_day_of_the_month_or_of_the_week_will_do() {
    assert_eq!(
        times("0 0 13 * fri", "UTC", "2026-01-08T12:00:00Z", 3),
        ["2026-01-09T00:00:00Z", "2026-01-13T00:00:00Z", "2026-01-16T00:00:00Z"]
    );
}

#[test]
fn what_is_there_twice_happens_the_first_time() {
    // 2026-10-25: 02:00 to 03:00 comes twice in Berlin, from 00:00 and from 01:00 in UTC.
    let after = "2026-10-24T12:00:00Z";
    assert_eq!(times("30 2 * * *", "Europe/Berlin", after, 2), ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]);
    assert_eq!(times("0 3 * * *", "Europe/Berlin", after, 1), ["2026-10-25T02:00:00Z"]);
}

#[test]
fn several_times_of_day_go_by_what_the_clock_shows() {
    let after = "2026-03-28T12:00:00Z";
    assert_eq!(times("15,45 2 * * *", "Europe/Berlin", after, 1), ["2026-03-30T00:15:00Z"]);
    assert_eq!(
        times("30 * * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", 3),
        ["2026-03-29T00:30:00Z", "2026-03-29T01:30:00Z", "2026-03-29T02:30:00Z"]
    );
    assert_eq!(
        times("30 * * * *", "Europe/Berlin", "2026-10-24T23:45:00Z", 3),
        ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-25T02:30:00Z"]
    );
}

#[test]
fn intervals_do_not_drift_and_have_limits() {
    let quarter = rule(&Rule::every_text(900_000), "UTC");
    assert_eq!(quarter.next_after(7), Ok(Some(900_007)));
    assert_eq!(quarter.last_until(7, 1_800_006), Ok(Some(900_007)));
    assert_eq!(quarter.last_until(7, 900_006), Ok(None));
    assert_eq!(quarter.next_after(u64::MAX - 5), Ok(None));
    for interval_ms in [0, EVERY_MS_MIN - 1, EVERY_MS_MAX + 1, u64::MAX] {
        let refused = parsed(&Rule::every_text(interval_ms), "UTC").unwrap_err();
        assert_eq!(refused.part, "every");
    }
    for text in ["every ", "every x", "every 1500", "every +1500ms", "every 99999999999999999999999ms", "every 1 500ms"]
    {
        assert_eq!(parsed(text, "UTC").unwrap_err().part, "every", "{text}");
    }
    assert_eq!(parsed(&Rule::every_text(EVERY_MS_MAX), "Europe/Berlin").unwrap_err().part, "zone");
    assert_eq!(rule(&Rule::every_text(EVERY_MS_MAX), "UTC").next_after(1), Ok(Some(1 + EVERY_MS_MAX)));
}

#[test]
fn a_rule_begins_where_it_is_told() {
    let minute = rule(&Rule::every_text(60_000), "UTC");
    assert_eq!(minute.counts_from(1_000_000, None), Some(1_000_000));
    assert_eq!(minute.counts_from(1_000_000, Some(1_000_030)), Some(940_030));
    assert_eq!(minute.counts_from(1_000_000, Some(880_007)), Some(940_007), "the grid of a start that is over");
    assert_eq!(minute.counts_from(1_000_000, Some(999_999)), Some(999_999));
    let daily = rule("0 0 * * *", "UTC");
    let (now, midnight) = (at("2026-01-01T12:00:00Z"), at("2026-01-05T00:00:00Z"));
    let first = |start| daily.next_after(daily.counts_from(now, start).unwrap()).unwrap().unwrap();
    assert_eq!(shown(first(None)), "2026-01-02T00:00:00Z");
    assert_eq!(first(Some(midnight)), midnight, "a start that is a time of the rule");
    assert_eq!(shown(first(Some(0))), "2026-01-02T00:00:00Z");
}

#[test]
fn texts_that_are_no_rules_are_refused_by_name() {
    let long = format!("0 0 1 1 {}0", "0,".repeat(TEXT_BYTES_MAX));
    let many = "*".repeat(TEXT_BYTES_MAX);
    for text in [
        "",
        " ",
        "* * * *",
        "* * * * * * *",
        "@reboot",
        "@every",
        "@every 5",
        "@every 999ms",
        "@every 3651d",
        "60 0 * * *",
        "0 24 * * *",
        "0 0 0 * *",
        "0 0 32 * *",
        "0 0 1 13 *",
        "0 0 * * 8",
        "*/0 * * * *",
        "5-1/x * * * *",
        "a b c d e",
        "0 0 * * mon#6",
        "0 0 * * \u{662}",
        "-1 * * * *",
        "0\n0 * * *",
        "0 0 1 1 *\0",
        "1,, * * * *",
        "/ * * * *",
        "* * * * * 2030 ",
        &long,
        &many,
    ] {
        match parsed(text, "UTC") {
            Err(Refused { part, found, .. }) => {
                assert_eq!(part, "cron", "{text}");
                assert!(found.len() < 3 * TEXT_BYTES_MAX, "{}", found.len());
            }
            Ok(rule) => panic!("{text:?} is {rule:?}"),
        }
    }
    let long_zone = "Z".repeat(10_000);
    for zone in ["", "Mars/Base", "Europe", "../UTC", "UTC\0", "+02:00", "CET-1", "Local", &long_zone] {
        assert_eq!(parsed("0 0 * * *", zone).map(drop).unwrap_err().part, "zone", "{zone}");
    }
}

#[test]
fn what_never_happens_has_no_next() {
    // The last is a day of each 28th year: 2044 is the next one.
    for text in ["0 0 30 2 *", "0 0 31 4,6,9,11 *", "* * * 31 2 *", "0 0 * 2 mon#5"] {
        for zone in ["UTC", "Europe/Berlin"] {
            let never = rule(text, zone);
            assert_eq!(never.next_after(at("2026-01-01T00:00:00Z")), Ok(None), "{text}");
            assert_eq!(never.last_until(0, at("2026-01-01T00:00:00Z")), Ok(None), "{text}");
        }
    }
    assert_eq!(rule("0 0 * * *", "UTC").next_after(u64::MAX), Ok(None));
}

#[test]
fn what_was_missed_is_caught_up_with_by_the_policy() {
    let hourly = rule("0 * * * *", "UTC");
    let (last, now) = (at("2026-01-01T00:00:00Z"), at("2026-01-01T05:30:00Z"));
    let turn = |catch_up, last, now| next_turn(&hourly, catch_up, last, now).unwrap().map(shown).unwrap();
    assert_eq!(turn(CatchUp::One, last, now), "2026-01-01T05:00:00Z");
    assert_eq!(turn(CatchUp::One, at("2026-01-01T05:00:00Z"), now), "2026-01-01T06:00:00Z");
    assert_eq!(turn(CatchUp::Skip, last, now), "2026-01-01T06:00:00Z");
    assert_eq!(turn(CatchUp::All, last, now), "2026-01-01T01:00:00Z");
    for catch_up in [CatchUp::One, CatchUp::Skip, CatchUp::All] {
        assert_eq!(turn(catch_up, last, last), "2026-01-01T01:00:00Z", "nothing was missed");
    }
    // What is due this very moment is not missed, and happens.
    assert_eq!(turn(CatchUp::One, last, at("2026-01-01T01:00:00Z")), "2026-01-01T01:00:00Z");
}

/// Every second of the scan whose civil time the fields take, by the rule that the crate states.
fn scanned(fields: &Fields, zone: &TimeZone, from: u64, until: u64) -> Vec<u64> {
    let mut found = Vec::new();
    for second in from / 1_000 + 1..=until / 1_000 {
        let now = Timestamp::from_second(i64::try_from(second).unwrap()).unwrap();
        let before = Timestamp::from_second(i64::try_from(second - 1).unwrap()).unwrap();
        let (civil, civil_before) = (zone.to_datetime(now), zone.to_datetime(before));
        let has = |civil| fields.take(civil);
        let is_repeated = zone.to_ambiguous_zoned(civil).earlier().unwrap().timestamp() < now;
        let mut happens = has(civil) && (fields.is_wild() || !is_repeated);
        // A gap ends here: what lay in it, of this day, happens now.
        let mut missing = civil_before.checked_add(jiff::Span::new().seconds(1)).unwrap();
        while missing < civil && !fields.is_wild() {
            happens |= has(missing) && fields.takes_day(civil);
            missing = missing.checked_add(jiff::Span::new().seconds(1)).unwrap();
        }
        if happens {
            found.push(second * 1_000);
        }
    }
    found
}

/// A pattern as numbers: `None` is `*`.
#[derive(Clone, Debug)]
struct Fields {
    second: Option<i8>,
    minute: Option<i8>,
    hour: Option<i8>,
    day: Option<i8>,
    weekday: Option<i8>,
}

impl Fields {
    fn is_wild(&self) -> bool {
        self.second.is_none() || self.minute.is_none() || self.hour.is_none()
    }

    fn takes_day(&self, civil: jiff::civil::DateTime) -> bool {
        let day = self.day.map(|day| civil.day() == day);
        let weekday = self.weekday.map(|weekday| civil.weekday().to_sunday_zero_offset() == weekday);
        match (day, weekday) {
            // Where both are given either will do, as cron has it.
            (Some(day), Some(weekday)) => day || weekday,
            (day, weekday) => day.or(weekday).unwrap_or(true),
        }
    }

    fn take(&self, civil: jiff::civil::DateTime) -> bool {
        let is = |field: Option<i8>, value: i8| field.is_none_or(|field| field == value);
        is(self.second, civil.second())
            && is(self.minute, civil.minute())
            && is(self.hour, civil.hour())
            && self.takes_day(civil)
    }

    fn text(&self) -> String {
        let text = |field: Option<i8>| field.map_or("*".to_owned(), |field| field.to_string());
        let [second, minute, hour, day, weekday] =
            [self.second, self.minute, self.hour, self.day, self.weekday].map(text);
        format!("{second} {minute} {hour} {day} * {weekday}")
    }
}

fn fields() -> impl Strategy<Value = Fields> {
    let second = prop_oneof![4 => Just(Some(0)), 1 => (0_i8..60).prop_map(Some)];
    let minute = prop_oneof![1 => Just(None), 4 => prop::sample::select(vec![0_i8, 1, 15, 30, 59]).prop_map(Some)];
    let hour = prop_oneof![1 => Just(None), 4 => (0_i8..5).prop_map(Some), 1 => (20_i8..24).prop_map(Some)];
    let day = prop_oneof![3 => Just(None), 1 => (1_i8..32).prop_map(Some)];
    let weekday = prop_oneof![3 => Just(None), 1 => (0_i8..7).prop_map(Some)];
    (second, minute, hour, day, weekday).prop_map(|(second, minute, hour, day, weekday)| Fields {
        second,
        minute,
        hour,
        day,
        weekday,
    })
}

/// Days around which clocks are turned, and some on which they are not.
const DAYS: [(&str, &str); 9] = [
    ("Europe/Berlin", "2026-03-28T00:00:00Z"),
    ("Europe/Berlin", "2026-10-24T00:00:00Z"),
    ("America/New_York", "2026-03-07T12:00:00Z"),
    ("America/New_York", "2026-10-31T12:00:00Z"),
    ("Australia/Lord_Howe", "2026-04-04T00:00:00Z"),
    ("Australia/Lord_Howe", "2026-10-03T00:00:00Z"),
    ("America/Havana", "2026-03-07T12:00:00Z"),
    ("Asia/Kathmandu", "2026-06-01T00:00:00Z"),
    ("UTC", "2028-02-28T12:00:00Z"),
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 30, ..ProptestConfig::default() })]

    #[test]
    fn rules_are_what_a_scan_finds(fields in fields(), place in 0..DAYS.len(), late_s in 0_u64..36_000) {
        let (zone, from) = DAYS[place];
        let from = at(from) + late_s * 1_000 + late_s % 1_000;
        let until = from + 2 * 86_400_000;
        let known = TimeZoneDatabase::bundled().get(zone).unwrap();
        let expected = scanned(&fields, &known, from, until);
        let rule = rule(&fields.text(), zone);
        let mut last = from;
        let mut found = Vec::new();
        while let Some(next) = rule.next_after(last).unwrap().filter(|next| *next <= until) {
            found.push(next);
            last = next;
        }
        prop_assert_eq!(&found, &expected, "{} in {}", fields.text(), zone);
        prop_assert_eq!(rule.last_until(from, until).unwrap(), expected.last().copied());
        let middle = from + late_s * 2_000;
        let until_middle = expected.iter().copied().rfind(|one| *one <= middle);
        prop_assert_eq!(rule.last_until(from, middle).unwrap(), until_middle);
    }

    #[test]
    fn no_text_panics_or_goes_on_for_ever(text in "[*0-9a-zL#W,/ ?-]{0,40}", zone in "[A-Za-z/+0-9-]{0,20}", now in any::<u64>()) {
        for zone in [zone.as_str(), "UTC", "America/Sao_Paulo"] {
            if let Ok(rule) = parsed(&text, zone) {
                let next = rule.next_after(now / 1_000_000).unwrap_or(None);
                prop_assert!(next.is_none_or(|next| next > now / 1_000_000 && next <= now / 1_000_000 + HORIZON_MS));
                let _ = rule.next_after(now);
                let _ = next_turn(&rule, CatchUp::One, 0, 2_000_000_000_000);
            }
        }
    }

    #[test]
    fn any_bytes_are_a_rule_or_none(text in ".{0,60}", fields in prop::collection::vec("[*0-9a-z,/#LW?-]{1,6}", 5..7)) {
        for text in [text, fields.join(" ")] {
            if let Ok(rule) = parsed(&text, "Europe/Berlin") {
                let _ = rule.next_after(1_700_000_000_000);
            }
        }
    }
}

/// Two compiled zones under one name: a newer release may change a rule.
#[test]
fn a_newer_database_changes_what_follows_and_not_what_it_lacks() {
    let folder = tempfile::tempdir().unwrap();
    // As Europe/Berlin, Europe/Paris follows the rules of a POSIX text: no summer time, three hours ahead.
    std::fs::create_dir(folder.path().join("Europe")).unwrap();
    std::fs::write(folder.path().join("Europe/Paris"), compiled("<+03>-3")).unwrap();
    let zones = Zones::newer(TimeZoneDatabase::from_dir(folder.path()).unwrap());
    let noon = |zone: &str, zones: &Zones| {
        let rule = Rule::cron("0 12 * * *", zone, zones).unwrap();
        shown(rule.next_after(at("2026-07-01T00:00:00Z")).unwrap().unwrap())
    };
    assert_eq!(noon("Europe/Paris", &Zones::bundled()), "2026-07-01T10:00:00Z");
    assert_eq!(noon("Europe/Paris", &zones), "2026-07-01T09:00:00Z");
    assert_eq!(noon("Europe/Berlin", &zones), "2026-07-01T10:00:00Z", "the folder does not have it");
}

/// A compiled zone (RFC 9636) of version 2 without transitions, whose rule is a POSIX text.
fn compiled(rule: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..2 {
        bytes.extend_from_slice(b"TZif2");
        bytes.extend_from_slice(&[0; 15]);
        for count in [0_u32, 0, 0, 0, 1, 4] {
            bytes.extend_from_slice(&count.to_be_bytes());
        }
        bytes.extend_from_slice(&10_800_i32.to_be_bytes());
        bytes.extend_from_slice(&[0, 0]);
        bytes.extend_from_slice(b"+03\0");
    }
    bytes.extend_from_slice(format!("\n{rule}\n").as_bytes());
    bytes
}
