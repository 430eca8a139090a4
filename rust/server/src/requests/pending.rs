//! Requests about pending messages. They wait for no sync and hold the owner for moments only; files are read on the
//! blocking pool.

use delaymq_core::error::Result;
use delaymq_core::run::run_path;
use delaymq_core::store::{PendingCursor, PendingQuery};
use delaymq_core::wire::extension::forecast::{ForecastAsked, ForecastTold};
use delaymq_core::wire::extension::pending::{
    CountsAsked, CountsTold, FateTold, HIDDEN_MAX, HiddenRow, PendingAsked, PendingRow, PendingTold, put_fates,
};
use delaymq_engine::{Fate, PendingPage, Receipt, Store};

use crate::requests::administration::{filled, list, look};
use crate::requests::responder::Responder;

/// The states of messages, in the order of their receipts.
pub(crate) fn look_up(responder: Responder, receipts: Vec<Receipt>) {
    look(responder, move |store| {
        let found = store.look_up_many(&receipts)?;
        let told: Vec<(FateTold, &str)> = found.iter().map(|one| (fate_told(one.fate), &*one.subject)).collect();
        filled(|out| put_fates(out, &told))
    });
}

const fn fate_told(fate: Fate) -> FateTold {
    match fate {
        Fate::Pending => FateTold::Pending,
        Fate::Dispatched => FateTold::Dispatched,
        Fate::Cancelled => FateTold::Cancelled,
        Fate::NotFound => FateTold::NotFound,
    }
}

/// A page of a list. Each page is a list of its own, behind the cursor of the page before.
pub(crate) fn pending(responder: Responder, asked: &PendingAsked<'_>) {
    let (of, after, count_max) = (asked.of.clone(), asked.after.to_owned(), asked.count_max as usize);
    let (due_from, due_before) = (Some(asked.due_from), asked.due_before);
    list(responder, move |store| {
        let after = if after.is_empty() { None } else { Some(PendingCursor::parse(&after)?) };
        let mut reader = store.pending(&PendingQuery { of, due_from, due_before, after })?;
        let page = reader.next_page(count_max)?.unwrap_or_default();
        page_told(&page, &reader.cursor().to_text(), reader.is_done())
    });
}

fn page_told(page: &PendingPage, after: &str, is_done: bool) -> Result<Vec<u8>> {
    let named = page.hidden.iter().take(HIDDEN_MAX);
    let words: Vec<_> = named.map(|one| (run_path(one.block.run), one, one.block.error.to_string())).collect();
    let hidden =
        words.iter().map(|(path, one, reason)| HiddenRow { path, block: one.block.block, rows: one.rows, reason });
    let rows = page.entries.iter().map(|one| PendingRow {
        subject: &one.subject,
        attempt: one.attempt,
        published: one.published,
        receipt: one.receipt,
    });
    let told = PendingTold { after, is_done, rows: rows.collect(), hidden: hidden.collect() };
    filled(|out| told.put(out))
}

/// A piece of the counts, by the names of subjects.
pub(crate) fn counts(responder: Responder, asked: &CountsAsked<'_>) {
    let (of, after, count_max) = (asked.of.clone(), asked.after.to_owned(), asked.count_max as usize);
    list(responder, move |store: &Store| {
        let counts = store.pending_counts(&of)?;
        let first = counts.partition_point(|(name, _)| !after.is_empty() && *name <= after);
        let behind = counts.get(first..).unwrap_or_default();
        let rows: Vec<(&str, u64)> =
            behind.iter().take(count_max).map(|(name, count)| (name.as_str(), *count)).collect();
        let next = rows.last().filter(|_| rows.len() < behind.len()).map_or("", |(name, _)| *name);
        filled(|out| CountsTold { next, rows: rows.clone() }.put(out))
    });
}

/// A piece of a forecast.
pub(crate) fn forecast(responder: Responder, asked: &ForecastAsked<'_>) {
    let query = asked.query();
    list(responder, move |store: &Store| {
        let told = ForecastTold::first_of(store.forecast(&query)?);
        filled(|out| told.put(out))
    });
}
