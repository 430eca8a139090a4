//! What `delaymq bench` measures in Rust: each row of the product, and beside it its limit, the same
//! system calls and bytes with no logic. Python chooses the order, the runs and the cases, and calls
//! [`measure`] for each; nothing here prints.

mod append;
mod backlog;
mod burst;
mod case;
mod changes;
mod client;
mod commit;
mod consuming;
mod filters;
mod forecast;
mod frames;
mod hostile;
mod hour;
mod lateness;
mod listing;
mod memory;
mod producing;
mod restart;
mod room;
mod served_lateness;
mod standing;
mod subjects;
mod together;
mod wheel;

/// One file a limit, at most 60 lines each.
#[path = "../limits"]
mod limits {
    pub(crate) mod append;
    pub(crate) mod backlog;
    pub(crate) mod burst;
    pub(crate) mod commit;
    pub(crate) mod consumer;
    pub(crate) mod filters;
    pub(crate) mod forecast;
    pub(crate) mod group;
    pub(crate) mod heap;
    pub(crate) mod listing;
    pub(crate) mod memory;
    pub(crate) mod prepared;
    pub(crate) mod producer;
    pub(crate) mod read;
    pub(crate) mod relay;
    pub(crate) mod room;
    pub(crate) mod subjects;
    pub(crate) mod tick;
}

pub use case::{Case, Failure, Figures};

/// Runs one measurement by name.
///
/// # Errors
/// `Failure` where the store or the system refuses, where a parameter is missing, and where the name
/// is not known.
pub fn measure(name: &str, case: &Case) -> Result<Figures, Failure> {
    match name {
        "append" => append::run(case),
        "append_limit" => limits::append::run(case),
        "backlog" => backlog::drain(case),
        "backlog_fill" => backlog::fill(case),
        "backlog_limit" => limits::backlog::run(case),
        "burst" => burst::run(case),
        "burst_limit" => limits::burst::run(case),
        "changes" => changes::run(case),
        "commit" => commit::run(case),
        "commit_limit" => limits::commit::run(case),
        "consuming" => consuming::run(case),
        "consuming_limit" => limits::consumer::run(case),
        "filters" => filters::run(case),
        "filters_limit" => limits::filters::run(case),
        "filters_served" => filters::served(case),
        "forecast" => forecast::run(case),
        "forecast_limit" => limits::forecast::run(case),
        "held" => standing::held(case),
        "hostile" => hostile::run(case),
        "hour" => hour::run(case),
        "idle" => standing::idle(case),
        "lateness" => lateness::run(case),
        "lateness_limit" => limits::tick::run(case),
        "listing" => listing::run(case),
        "listing_limit" => limits::listing::run(case),
        "memory" => memory::run(case),
        "memory_limit" => limits::memory::run(case),
        "memory_recent" => memory::recent(case),
        "memory_recent_limit" => limits::memory::recent(case),
        "producing" => producing::run(case),
        "producing_limit" => limits::producer::run(case),
        "relay_limit" => limits::relay::run(case),
        "replay" => backlog::replay(case),
        "restart" => restart::run(case),
        "restart_fill" => restart::fill(case),
        "restart_limit" => limits::read::run(case),
        "restart_forget" => limits::read::forget(case),
        "room" => room::run(case),
        "room_limit" => limits::room::run(case),
        "subjects" => subjects::run(case),
        "subjects_together" => together::run(case),
        "subjects_limit" => limits::subjects::run(case),
        "served_lateness" => served_lateness::run(case),
        "standing_limit" => limits::memory::standing(case),
        "wheel" => wheel::run(case),
        "wheel_limit" => limits::heap::run(case),
        _ => Err(Failure(format!("there is no measurement {name:?}"))),
    }
}
