//! `RECUR`, `END_RECURRING` and `RECURRING`: series are begun, ended and listed.

use delaymq_core::wire::extension::recurring::{
    RecurAsked, SERIES_TOLD_MAX, SeriesAsked, SeriesName, SeriesRow, SeriesTold,
};
use delaymq_engine::{NewRecurring, RecurringListed, Recurs};

use crate::requests::administration::{ask, filled, list};
use crate::requests::responder::Responder;

pub(crate) fn recur(responder: Responder, asked: &RecurAsked<'_>) {
    let (subject, name) = (asked.subject.to_owned(), asked.name.to_owned());
    let (cron, zone, every_ms) = (asked.cron.to_owned(), asked.zone.to_owned(), asked.every_ms);
    let (start, catch_up, if_exists) = (asked.start, asked.catch_up, asked.if_exists);
    let expires_after = asked.expires_after;
    let (meta, body) = (asked.meta.to_vec(), asked.body.to_vec());
    ask(responder, move |store| {
        let recurs = if cron.is_empty() { Recurs::Every(every_ms) } else { Recurs::Cron(&cron) };
        let (name, zone) = (name.as_str(), zone.as_str());
        let (meta, body) = (meta.as_slice(), body.as_slice());
        let new = NewRecurring { name, recurs, zone, start, catch_up, if_exists, expires_after, meta, body };
        let listed = store.recur(&subject, &new)?;
        filled(|out| SeriesTold { next: 0, rows: vec![row(&listed)] }.put(out))
    });
}

pub(crate) fn end(responder: Responder, asked: &SeriesName<'_>) {
    let (subject, name) = (asked.subject.to_owned(), asked.name.to_owned());
    ask(responder, move |store| {
        let ended = u64::from(store.end_recurring(&subject, &name)?);
        filled(|out| {
            out.extend_from_slice(&ended.to_be_bytes());
            Ok(())
        })
    });
}

/// A piece of the list, by number.
pub(crate) fn listed(responder: Responder, asked: &SeriesAsked<'_>) {
    let subject = (!asked.subject.is_empty()).then(|| asked.subject.to_owned());
    let after = asked.after;
    list(responder, move |store| {
        let found = store.recurring(subject.as_deref(), after, SERIES_TOLD_MAX)?;
        let next = found.last().filter(|_| found.len() == SERIES_TOLD_MAX).map_or(0, |last| last.number);
        filled(|out| SeriesTold { next, rows: found.iter().map(row).collect() }.put(out))
    });
}

fn row(listed: &RecurringListed) -> SeriesRow<'_> {
    SeriesRow {
        number: listed.number,
        subject: &listed.subject,
        name: &listed.name,
        rule: &listed.rule,
        zone: &listed.zone,
        catch_up: listed.catch_up,
        expires_after: listed.expires_after,
        pending: listed.pending,
    }
}
