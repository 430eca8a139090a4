//! Options of opening and subscribing, and the progress callback.

use std::collections::BTreeMap;

use delaymq_core::queues::tags::{AttributeRule, Filter, TagRule};
use delaymq_core::store::Selection;
use delaymq_core::units::Millis;
use delaymq_engine::{Durability, Options, RecoveryProgress, Since, StartAt, SubscribeOptions};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt, PyMapping};

use crate::convert::receipt::Receipt;
use crate::convert::{errors, text};
use crate::embedded::clock;

/// The engine's options from keyword arguments; an unknown key is refused.
pub(crate) fn from_python(py: Python<'_>, chosen: Option<&Bound<'_, PyDict>>) -> PyResult<Options> {
    let mut options = Options::default();
    let Some(chosen) = chosen else { return Ok(options) };
    for (key, value) in chosen {
        let key: String = key.extract()?;
        match key.as_str() {
            "durability" => options.durability = durability(&value)?,
            "create" => options.create = value.is_truthy()?,
            "segment_bytes" => options.segment_bytes = whole("segment_bytes", &value)?,
            "delay_ms_max" => options.delay_ms_max = whole("delay_max", &value)?,
            "hot_minute_messages" => options.owner.hot_minute_messages = whole("hot_minute_messages", &value)?,
            "keep_finished_ms" => options.owner.keep_finished_ms = whole("keep_finished", &value)?,
            "keep_finished_of_ms" => options.keep_finished_of = times("keep_finished_of", &value)?,
            "warn_free_bytes" => options.marks.warn_bytes = whole("warn_free_bytes", &value)?,
            "refuse_free_bytes" => options.marks.refuse_bytes = whole("refuse_free_bytes", &value)?,
            "checkpoint_bytes" => options.owner.checkpoint_bytes = whole("checkpoint_bytes", &value)?,
            "checkpoint_facts" => options.owner.checkpoint_facts = whole("checkpoint_facts", &value)?,
            "copy_after_ms" => options.owner.copy_after_ms = whole("copy_after", &value)?,
            "keys_max" => options.terms.keys_max = whole("keys_max", &value)?,
            "ids_max" => options.terms.ids_max = whole("message_ids_max", &value)?,
            "id_window_ms" => options.terms.id_window_ms = whole("deduplicate_for", &value)?,
            "zone_folders" => options.zone_folders = value.extract()?,
            "clock_accept_after_ms" if value.is_none() => options.clock_accept_after_ms = None,
            "clock_accept_after_ms" => options.clock_accept_after_ms = Some(whole("clock_accept_after", &value)?),
            "clock" => options.clock = clock::chosen(&value)?,
            "window_ms" => options.owner.window_ms = whole("window", &value)?,
            "window_bytes" => {
                let bytes = whole("window_bytes", &value)?;
                options.owner.set_window_bytes(bytes).map_err(|error| errors::raised(py, error))?;
            }
            _ => return Err(errors::refused(py, &key, "an option", "an unknown name")),
        }
    }
    Ok(options)
}

fn durability(value: &Bound<'_, PyAny>) -> PyResult<Durability> {
    match text::of("durability", value)?.as_ref() {
        "disk" => Ok(Durability::Disk),
        "os" => Ok(Durability::Os),
        other => Err(errors::refused(value.py(), "durability", "\"disk\" or \"os\"", &format!("{other:?}"))),
    }
}

/// A whole number of the option's width.
fn whole<T: TryFrom<u64>>(argument: &str, value: &Bound<'_, PyAny>) -> PyResult<T> {
    if !value.is_exact_instance_of::<PyInt>() {
        return Err(errors::wrong_type(argument, "int", value));
    }
    let fitting = value.extract::<u64>().ok().and_then(|number| T::try_from(number).ok());
    fitting.ok_or_else(|| errors::refused(value.py(), argument, "a whole number in range", &value.to_string()))
}

