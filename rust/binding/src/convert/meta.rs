//! Message id, tags and attributes across the boundary.

use delaymq_core::record::limits::{ATTRIBUTES_MAX, TAGS_MAX, check_attributes, check_message_id, check_tag};
use delaymq_core::record::message::{Meta, decode_meta as decoded, encode_meta};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyMapping, PySequence, PyString, PyTuple};

use crate::convert::{errors, text};

/// The bytes of meta from `None` or a tuple of message id, tags and attributes.
pub(crate) fn encoded(meta: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    if meta.is_none() {
        return Ok(Vec::new());
    }
    let (message_id, tags, attributes): (Bound<'_, PyAny>, Bound<'_, PyAny>, Bound<'_, PyAny>) = meta.extract()?;
    encoded_parts(&message_id, &tags, &attributes)
}

/// The bytes of meta from a message id or `None`, tags, and attributes or `None`.
pub(crate) fn encoded_parts(
    message_id: &Bound<'_, PyAny>,
    tags: &Bound<'_, PyAny>,
    attributes: &Bound<'_, PyAny>,
) -> PyResult<Vec<u8>> {
    let py = tags.py();
    let message_id = if message_id.is_none() { String::new() } else { chosen_id(message_id)? };
    let meta = Meta { message_id, tags: tags_of(tags)?, attributes: attributes_of(attributes)? };
    if meta == Meta::default() {
        return Ok(Vec::new());
    }
    encode_meta(&meta).ok_or_else(|| errors::refused(py, "attributes", "what the format can hold", "more"))
}

/// A message id; a given id is never empty.
fn chosen_id(value: &Bound<'_, PyAny>) -> PyResult<String> {
    let message_id = text::of("message_id", value)?;
    check_message_id(&message_id).map_err(|error| errors::raised(value.py(), error))?;
    Ok(message_id.into_owned())
}

fn tag_of(value: &Bound<'_, PyAny>) -> PyResult<String> {
    let tag = text::of("tags", value)?;
    check_tag(&tag).map_err(|error| errors::raised(value.py(), error))?;
    Ok(tag.into_owned())
}

fn tags_of(tags: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    const EXPECTED: &str = "a tuple or list of str";
    if tags.is_instance_of::<PyString>() || tags.is_instance_of::<PyBytes>() {
        let hint = "put a single tag into a tuple: tags=(\"one\",)";
        return Err(errors::wrong_type_advising("tags", EXPECTED, tags, hint));
    }
    let sequence = tags.cast::<PySequence>().map_err(|_| errors::wrong_type("tags", EXPECTED, tags))?;
    let count = sequence.len()?;
    if count > TAGS_MAX {
        return Err(errors::refused(tags.py(), "tags", &format!("at most {TAGS_MAX}"), &count.to_string()));
    }
    sequence.try_iter()?.map(|tag| tag_of(&tag?)).collect()
}

fn attributes_of(attributes: &Bound<'_, PyAny>) -> PyResult<Vec<(String, Vec<u8>)>> {
    if attributes.is_none() {
        return Ok(Vec::new());
    }
    let wrong = |_| errors::wrong_type("attributes", "a mapping of str to str", attributes);
    let mapping = attributes.cast::<PyMapping>().map_err(wrong)?;
    let count = mapping.len()?;
    if count > ATTRIBUTES_MAX {
        let expected = format!("at most {ATTRIBUTES_MAX}");
        return Err(errors::refused(attributes.py(), "attributes", &expected, &count.to_string()));
    }
    let mut pairs = Vec::with_capacity(count);
    for item in mapping.items()? {
        let (key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = item.extract()?;
        let value = text::of("attributes", &value)?.as_bytes().to_vec();
        pairs.push((text::of("attributes", &key)?.into_owned(), value));
    }
    check_attributes(pairs.iter().map(|(key, value)| (key.as_str(), value.as_slice())))
        .map_err(|error| errors::raised(attributes.py(), error))?;
    Ok(pairs)
}

/// Message id, tags and attributes from the bytes of meta; an empty id if the producer gave none.
#[pyfunction]
#[pyo3(signature = (meta, /))]
pub(crate) fn decode_meta<'py>(meta: &Bound<'py, PyBytes>) -> PyResult<Bound<'py, PyTuple>> {
    decoded_parts(meta.py(), meta.as_bytes())?.into_pyobject(meta.py())
}

/// Message id, tags and attributes of Python.
type Parts<'py> = (Bound<'py, PyString>, Bound<'py, PyTuple>, Bound<'py, PyDict>);

/// As [`decode_meta`].
pub(crate) fn decoded_parts<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Parts<'py>> {
    let read = if bytes.is_empty() { Some(Meta::default()) } else { decoded(bytes) };
    let read = read.ok_or_else(|| errors::refused(py, "meta", "message id, tags and attributes", "other bytes"))?;
    let attributes = PyDict::new(py);
    for (key, value) in read.attributes {
        // Attributes of other programs may be any bytes; surrogates keep bytes that are no text.
        let value = PyBytes::new(py, &value).call_method1("decode", ("utf-8", "surrogateescape"))?;
        attributes.set_item(key, value)?;
    }
    Ok((PyString::new(py, &read.message_id), PyTuple::new(py, read.tags)?, attributes))
}
