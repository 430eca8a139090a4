//! The result of one input.

use std::fmt::Debug;

/// The most characters of a value in an error.
const SHOWN_MAX: usize = 300;

/// The reader's verdict on its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The bytes were accepted.
    Taken,
    /// The bytes were refused with an error.
    Refused,
}

/// A verdict, or the broken promise as text.
pub type Judged = Result<Verdict, String>;

/// Checks that two values are equal.
///
/// # Errors
/// Both values, as text.
pub fn same<T: PartialEq + Debug + ?Sized>(what: &str, first: &T, second: &T) -> Result<(), String> {
    if first == second {
        return Ok(());
    }
    let shown = |text: String| text.chars().take(SHOWN_MAX).collect::<String>();
    Err(format!("{what}: {} and then {}", shown(format!("{first:?}")), shown(format!("{second:?}"))))
}

/// Checks a condition.
///
/// # Errors
/// The condition, as text.
pub fn holds(what: &str, is_so: bool) -> Result<(), String> {
    if is_so { Ok(()) } else { Err(what.to_owned()) }
}

/// An error of the product at a place where none may occur.
pub fn unexpected(what: &str) -> impl Fn(delaymq_core::Error) -> String + '_ {
    move |error| format!("{what}: {error}")
}

/// Checks that the CRC-32 of these bytes is at its place.
///
/// # Errors
/// The name of the part that should be covered by a check.
pub fn covered(what: &str, bytes: &[u8], checked: std::ops::Range<usize>, at: usize) -> Result<(), String> {
    let found = bytes.get(at..).and_then(|rest| rest.first_chunk::<4>()).map(|check| u32::from_le_bytes(*check));
    same(what, &bytes.get(checked).map(crc32fast::hash), &found)
}
