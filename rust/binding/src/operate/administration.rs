//! Status, groups, subjects and expiry, for operators in Python.

use delaymq_core::wire::extension::administration::{Expire, GroupAt, GroupName, Listed, Listing};
use delaymq_core::wire::extension::consumers::Consumers;
use delaymq_core::wire::extension::status::StatusTold;
use delaymq_core::wire::extension::{
    CONSUMERS, END_CONSUMER, EXPIRE, GROUPS, REMOVE_GROUP, RESET_GROUP, START_GROUP, STATUS, SUBJECTS,
};
use delaymq_core::wire::qmq::pull::ConsumerName;
use delaymq_engine::{ConsumerId, ConsumerListed, GroupListed, RetryRule, SubjectListed};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::convert::{errors, text};
use crate::embedded::store::Store;
use crate::embedded::{options, status};
use crate::remote::reading::{Reader, any, number, read, rows};
use crate::remote::requests::{LISTING, Request};

/// Adds the functions of this file to the module.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(status_request, module)?)?;
    module.add_function(wrap_pyfunction!(groups_request, module)?)?;
    module.add_function(wrap_pyfunction!(subjects_request, module)?)?;
    module.add_function(wrap_pyfunction!(start_group_request, module)?)?;
    module.add_function(wrap_pyfunction!(reset_group_request, module)?)?;
    module.add_function(wrap_pyfunction!(remove_group_request, module)?)?;
    module.add_function(wrap_pyfunction!(expire_request, module)?)?;
    module.add_function(wrap_pyfunction!(consumers_request, module)?)?;
    module.add_function(wrap_pyfunction!(end_consumer_request, module)?)?;
    module.add_function(wrap_pyfunction!(read_status, module)?)?;
    module.add_function(wrap_pyfunction!(groups, module)?)?;
    module.add_function(wrap_pyfunction!(subjects, module)?)?;
    module.add_function(wrap_pyfunction!(start_group, module)?)?;
    module.add_function(wrap_pyfunction!(reset_group, module)?)?;
    module.add_function(wrap_pyfunction!(remove_group, module)?)?;
    module.add_function(wrap_pyfunction!(expire, module)?)?;
    module.add_function(wrap_pyfunction!(consumers, module)?)?;
    module.add_function(wrap_pyfunction!(end_consumer, module)?)?;
    module.add_function(wrap_pyfunction!(check_subject, module)?)
}

/// The answers to the requests of this file.
pub(crate) const ANSWERS: &[(i16, Reader)] = &[
    (STATUS, |py, body| read(StatusTold::read(body), |told| any(status::fields(py, &told)))),
    (GROUPS, |py, body| {
        read(Listed::<GroupListed>::read(body), |listed| {
            rows(py, listed.next, listed.rows.iter().map(|row| group_fields(py, row)))
        })
    }),
    (SUBJECTS, |py, body| {
        read(Listed::<SubjectListed>::read(body), |listed| {
            rows(py, listed.next, listed.rows.iter().map(|row| subject_fields(py, row)))
        })
    }),
    (CONSUMERS, |py, body| {
        read(Listed::<ConsumerListed>::read(body), |listed| {
            rows(py, listed.next, listed.rows.iter().map(|row| consumer_fields(py, row)))
        })
    }),
    (EXPIRE, number),
    (END_CONSUMER, number),
];

/// Fields of `delaymq.Status`; also when the store is closed.
#[pyfunction]
#[pyo3(name = "status", signature = (store, /))]
fn read_status<'py>(py: Python<'py>, store: &Store) -> PyResult<Bound<'py, PyDict>> {
    let status = py.detach(|| store.engine.status()).map_err(|error| errors::raised(py, error))?;
    status::fields(py, &delaymq_server::status_told(status))
}

/// Fields of `delaymq.Group` for each group.
#[pyfunction]
fn groups<'py>(py: Python<'py>, store: &Bound<'py, Store>) -> PyResult<Bound<'py, PyList>> {
    let engine = &store.get().engine;
    let groups = py.detach(|| engine.groups()).map_err(|error| errors::raised(py, error))?;
    let rows = groups.iter().map(|group| group_fields(py, group)).collect::<PyResult<Vec<_>>>()?;
    PyList::new(py, rows)
}

pub(crate) fn group_fields<'py>(py: Python<'py>, group: &GroupListed) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(py);
    fields.set_item("name", &group.name)?;
    fields.set_item("subject", &group.subject)?;
    fields.set_item("start", group.start.0)?;
    fields.set_item("cursor", group.cursor.0)?;
    fields.set_item("next_number", group.next_number.0)?;
    fields.set_item("lag", group.lag)?;
    fields.set_item("in_flight", group.in_flight)?;
    fields.set_item("consumers", group.consumers)?;
    fields.set_item("dead_letters", group.dead_letters)?;
    Ok(fields)
}

