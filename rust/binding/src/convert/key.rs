//! Keys of deliveries across the boundary.

use std::convert::Infallible;

use pyo3::prelude::*;
use pyo3::types::PyInt;
use pyo3::{Borrowed, IntoPyObject};

/// The key of a delivery: an int of Python. Those of the first subject of a subscription fit into 64 bits, which are
/// converted faster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Key(pub(crate) u128);

impl<'py> IntoPyObject<'py> for Key {
    type Target = PyInt;
    type Output = Bound<'py, PyInt>;
    type Error = Infallible;

    fn into_pyobject(self, py: Python<'py>) -> Result<Self::Output, Self::Error> {
        match u64::try_from(self.0) {
            Ok(short) => short.into_pyobject(py),
            Err(_) => self.0.into_pyobject(py),
        }
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Key {
    type Error = PyErr;

    fn extract(key: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        match key.extract::<u64>() {
            Ok(short) => Ok(Self(u128::from(short))),
            Err(_) => key.extract().map(Self),
        }
    }
}
