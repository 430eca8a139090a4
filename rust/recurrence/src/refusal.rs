//! Why a rule is refused: the wrong part, what it must be, and what it was.

/// Why a rule is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refused {
    /// The wrong part: `every`, `cron` or `zone`.
    pub part: &'static str,
    /// What it must be.
    pub expected: String,
    /// What it was.
    pub found: String,
}

impl Refused {
    pub(crate) fn new(part: &'static str, expected: &str, found: impl Into<String>) -> Self {
        Self { part, expected: expected.to_owned(), found: found.into() }
    }
}

pub(crate) fn quoted(text: &str, bytes_max: usize) -> String {
    format!("{:?}", text.chars().take(bytes_max).collect::<String>())
}
