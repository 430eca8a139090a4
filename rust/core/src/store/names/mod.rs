//! Names, numbers and keys: how subjects and messages are identified.
//!
//! In: names of users. Out: subject numbers, receipts, and the pending message of a key.
//! Read `subjects`, `subject_names` (the subjects that the store makes itself) and `selection`, then `receipt` and `receipt_book`,
//! then `keys`, `recent_ids` (deduplication) and `dispatched_keys`. `siphash` serves receipts and hashes of names, `base64url` serves
//! receipts.

pub(super) mod base64url;
pub(super) mod directory;
pub(super) mod dispatched_keys;
pub(super) mod keys;
pub(super) mod receipt;
pub(super) mod receipt_book;
pub(super) mod recent_ids;
pub(super) mod selection;
pub(super) mod siphash;
pub(super) mod subject_names;
pub(super) mod subjects;
