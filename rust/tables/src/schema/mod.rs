//! Which tables there are, which columns they have, and what a reader chooses of them.
//!
//! In: the choices of a caller. Out: the schema of the record batches, and a filter.
//! Read `table`, then `column`, `choice` (the columns of one reading) and `filter` (its rows).

pub(crate) mod choice;
pub(crate) mod column;
pub(crate) mod filter;
pub(crate) mod table;