/// Fields of `delaymq.Consumer` for each consumer of a group.
#[pyfunction]
#[pyo3(signature = (store, subject, group, /))]
fn consumers<'py>(
    store: &Bound<'py, Store>,
    subject: &Bound<'py, PyAny>,
    group: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyList>> {
    let (py, engine) = (subject.py(), &store.get().engine);
    let (subject, group) = (text::of("subject", subject)?, text::of("group", group)?);
    let consumers = py.detach(|| engine.consumers(&subject, &group)).map_err(|error| errors::raised(py, error))?;
    let rows = consumers.iter().map(|consumer| consumer_fields(py, consumer)).collect::<PyResult<Vec<_>>>()?;
    PyList::new(py, rows)
}

pub(crate) fn consumer_fields<'py>(py: Python<'py>, consumer: &ConsumerListed) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(py);
    fields.set_item("name", &consumer.name)?;
    fields.set_item("subject", &consumer.subject)?;
    fields.set_item("in_flight", consumer.in_flight)?;
    fields.set_item("is_lasting", consumer.is_lasting)?;
    fields.set_item("is_broadcast", consumer.is_broadcast)?;
    Ok(fields)
}

#[pyfunction]
#[pyo3(signature = (store, subject, group, consumer, /))]
fn end_consumer(
    store: &Bound<'_, Store>,
    subject: &Bound<'_, PyAny>,
    group: &Bound<'_, PyAny>,
    consumer: &Bound<'_, PyAny>,
) -> PyResult<u64> {
    let (py, engine) = (subject.py(), &store.get().engine);
    let (subject, group) = (text::of("subject", subject)?, text::of("group", group)?);
    let consumer = text::of("consumer", consumer)?;
    let id = ConsumerId { subject: &subject, group: &group, consumer: &consumer };
    py.detach(|| engine.end_consumer(id, RetryRule::default())).map_err(|error| errors::raised(py, error))
}

/// Fields of `delaymq.Subject` for each subject.
#[pyfunction]
fn subjects<'py>(py: Python<'py>, store: &Bound<'py, Store>) -> PyResult<Bound<'py, PyList>> {
    let engine = &store.get().engine;
    let subjects = py.detach(|| engine.subjects()).map_err(|error| errors::raised(py, error))?;
    let rows = subjects.iter().map(|subject| subject_fields(py, subject)).collect::<PyResult<Vec<_>>>()?;
    PyList::new(py, rows)
}

pub(crate) fn subject_fields<'py>(py: Python<'py>, subject: &SubjectListed) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(py);
    fields.set_item("name", &subject.name)?;
    fields.set_item("ready", subject.ready)?;
    fields.set_item("next_number", subject.next_number.0)?;
    fields.set_item("groups", PyTuple::new(py, &subject.groups)?)?;
    fields.set_item("expired", subject.expired)?;
    fields.set_item("expired_before_ms", (subject.expired_before.0 > 0).then_some(subject.expired_before.0))?;
    Ok(fields)
}

#[pyfunction]
#[pyo3(signature = (store, subject, group, start, /))]
fn start_group(
    store: &Bound<'_, Store>,
    subject: &Bound<'_, PyAny>,
    group: &Bound<'_, PyAny>,
    start: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let (py, engine) = (subject.py(), &store.get().engine);
    let (subject, group) = (text::of("subject", subject)?, text::of("group", group)?);
    let start = options::group_start(start)?;
    py.detach(|| engine.start_group(&subject, &group, start)).map_err(|error| errors::raised(py, error))
}

#[pyfunction]
#[pyo3(signature = (store, subject, group, start, /))]
fn reset_group(
    store: &Bound<'_, Store>,
    subject: &Bound<'_, PyAny>,
    group: &Bound<'_, PyAny>,
    start: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let (py, engine) = (subject.py(), &store.get().engine);
    let (subject, group) = (text::of("subject", subject)?, text::of("group", group)?);
    let start = options::group_start(start)?;
    py.detach(|| engine.reset_group(&subject, &group, start)).map_err(|error| errors::raised(py, error))
}

#[pyfunction]
#[pyo3(signature = (store, subject, group, /))]
fn remove_group(store: &Bound<'_, Store>, subject: &Bound<'_, PyAny>, group: &Bound<'_, PyAny>) -> PyResult<()> {
    let (py, engine) = (subject.py(), &store.get().engine);
    let (subject, group) = (text::of("subject", subject)?, text::of("group", group)?);
    py.detach(|| engine.remove_group(&subject, &group)).map_err(|error| errors::raised(py, error))
}

