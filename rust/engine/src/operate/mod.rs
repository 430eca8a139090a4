//! What an operator does: administration of an open store, and inspection and repair of a closed one.
//!
//! In: a call of an operator. Out: facts that change groups and subjects, or a report, or a new store.
//! Read `administration` (groups, subjects, expiry), `dead_letters` and `clock`; then `inspection` (a look without the lock),
//! `rebuild` (runs, made again from the log), and `salvage` with `salvaged_dead_letters` (a damaged store, copied).

pub(crate) mod administration;
pub(crate) mod clock;
pub(crate) mod dead_letters;
pub(crate) mod inspection;
pub(crate) mod rebuild;
pub(crate) mod salvage;
pub(crate) mod salvaged_dead_letters;
