//! Tables, and bulk loads, through Arrow's C data interface.
//!
//! In: ranges to read, or record batches to stage. Out: record batches, or a load.
//! Read `table_store`, then `loads` and `importing` (record batches of another library; the `unsafe` of this crate).

pub(crate) mod importing;
pub(crate) mod loads;
pub(crate) mod table_store;
