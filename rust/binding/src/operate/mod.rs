//! Functions for operators: administration of an open store; inspection and repair of a closed one.
//!
//! In: calls of Python. Out: calls of the engine, with the interpreter released. Read `administration` and
//! `dead_letters` and `clock`, then `inspection`, `verification`, `salvage`, `rebuild`, and `records` (every record of a log,
//! for tests).

pub(crate) mod administration;
pub(crate) mod clock;
pub(crate) mod dead_letters;
pub(crate) mod inspection;
pub(crate) mod rebuild;
pub(crate) mod records;
pub(crate) mod salvage;
pub(crate) mod verification;
