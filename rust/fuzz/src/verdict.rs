//! What comes of one input.

use std::fmt::Debug;

/// Letters of a thing that an error shows.
const SHOWN_MAX: usize = 300;

/// How a reader took its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It read them.
    Taken,
    /// It said what is wrong with them.
    Refused,
}

/// A verdict, or in words the promise that was broken.
pub type Judged = Result<Verdict, String>;

/// Makes sure that two things are one.
///
/// # Errors
/// Both, in words.
pub fn same<T: PartialEq + Debug + ?Sized>(what: &str, first: &T, second: &T) -> Result<(), String> {
    if first == second {
        return Ok(());
    }
    let shown = |text: String| text.chars().take(SHOWN_MAX).collect::<String>();
    Err(format!("{what}: {} and then {}", shown(format!("{first:?}")), shown(format!("{second:?}"))))
}

/// Makes sure of something.
///
/// # Errors
/// What it should be.
pub fn holds(what: &str, is_so: bool) -> Result<(), String> {
    if is_so { Ok(()) } else { Err(what.to_owned()) }
}

/// An error of the product where there must be none.
pub fn unexpected(what: &str) -> impl Fn(delaymq_core::Error) -> String + '_ {
    move |error| format!("{what}: {error}")
}

/// Makes sure that the CRC-32 of some of these bytes stands where it belongs.
///
/// # Errors
/// What should be covered by a check.
pub fn covered(what: &str, bytes: &[u8], checked: std::ops::Range<usize>, at: usize) -> Result<(), String> {
    let found = bytes.get(at..).and_then(|rest| rest.first_chunk::<4>()).map(|check| u32::from_le_bytes(*check));
    same(what, &bytes.get(checked).map(crc32fast::hash), &found)
}
