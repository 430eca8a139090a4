//! Series with unknown rules: facts that only another release can have written.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use delaymq_core::error::Error;
use delaymq_core::message_log::{Class, Durability};
use delaymq_core::record::name::encode_subject;
use delaymq_core::record::recurring::{NewSeries, Recur, encode_recur};
use delaymq_core::store::{Outcome, SERIES_MAX};
use delaymq_core::units::Millis;

use super::*;
use crate::{Options, Report};

const DAILY: NewRecurring<'static> = NewRecurring {
    name: "daily",
    recurs: Recurs::Cron("0 9 * * *"),
    zone: "UTC",
    start: None,
    catch_up: CatchUp::Skip,
    expires_after: None,
    if_exists: IfExists::Refuse,
    meta: &[],
    body: b"again",
};

fn open(path: &Path) -> Arc<Store> {
    let options = Options { segment_bytes: 1 << 20, durability: Durability::Os, ..Options::default() };
    Store::open(path, options, &mut |_| {}).unwrap()
}

/// Begins series in an unknown zone, one for each of these names.
fn begin_on_mars(store: &Store, names: &[String]) {
    let shared = &store.shared;
    let named = shared.names.subject("jobs").unwrap();
    let mut records = Vec::new();
    if named.needs_fact {
        encode_subject(&mut records, named.number, &named.name);
    }
    for name in names {
        let series = NewSeries {
            subject: named.number,
            name,
            if_exists: IfExists::Refuse,
            rule: "0 9 * * *",
            zone: "Mars/Base",
            catch_up: CatchUp::All,
            expires_after: None,
            after: Millis(1_800_000_000_000),
            meta: b"",
            body: b"",
        };
        encode_recur(&mut records, &Recur::Begin(series));
    }
    let count = names.len() + usize::from(named.needs_fact);
    let found = shared.ask(&records, count, Class::Growing, false).unwrap();
    if named.needs_fact {
        shared.names.submitted(std::slice::from_ref(&named));
    }
    assert!(found.iter().rev().take(names.len()).all(|one| *one == Some(Outcome::SeriesBegun(None))));
}

/// The next report of a series.
fn next_report(store: &Store, wait: Duration) -> Option<Report> {
    let of_series = |report: &Report| matches!(report, Report::SeriesRests { .. } | Report::SeriesOver { .. });
    std::iter::from_fn(|| store.next_report(wait).unwrap()).find(of_series)
}

#[test]
fn a_series_whose_rule_nobody_knows_rests_and_is_told_once_an_opening() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    begin_on_mars(&store, &["daily".to_owned()]);
    store.close().unwrap();
    for opening in 0..2 {
        let store = open(folder.path());
        let told = next_report(&store, Duration::from_secs(20)).unwrap();
        let Report::SeriesRests { subject, name, reason } = &told else { panic!("{told:?}") };
        assert_eq!((told.kind(), subject.as_str(), name.as_str()), ("series_rests", "jobs", "daily"));
        assert!(reason.contains("zone") && reason.contains("Mars/Base"), "{reason}");
        // What happens beside it wakes the driver, and is no news of this one.
        store.recur("jobs", &NewRecurring { name: &format!("other-{opening}"), ..DAILY }).unwrap();
        let rests = store.recurring(Some("jobs"), 0, 1).unwrap().pop().unwrap();
        assert_eq!((rests.zone.as_str(), rests.pending), ("Mars/Base", None));
        assert_eq!(next_report(&store, Duration::ZERO), None);
        store.close().unwrap();
    }
    let store = open(folder.path());
    let replaced = store.recur("jobs", &NewRecurring { if_exists: IfExists::Replace, ..DAILY }).unwrap();
    assert!(replaced.pending.is_some(), "it goes on");
}

#[test]
fn one_series_more_than_a_store_has_is_refused() {
    const AT_ONCE: usize = 1 << 10;
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    for first in (0..SERIES_MAX).step_by(AT_ONCE) {
        let names: Vec<String> = (first..first + AT_ONCE).map(|number| number.to_string()).collect();
        begin_on_mars(&store, &names);
    }
    let full = store.recur("jobs", &DAILY).unwrap_err();
    assert!(matches!(full, Error::NamesFull { argument: "name", limit: 65_536 }), "{full:?}");
    // What takes the place of another one needs none, and what ends leaves its own.
    store.recur("jobs", &NewRecurring { name: "7", if_exists: IfExists::Replace, ..DAILY }).unwrap();
    assert!(store.end_recurring("jobs", "8").unwrap());
    store.recur("jobs", &DAILY).unwrap();
    store.close().unwrap();
    let store = open(folder.path());
    let names = |after| store.recurring(None, after, SERIES_MAX).unwrap();
    assert_eq!((names(0).len(), names(0).last().map(|one| one.name.clone())), (SERIES_MAX, Some("daily".to_owned())));
}