/// Milliseconds by subject.
pub(crate) fn times(argument: &str, value: &Bound<'_, PyAny>) -> PyResult<BTreeMap<String, u64>> {
    let mapping = value.cast::<PyMapping>().map_err(|_| errors::wrong_type(argument, "a mapping", value))?;
    let mut times = BTreeMap::new();
    for item in mapping.items()?.iter() {
        let (subject, keep_ms): (Bound<'_, PyAny>, Bound<'_, PyAny>) = item.extract()?;
        times.insert(text::of(argument, &subject)?.into_owned(), whole(argument, &keep_ms)?);
    }
    Ok(times)
}

/// Filters of a subscription: tags with whether all of them are wanted, and attributes with a rule of
/// `delaymq._arguments.filters` and a value.
pub(crate) type FilterTuple = (Vec<String>, bool, Vec<(String, u8, Vec<u8>)>);

/// The subjects of a subscription.
pub(crate) fn selection(py: Python<'_>, subjects: &[Bound<'_, PyAny>]) -> PyResult<Selection> {
    let texts = subjects.iter().map(|subject| text::of("subject", subject)).collect::<PyResult<Vec<_>>>()?;
    Selection::of(&texts).map_err(|error| errors::raised(py, error))
}

/// The options of a subscription.
pub(crate) fn subscription(
    start: &Bound<'_, PyAny>,
    in_flight_max: &Bound<'_, PyAny>,
    filters: FilterTuple,
    handle_within_ms: Option<u64>,
) -> PyResult<SubscribeOptions> {
    let start_of_group = group_start(start)?;
    let in_flight_max = whole("in_flight_max", in_flight_max)?;
    let (tags, is_all, attributes) = filters;
    let mut chosen = Vec::new();
    if !tags.is_empty() {
        chosen.push(Filter::Tags { rule: if is_all { TagRule::All } else { TagRule::Any }, tags });
    }
    for (key, number, value) in attributes {
        let Some(rule) = AttributeRule::of_number(number, value) else {
            return Err(errors::refused(start.py(), "attributes", "a rule from 0 to 2", &number.to_string()));
        };
        chosen.push(Filter::Attribute { key, rule });
    }
    Ok(SubscribeOptions { start: start_of_group, in_flight_max, filters: chosen, handle_within_ms })
}

/// The start of a group: a word, a receipt, or a pair of a kind and milliseconds, as `delaymq.starts.start_of` makes it.
pub(crate) fn group_start(start: &Bound<'_, PyAny>) -> PyResult<StartAt> {
    if let Ok(receipt) = start.cast::<Receipt>() {
        return Ok(StartAt::Message(receipt.get().0));
    }
    if let Ok((kind, ms)) = start.extract::<(String, u64)>() {
        return match kind.as_str() {
            "due_at" => Ok(StartAt::Due(Since::At(Millis(ms)))),
            "due_ago" => Ok(StartAt::Due(Since::Ago(ms))),
            "published_at" => Ok(StartAt::Published(Since::At(Millis(ms)))),
            "published_ago" => Ok(StartAt::Published(Since::Ago(ms))),
            other => Err(errors::refused(start.py(), "start", "a known kind of time", other)),
        };
    }
    match text::of("start", start)?.as_ref() {
        "earliest" => Ok(StartAt::Earliest),
        "unfinished" => Ok(StartAt::Unfinished),
        "latest" => Ok(StartAt::Latest),
        other => {
            let found = format!("{other:?}");
            Err(errors::refused(start.py(), "start", "\"earliest\", \"unfinished\" or \"latest\"", &found))
        }
    }
}

/// Calls Python's progress callback, and keeps the first exception that it raises.
pub(crate) struct Telling {
    callback: Option<Py<PyAny>>,
    raised: Option<PyErr>,
}

impl Telling {
    pub(crate) const fn new(callback: Option<Py<PyAny>>) -> Self {
        Self { callback, raised: None }
    }

    pub(crate) fn tell(&mut self, progress: RecoveryProgress) {
        let Some(callback) = &self.callback else { return };
        let told =
            Python::attach(|py| callback.call1(py, (progress.facts, progress.bytes, progress.bytes_whole)).map(drop));
        if let Err(error) = told {
            self.raised = Some(error);
            self.callback = None;
        }
    }

    /// The exception that the callback raised, if it did.
    pub(crate) fn outcome(self) -> PyResult<()> {
        self.raised.map_or(Ok(()), Err)
    }
}
