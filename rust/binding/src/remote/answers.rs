//! Answers of a server, as plain Python values.

use delaymq_core::store::{ConsumerListed, GroupListed, SubjectListed};
use delaymq_core::wire::extension::administration::{Listed, read_number};
use delaymq_core::wire::extension::clock::ClockTold;
use delaymq_core::wire::extension::consume::PayloadForm;
use delaymq_core::wire::extension::dead_letters::{Letter, Letters};
use delaymq_core::wire::extension::errors::RemoteError;
use delaymq_core::wire::extension::forecast::ForecastTold;
use delaymq_core::wire::extension::key_fate::KeyFate;
use delaymq_core::wire::extension::load::LoadTold;
use delaymq_core::wire::extension::moves::read_moved;
use delaymq_core::wire::extension::pending::{CountsTold, FateTold, HiddenRow, PendingTold, read_fates};
use delaymq_core::wire::extension::publish::{Cancelled, read_outcomes, read_receipts};
use delaymq_core::wire::extension::recurring::SeriesTold;
use delaymq_core::wire::extension::status::StatusTold;
use delaymq_core::wire::extension::{
    ACCEPT_CLOCK, CANCEL, CANCEL_KEY, CANCEL_KEYS, CLOCK, CONSUMERS, DEAD_LETTERS, END_CONSUMER, END_RECURRING, EXPIRE,
    FORECAST, GROUPS, LOAD, LOOK_UP, LOOK_UP_KEY, MOVE, MOVE_KEY, MOVE_KEYS, PENDING, PENDING_COUNTS, PUBLISH,
    PUBLISH_ON_TERMS, RECUR, RECURRING, REDRIVE, STATUS, SUBJECTS,
};
use delaymq_core::wire::malformed::Read;
use delaymq_core::wire::reader::Reader;
use delaymq_engine::{Fate, LookedUpKey};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};

use crate::convert::qmq;
use crate::convert::receipt::Receipts;
use crate::embedded::key_commands::key_fate;
use crate::embedded::{forecast, moves, pending, recurring, status};
use crate::operate::administration::{consumer_fields, group_fields, subject_fields};
use crate::operate::clock::clock_fields;

/// A value, or the error to raise for it.
pub(crate) type Told<'py> = PyResult<Result<Bound<'py, PyAny>, RemoteError>>;

/// The value of an answer, or the error of one that cannot be read.
pub(crate) fn value<'py>(py: Python<'py>, command: i16, body: &[u8]) -> Told<'py> {
    match command {
        PUBLISH | PUBLISH_ON_TERMS => read(receipts(body), |receipts| any(Receipts::told(receipts).into_pyobject(py))),
        LOOK_UP_KEY => read(KeyFate::read(body), |told| any(key_fate(looked_up_key(told)).into_pyobject(py))),
        CANCEL | CANCEL_KEY | CANCEL_KEYS => {
            read(read_outcomes(body), |outcomes| any(PyTuple::new(py, outcomes.into_iter().map(word))))
        }
        MOVE | MOVE_KEY | MOVE_KEYS => read(read_moved(body), |moved| any(moves::told(py, moved.into_iter()))),
        CLOCK => read(ClockTold::read(body), |told| any(clock_fields(py, &told.0))),
        STATUS => read(StatusTold::read(body), |told| any(status::fields(py, &told))),
        GROUPS => read(Listed::<GroupListed>::read(body), |listed| {
            rows(py, listed.next, listed.rows.iter().map(|row| group_fields(py, row)))
        }),
        SUBJECTS => read(Listed::<SubjectListed>::read(body), |listed| {
            rows(py, listed.next, listed.rows.iter().map(|row| subject_fields(py, row)))
        }),
        DEAD_LETTERS => read(Letters::read(body), |told| {
            rows(py, told.next, told.letters.iter().map(|letter| letter_fields(py, letter)))
        }),
        CONSUMERS => read(Listed::<ConsumerListed>::read(body), |listed| {
            rows(py, listed.next, listed.rows.iter().map(|row| consumer_fields(py, row)))
        }),
        LOOK_UP => read(read_fates(body), |told| any(PyList::new(py, told.iter().map(fate_told)))),
        PENDING => read(PendingTold::read(body), |told| page_told(py, &told)),
        PENDING_COUNTS => read(CountsTold::read(body), |told| any((told.next, told.rows).into_pyobject(py))),
        FORECAST => read(ForecastTold::read(body), |told| {
            any((told.next.0, [forecast::piece(py, &told.forecast)]).into_pyobject(py))
        }),
        RECUR => read(SeriesTold::read(body), |told| any(told.rows.first().map(recurring::told).into_pyobject(py))),
        RECURRING => read(SeriesTold::read(body), |told| {
            any((told.next, told.rows.iter().map(recurring::told).collect::<Vec<_>>()).into_pyobject(py))
        }),
        LOAD => read(LoadTold::read(body), |told| any((told.first.0, told.count, told.again).into_pyobject(py))),
        REDRIVE | EXPIRE | END_CONSUMER | END_RECURRING | ACCEPT_CLOCK => {
            read(read_number(body), |number| any(number.into_pyobject(py)))
        }
        _ => Ok(Ok(py.None().into_bound(py))),
    }
}

