//! The owner (base).
mod receipt;
mod siphash;

pub use receipt::{RECEIPT_BYTES, Receipt};
