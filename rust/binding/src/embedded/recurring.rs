//! Recurring series for Python.

use delaymq_core::units::Millis;
use delaymq_core::wire::extension::recurring::{RecurAsked, SeriesAsked, SeriesName, SeriesRow, SeriesTold};
use delaymq_core::wire::extension::{END_RECURRING, RECUR, RECURRING};
use delaymq_engine::{CatchUp, ExpiresAfter, IfExists, NewRecurring, OnExpiry, RecurringListed, Recurs};
use pyo3::prelude::*;

use crate::convert::receipt::Receipt;
use crate::convert::{errors, message, meta, terms, text};
use crate::embedded::store::Store;
use crate::remote::reading::{Reader, any, number, read};
use crate::remote::requests::Request;

/// Adds the functions of this file to the module.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(recur, module)?)?;
    module.add_function(wrap_pyfunction!(end_recurring, module)?)?;
    module.add_function(wrap_pyfunction!(recurring, module)?)?;
    module.add_function(wrap_pyfunction!(recur_request, module)?)?;
    module.add_function(wrap_pyfunction!(end_recurring_request, module)?)?;
    module.add_function(wrap_pyfunction!(recurring_request, module)?)
}

/// The answers to the requests of this file.
pub(crate) const ANSWERS: &[(i16, Reader)] = &[
    (RECUR, |py, body| read(SeriesTold::read(body), |series| any(series.rows.first().map(told).into_pyobject(py)))),
    (END_RECURRING, number),
    (RECURRING, |py, body| {
        read(SeriesTold::read(body), |series| {
            any((series.next, series.rows.iter().map(told).collect::<Vec<_>>()).into_pyobject(py))
        })
    }),
];

/// Series that one call lists.
const PAGE: usize = 1_000;

/// Its name, the interval in milliseconds or None, the pattern or None, the zone, the start in milliseconds or
/// None, the policy for missed occurrences (0 one, 1 skip, 2 all), for an existing series of the name (0
/// replace, 1 keep, 2 refuse), and after how many milliseconds its messages expire and whether they become dead letters
/// then, or None; `delaymq.recurring` has checked them.
pub(crate) type Asked = (String, Option<u64>, Option<String>, String, Option<u64>, u8, u8, Option<Expiring>);
/// Milliseconds, and whether the message becomes a dead letter.
type Expiring = (u64, bool);

/// Number, subject, name, rule, zone, the policy for missed occurrences, when messages expire, and the receipt of the
/// pending message.
pub(crate) type Row = (u64, String, String, String, String, u8, Option<Expiring>, Option<Receipt>);

/// A new series, in the engine's form.
pub(crate) fn asked<'a>(asked: &'a Asked, meta: &'a [u8], body: &'a [u8]) -> NewRecurring<'a> {
    let (name, every_ms, cron, zone, start_ms, catch_up, if_exists, expires) = asked;
    let recurs = match (every_ms, cron) {
        (Some(every_ms), _) => Recurs::Every(*every_ms),
        (None, cron) => Recurs::Cron(cron.as_deref().unwrap_or_default()),
    };
    let catch_up = CatchUp::numbered(u32::from(*catch_up)).unwrap_or_default();
    let if_exists = match if_exists {
        0 => IfExists::Replace,
        1 => IfExists::Keep,
        _ => IfExists::Refuse,
    };
    let expires_after = expires.map(|(after_ms, dies)| ExpiresAfter { after_ms, then: terms::then_of(dies) });
    let start = start_ms.map(Millis);
    NewRecurring { name, recurs, zone, start, catch_up, if_exists, expires_after, meta, body }
}

/// A new series, in its wire form.
pub(crate) fn request<'a>(subject: &'a str, recurs: &'a Asked, meta: &'a [u8], body: &'a [u8]) -> RecurAsked<'a> {
    let NewRecurring { name, zone, start, catch_up, if_exists, expires_after, .. } = asked(recurs, meta, body);
    let (every_ms, cron) = (recurs.1.unwrap_or_default(), recurs.2.as_deref().unwrap_or_default());
    RecurAsked { subject, name, every_ms, cron, zone, start, catch_up, if_exists, meta, body, expires_after }
}

fn expiring(expires: Option<ExpiresAfter>) -> Option<Expiring> {
    expires.map(|expires| (expires.after_ms, expires.then == OnExpiry::DeadLetter))
}

