//! The pages of plain HTTP.

/// The type of JSON.
pub(super) const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";

/// An answer with its status.
pub(crate) struct Page {
    pub(crate) status: u16,
    pub(crate) kind: &'static str,
    pub(crate) body: String,
}

/// A page of plain text.
pub(crate) fn text(status: u16, body: impl Into<String>) -> Page {
    Page { status, kind: TEXT, body: body.into() }
}
