//! names.

pub(super) mod base64url;
pub(super) mod directory;
pub(super) mod keys;
pub(super) mod receipt;
pub(super) mod receipt_book;
pub(super) mod recent_ids;
pub(super) mod siphash;
pub(super) mod subject_names;
pub(super) mod subjects;