fn read<'py, T>(read: Read<T>, make: impl FnOnce(T) -> PyResult<Bound<'py, PyAny>>) -> Told<'py> {
    match read {
        Ok(told) => make(told).map(Ok),
        Err(malformed) => Ok(Err(RemoteError::from(&malformed))),
    }
}

fn any<T, E: Into<PyErr>>(made: Result<Bound<'_, T>, E>) -> PyResult<Bound<'_, PyAny>> {
    made.map(Bound::into_any).map_err(Into::into)
}

fn rows<'py>(
    py: Python<'py>,
    next: u64,
    rows: impl Iterator<Item = PyResult<Bound<'py, PyDict>>>,
) -> PyResult<Bound<'py, PyAny>> {
    any((next, rows.collect::<PyResult<Vec<_>>>()?).into_pyobject(py))
}

fn receipts(body: &[u8]) -> Read<Vec<delaymq_core::store::Receipt>> {
    let mut reader = Reader::new(body);
    let receipts = read_receipts(&mut reader)?;
    reader.finish("receipts").map(|()| receipts)
}

const fn word(outcome: Cancelled) -> &'static str {
    match outcome {
        Cancelled::Done => "done",
        Cancelled::AlreadyDispatched => "already_dispatched",
        Cancelled::NotFound => "not_found",
    }
}

fn fate_told<'a>((fate, subject): &(FateTold, &'a str)) -> (&'static str, &'a str) {
    let fate = match fate {
        FateTold::Pending => Fate::Pending,
        FateTold::Dispatched => Fate::Dispatched,
        FateTold::Cancelled => Fate::Cancelled,
        FateTold::NotFound => Fate::NotFound,
    };
    (pending::fate_word(fate), *subject)
}

const fn looked_up_key(told: KeyFate) -> LookedUpKey {
    match told {
        KeyFate::Pending(receipt) => LookedUpKey::Pending(receipt),
        KeyFate::Dispatched(receipt) => LookedUpKey::Dispatched(receipt),
        KeyFate::NotFound => LookedUpKey::NotFound,
    }
}

/// A page, in the form of a listing of the embedded store.
fn page_told<'py>(py: Python<'py>, told: &PendingTold<'_>) -> PyResult<Bound<'py, PyAny>> {
    let rows = told.rows.iter().map(|row| (row.subject, row.receipt, row.attempt, row.published.0));
    let hidden = |one: &HiddenRow<'_>| (one.path.to_owned(), one.block, one.rows, one.reason.to_owned());
    let hidden = told.hidden.iter().map(hidden).collect::<Vec<_>>();
    any((pending::rows_of(py, rows)?, told.after, told.is_done, hidden).into_pyobject(py))
}

fn letter_fields<'py>(py: Python<'py>, letter: &Letter<'_>) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(py);
    let body = letter.payload.map_or_else(Vec::new, |payload| {
        let (meta, body) = payload.bytes.split_at_checked(payload.meta_length as usize).unwrap_or((&[], payload.bytes));
        qmq::parts_of(payload.form == PayloadForm::Opaque, meta, body).1.into_owned()
    });
    fields.set_item("number", letter.number.0)?;
    fields.set_item("sequence", letter.sequence.0)?;
    fields.set_item("died_ms", letter.died.0)?;
    fields.set_item("attempt", letter.attempt)?;
    fields.set_item("reason", letter.reason)?;
    fields.set_item("published_ms", letter.payload.map(|payload| payload.published.0))?;
    fields.set_item("body", PyBytes::new(py, &body))?;
    fields.set_item("damage", letter.damage)?;
    Ok(fields)
}
