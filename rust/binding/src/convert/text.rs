//! Arguments that must be a str.

use std::borrow::Cow;

use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::convert::errors;

/// The text of an argument that must be a str.
pub(crate) fn of<'a>(argument: &str, value: &'a Bound<'_, PyAny>) -> PyResult<Cow<'a, str>> {
    let string = value.cast::<PyString>().map_err(|_| errors::wrong_type(argument, "str", value))?;
    string.to_cow().map_err(|_| errors::refused(value.py(), argument, "text that UTF-8 can hold", "a lone surrogate"))
}