/// A series in a server's answer.
pub(crate) fn told(row: &SeriesRow<'_>) -> Row {
    let owned = |text: &str| text.to_owned();
    let catch_up = u8::try_from(row.catch_up.number()).unwrap_or_default();
    let (subject, name, rule, zone) = (owned(row.subject), owned(row.name), owned(row.rule), owned(row.zone));
    (row.number, subject, name, rule, zone, catch_up, expiring(row.expires_after), row.pending.map(Receipt))
}

/// A series in a list of the engine.
pub(crate) fn row(listed: RecurringListed) -> Row {
    let RecurringListed { number, subject, name, rule, zone, catch_up, expires_after, pending } = listed;
    let catch_up = u8::try_from(catch_up.number()).unwrap_or_default();
    (number, subject, name, rule, zone, catch_up, expiring(expires_after), pending.map(Receipt))
}

/// Begins a series.
#[expect(clippy::needless_pass_by_value, reason = "what is extracted from Python is owned")]
#[pyfunction]
#[pyo3(signature = (store, subject, body, recurs, about, /))]
fn recur(
    store: &Store,
    subject: &Bound<'_, PyAny>,
    body: &Bound<'_, PyAny>,
    recurs: Asked,
    about: &Bound<'_, PyAny>,
) -> PyResult<Row> {
    let (py, subject, meta) = (subject.py(), text::of("subject", subject)?, meta::encoded(about)?);
    let body = message::body_of(body)?;
    let told = py.detach(|| store.engine.recur(&subject, &asked(&recurs, &meta, &body)));
    told.map(row).map_err(|error| errors::raised(py, error))
}

/// Ends a series; false if there is none of that name.
#[pyfunction]
#[pyo3(signature = (store, subject, name, /))]
fn end_recurring(store: &Store, subject: &Bound<'_, PyAny>, name: &Bound<'_, PyAny>) -> PyResult<bool> {
    let (py, subject, name) = (name.py(), text::of("subject", subject)?, text::of("name", name)?);
    py.detach(|| store.engine.end_recurring(&subject, &name)).map_err(|error| errors::raised(py, error))
}

/// The series of one subject or of all.
#[pyfunction]
#[pyo3(signature = (store, subject, /))]
fn recurring(store: &Store, subject: &Bound<'_, PyAny>) -> PyResult<Vec<Row>> {
    let py = subject.py();
    let named = if subject.is_none() { None } else { Some(text::of("subject", subject)?) };
    let mut rows: Vec<Row> = Vec::new();
    loop {
        let after = rows.last().map_or(0, |row| row.0);
        let listed = py.detach(|| store.engine.recurring(named.as_deref(), after, PAGE));
        let listed = listed.map_err(|error| errors::raised(py, error))?;
        let is_last = listed.len() < PAGE;
        rows.extend(listed.into_iter().map(row));
        if is_last {
            return Ok(rows);
        }
    }
}

/// Asks a server to begin a series.
#[expect(clippy::needless_pass_by_value, reason = "what is extracted from Python is owned")]
#[pyfunction]
#[pyo3(signature = (subject, body, recurs, about, /))]
fn recur_request(
    subject: &Bound<'_, PyAny>,
    body: &Bound<'_, PyAny>,
    recurs: Asked,
    about: &Bound<'_, PyAny>,
) -> PyResult<Request> {
    let (py, subject, meta) = (subject.py(), text::of("subject", subject)?, meta::encoded(about)?);
    let body = message::body_of(body)?;
    Request::filled(py, RECUR, |out| request(&subject, &recurs, &meta, &body).put(out))
}

/// Asks a server to end a series.
#[pyfunction]
#[pyo3(signature = (subject, name, /))]
fn end_recurring_request(subject: &Bound<'_, PyAny>, name: &Bound<'_, PyAny>) -> PyResult<Request> {
    let (py, subject, name) = (name.py(), text::of("subject", subject)?, text::of("name", name)?);
    Request::filled(py, END_RECURRING, |out| SeriesName { subject: &subject, name: &name }.put(out))
}

/// Asks a server for a piece of the list of series.
#[pyfunction]
#[pyo3(signature = (subject, after = 0, /))]
fn recurring_request(subject: &Bound<'_, PyAny>, after: u64) -> PyResult<Request> {
    let py = subject.py();
    let named = if subject.is_none() { None } else { Some(text::of("subject", subject)?) };
    if named.as_deref() == Some("") {
        return Err(errors::refused(py, "subject", "a subject of the store", "''"));
    }
    let subject = named.as_deref().unwrap_or_default();
    Request::filled(py, RECURRING, |out| SeriesAsked { subject, after }.put(out))
}
