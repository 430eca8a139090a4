//! Python's door to delaymq: convert, detach, call, map errors. Nothing is decided here; the
//! boundary's manual is `python/delaymq/_core.pyi`.

mod administration;
mod answers;
mod bench;
mod by_key;
mod caller;
mod clock;
mod consuming;
mod dead_letters;
mod errors;
mod forecast;
mod importing;
mod inspection;
mod loading;
mod message;
mod meta;
mod moving;
mod options;
mod pending;
mod publishing;
mod qmq;
mod rebuilding;
mod receipt;
mod records;
mod recurring;
mod requests;
mod salvage;
mod server;
mod status;
mod store;
mod subscription;
mod tables;
mod terms;
mod testing;
mod unblocked;
mod verification;
mod waits;

use pyo3::exceptions::PyRuntimeWarning;
use pyo3::prelude::*;

#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<receipt::Receipt>()?;
    module.add_class::<receipt::Receipts>()?;
    module.add_class::<store::Store>()?;
    module.add_class::<subscription::Subscription>()?;
    module.add_class::<clock::Clock>()?;
    module.add_function(wrap_pyfunction!(testing::abandon, module)?)?;
    module.add_function(wrap_pyfunction!(testing::reopen, module)?)?;
    module.add_function(wrap_pyfunction!(testing::ready, module)?)?;
    module.add_class::<unblocked::Unblocked>()?;
    module.add_class::<server::Places>()?;
    module.add_class::<server::Server>()?;
    module.add_class::<unblocked::Publishing>()?;
    module.add_class::<caller::Caller>()?;
    module.add_class::<requests::Request>()?;
    module.add_function(wrap_pyfunction!(receipt::receipt_of, module)?)?;
    module.add_function(wrap_pyfunction!(meta::decode_meta, module)?)?;
    module.add_function(wrap_pyfunction!(bench::measure, module)?)?;
    module.add_function(wrap_pyfunction!(inspection::inspect, module)?)?;
    module.add_function(wrap_pyfunction!(salvage::salvage, module)?)?;
    module.add_function(wrap_pyfunction!(verification::verify, module)?)?;
    module.add_function(wrap_pyfunction!(records::records, module)?)?;
    module.add_class::<tables::TableStore>()?;
    module.add_class::<tables::TableReader>()?;
    module.add_class::<tables::TableBatch>()?;
    module.add_function(wrap_pyfunction!(tables::table_store, module)?)?;
    module.add_function(wrap_pyfunction!(tables::read_table_ranges, module)?)?;
    module.add_function(wrap_pyfunction!(tables::table_columns, module)?)?;
    module.add_class::<loading::Stager>()?;
    module.add_function(wrap_pyfunction!(loading::load, module)?)?;
    module.add_function(wrap_pyfunction!(loading::load_request, module)?)?;
    module.add_function(wrap_pyfunction!(rebuilding::rebuild_plan, module)?)?;
    module.add_function(wrap_pyfunction!(rebuilding::rebuild_piece, module)?)?;
    module.add_function(wrap_pyfunction!(rebuilding::adopt_rebuilt, module)?)?;
    module.add_function(wrap_pyfunction!(rebuilding::refuse_open, module)?)?;
    module.add_function(wrap_pyfunction!(administration::groups, module)?)?;
    module.add_function(wrap_pyfunction!(administration::subjects, module)?)?;
    module.add_function(wrap_pyfunction!(administration::start_group, module)?)?;
    module.add_function(wrap_pyfunction!(administration::reset_group, module)?)?;
    module.add_function(wrap_pyfunction!(administration::remove_group, module)?)?;
    module.add_function(wrap_pyfunction!(administration::expire, module)?)?;
    module.add_function(wrap_pyfunction!(administration::consumers, module)?)?;
    module.add_function(wrap_pyfunction!(administration::end_consumer, module)?)?;
    module.add_function(wrap_pyfunction!(administration::check_subject, module)?)?;
    module.add_class::<pending::PendingReader>()?;
    module.add_function(wrap_pyfunction!(pending::pending, module)?)?;
    module.add_function(wrap_pyfunction!(pending::pending_counts, module)?)?;
    module.add_function(wrap_pyfunction!(forecast::forecast, module)?)?;
    module.add_function(wrap_pyfunction!(pending::look_up_many, module)?)?;
    module.add_function(wrap_pyfunction!(pending::cursor_behind, module)?)?;
    module.add_function(wrap_pyfunction!(terms::cancel_key, module)?)?;
    module.add_function(wrap_pyfunction!(terms::move_key, module)?)?;
    module.add_function(wrap_pyfunction!(terms::look_up_key, module)?)?;
    by_key::add_to(module)?;
    module.add_function(wrap_pyfunction!(terms::cancel_key_request, module)?)?;
    module.add_function(wrap_pyfunction!(terms::move_key_request, module)?)?;
    module.add_function(wrap_pyfunction!(terms::look_up_key_request, module)?)?;
    module.add_function(wrap_pyfunction!(recurring::recur, module)?)?;
    module.add_function(wrap_pyfunction!(recurring::end_recurring, module)?)?;
    module.add_function(wrap_pyfunction!(recurring::recurring, module)?)?;
    module.add_function(wrap_pyfunction!(recurring::recur_request, module)?)?;
    module.add_function(wrap_pyfunction!(recurring::end_recurring_request, module)?)?;
    module.add_function(wrap_pyfunction!(recurring::recurring_request, module)?)?;
    module.add_function(wrap_pyfunction!(dead_letters::dead_letters, module)?)?;
    module.add_function(wrap_pyfunction!(dead_letters::redrive, module)?)?;
    warn_of_debug_build(module.py())
}

/// A build without optimisation is many times slower; nobody should measure or ship it unawares.
fn warn_of_debug_build(py: Python<'_>) -> PyResult<()> {
    if !cfg!(debug_assertions) {
        return Ok(());
    }
    let category = py.get_type::<PyRuntimeWarning>();
    PyErr::warn(py, &category, c"delaymq was built without optimisation; do not measure or ship this build", 1)
}
