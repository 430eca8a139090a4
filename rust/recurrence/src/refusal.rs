//! Why a rule is refused: the wrong part, what it must be, and what it was.

/// Why a rule is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refused {
    /// The wrong part: `every`, `cron` or `zone`.
    pub part: &'static str,
    /// The requirement on that part.
    pub expected: String,
    /// The part that was found.
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
