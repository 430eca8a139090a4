//! The extension module `delaymq._core`: each function converts arguments, releases the interpreter, calls the engine,
//! and maps errors. It decides nothing. `python/delaymq/_core.pyi` describes it.

mod bench;
mod cluster;
mod convert;
mod embedded;
mod operate;
mod received;
mod remote;
mod tables;

use pyo3::exceptions::PyRuntimeWarning;
use pyo3::prelude::*;

#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<convert::receipt::Receipt>()?;
    module.add_class::<convert::receipt::Receipts>()?;
    module.add_class::<received::message::Received>()?;
    module.add_class::<received::faces::Message>()?;
    module.add_class::<received::faces::AsyncMessage>()?;
    module.add_function(wrap_pyfunction!(received::many::unsettled, module)?)?;
    module.add_class::<embedded::store::Store>()?;
    module.add_class::<embedded::subscription::Subscription>()?;
    module.add_class::<embedded::clock::Clock>()?;
    module.add_function(wrap_pyfunction!(embedded::testing::abandon, module)?)?;
    module.add_function(wrap_pyfunction!(embedded::testing::reopen, module)?)?;
    module.add_function(wrap_pyfunction!(embedded::testing::ready, module)?)?;
    module.add_class::<embedded::nonblocking::Unblocked>()?;
    module.add_class::<remote::server::Places>()?;
    module.add_class::<remote::server::Server>()?;
    module.add_class::<cluster::node::Node>()?;
    module.add_function(wrap_pyfunction!(cluster::node::create_group, module)?)?;
    module.add_function(wrap_pyfunction!(cluster::node::continue_group, module)?)?;
    module.add_function(wrap_pyfunction!(cluster::node::read_register, module)?)?;
    module.add_class::<embedded::nonblocking::Publishing>()?;
    module.add_class::<remote::connection::Connection>()?;
    module.add_class::<remote::subscription::RemoteSubscription>()?;
    module.add_class::<remote::requests::Request>()?;
    module.add_function(wrap_pyfunction!(convert::meta::decode_meta, module)?)?;
    module.add_function(wrap_pyfunction!(bench::measure, module)?)?;
    module.add_function(wrap_pyfunction!(operate::inspection::inspect, module)?)?;
    module.add_function(wrap_pyfunction!(operate::salvage::salvage, module)?)?;
    module.add_function(wrap_pyfunction!(operate::verification::verify, module)?)?;
    module.add_function(wrap_pyfunction!(operate::records::records, module)?)?;
    module.add_class::<tables::table_store::TableStore>()?;
    module.add_class::<tables::table_store::TableReader>()?;
    module.add_class::<tables::table_store::TableBatch>()?;
    module.add_function(wrap_pyfunction!(tables::table_store::table_store, module)?)?;
    module.add_function(wrap_pyfunction!(tables::table_store::read_table_ranges, module)?)?;
    module.add_function(wrap_pyfunction!(tables::table_store::table_columns, module)?)?;
    module.add("TABLES_VERSION", delaymq_tables::VERSION)?;
    module.add_class::<tables::loads::Stager>()?;
    module.add_function(wrap_pyfunction!(tables::loads::load, module)?)?;
    module.add_function(wrap_pyfunction!(tables::loads::load_request, module)?)?;
    module.add_function(wrap_pyfunction!(operate::rebuild::rebuild_plan, module)?)?;
    module.add_function(wrap_pyfunction!(operate::rebuild::rebuild_piece, module)?)?;
    module.add_function(wrap_pyfunction!(operate::rebuild::adopt_rebuilt, module)?)?;
    module.add_function(wrap_pyfunction!(operate::rebuild::refuse_open, module)?)?;
    operate::administration::add_to(module)?;
    operate::clock::add_to(module)?;
    operate::dead_letters::add_to(module)?;
    module.add_class::<embedded::pending::PendingReader>()?;
    embedded::pending::add_to(module)?;
    embedded::forecast::add_to(module)?;
    embedded::moves::add_to(module)?;
    embedded::by_key::add_to(module)?;
    embedded::key_commands::add_to(module)?;
    embedded::recurring::add_to(module)?;
    warn_of_debug_build(module.py())
}

/// A build without optimisation is many times slower; the warning keeps it from being measured or released. `make test` runs one on
/// purpose, and says so.
fn warn_of_debug_build(py: Python<'_>) -> PyResult<()> {
    if !cfg!(debug_assertions) || std::env::var_os("TEST_BUILD_OF_DELAYMQ").is_some() {
        return Ok(());
    }
    let category = py.get_type::<PyRuntimeWarning>();
    PyErr::warn(py, &category, c"delaymq was built without optimisation; do not measure or ship this build", 1)
}