#[pyfunction]
#[pyo3(signature = (store, subject, older_than_ms, /))]
fn expire(store: &Bound<'_, Store>, subject: &Bound<'_, PyAny>, older_than_ms: u64) -> PyResult<u64> {
    let (py, engine) = (subject.py(), &store.get().engine);
    let subject = text::of("subject", subject)?;
    py.detach(|| engine.expire(&subject, older_than_ms)).map_err(|error| errors::raised(py, error))
}

/// Refuses a name that no subject can have.
#[pyfunction]
#[pyo3(signature = (name, /))]
fn check_subject(name: &Bound<'_, PyAny>) -> PyResult<()> {
    let text = text::of("subject", name)?;
    delaymq_engine::check_name("subject", &text).map_err(|error| errors::raised(name.py(), error))
}

#[pyfunction]
fn status_request(py: Python<'_>) -> PyResult<Request> {
    Request::filled(py, STATUS, |_| Ok(()))
}

#[pyfunction]
#[pyo3(signature = (after = 0, /))]
fn groups_request(py: Python<'_>, after: u64) -> PyResult<Request> {
    Request::filled(py, GROUPS, |out| {
        Listing { after, count_max: LISTING }.put(out);
        Ok(())
    })
}

#[pyfunction]
#[pyo3(signature = (after = 0, /))]
fn subjects_request(py: Python<'_>, after: u64) -> PyResult<Request> {
    Request::filled(py, SUBJECTS, |out| {
        Listing { after, count_max: LISTING }.put(out);
        Ok(())
    })
}

#[pyfunction]
#[pyo3(signature = (subject, group, start, /))]
fn start_group_request(
    subject: &Bound<'_, PyAny>,
    group: &Bound<'_, PyAny>,
    start: &Bound<'_, PyAny>,
) -> PyResult<Request> {
    of_group_at(START_GROUP, subject, group, start)
}

#[pyfunction]
#[pyo3(signature = (subject, group, start, /))]
fn reset_group_request(
    subject: &Bound<'_, PyAny>,
    group: &Bound<'_, PyAny>,
    start: &Bound<'_, PyAny>,
) -> PyResult<Request> {
    of_group_at(RESET_GROUP, subject, group, start)
}

#[pyfunction]
#[pyo3(signature = (subject, group, /))]
fn remove_group_request(subject: &Bound<'_, PyAny>, group: &Bound<'_, PyAny>) -> PyResult<Request> {
    let (subject_text, group_text) = (text::of("subject", subject)?, text::of("group", group)?);
    let name = GroupName { subject: &subject_text, group: &group_text };
    Request::filled(subject.py(), REMOVE_GROUP, |out| name.put(out))
}

#[pyfunction]
#[pyo3(signature = (subject, older_than_ms, /))]
fn expire_request(subject: &Bound<'_, PyAny>, older_than_ms: u64) -> PyResult<Request> {
    let text = text::of("subject", subject)?;
    Request::filled(subject.py(), EXPIRE, |out| Expire { subject: &text, older_than_ms }.put(out))
}

#[pyfunction]
#[pyo3(signature = (subject, group, after = 0, /))]
fn consumers_request(subject: &Bound<'_, PyAny>, group: &Bound<'_, PyAny>, after: u64) -> PyResult<Request> {
    let (subject_text, group_text) = (text::of("subject", subject)?, text::of("group", group)?);
    let name = GroupName { subject: &subject_text, group: &group_text };
    let listing = Listing { after, count_max: LISTING };
    Request::filled(subject.py(), CONSUMERS, |out| Consumers { name, listing }.put(out))
}

#[pyfunction]
#[pyo3(signature = (subject, group, consumer, /))]
fn end_consumer_request(
    subject: &Bound<'_, PyAny>,
    group: &Bound<'_, PyAny>,
    consumer: &Bound<'_, PyAny>,
) -> PyResult<Request> {
    let (subject_text, group_text) = (text::of("subject", subject)?, text::of("group", group)?);
    let consumer_text = text::of("consumer", consumer)?;
    let name = ConsumerName { subject: &subject_text, group: &group_text, consumer: &consumer_text };
    Request::filled(subject.py(), END_CONSUMER, |out| name.put(out))
}

fn of_group_at(
    command: i16,
    subject: &Bound<'_, PyAny>,
    group: &Bound<'_, PyAny>,
    start: &Bound<'_, PyAny>,
) -> PyResult<Request> {
    let start = options::group_start(start)?;
    let (subject_text, group_text) = (text::of("subject", subject)?, text::of("group", group)?);
    let name = GroupName { subject: &subject_text, group: &group_text };
    Request::filled(subject.py(), command, |out| GroupAt { name, start }.put(out))
}
