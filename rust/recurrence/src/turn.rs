//! Whose turn it is next: the rule, the occurrence before, and what is done about those that were missed.

use crate::rule::{Refused, Rule};

/// What becomes of occurrences whose time is over before they could be stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CatchUp {
    /// They happen once, at once, as the last of them; then the next regular one.
    #[default]
    One,
    /// They do not happen: the next is the first one after now.
    Skip,
    /// Each of them happens, one after the other.
    All,
}

/// When the occurrence after the one at `last_ms` is due, of those that a store makes at `now_ms`. It is one of the
/// rule's own times, whatever now is. `None`: there is no further one.
///
/// # Errors
/// As [`Rule::next_after`].
pub fn next_turn(rule: &Rule, catch_up: CatchUp, last_ms: u64, now_ms: u64) -> Result<Option<u64>, Refused> {
    let next = rule.next_after(last_ms)?;
    if next.is_none_or(|next| next > now_ms) {
        return Ok(next);
    }
    match catch_up {
        CatchUp::All => Ok(next),
        CatchUp::One => rule.last_until(last_ms, now_ms),
        CatchUp::Skip => match rule.last_until(last_ms, now_ms)? {
            Some(missed) => rule.next_after(missed),
            None => Ok(None),
        },
    }
}

/// As [`next_turn`], of a rule that is a text, as facts have it.
///
/// # Errors
/// [`Refused`] where the text is no rule, the zone is not known any more, or as [`Rule::next_after`].
pub fn turn_of(text: &str, zone: &str, catch_up: CatchUp, last_ms: u64, now_ms: u64) -> Result<Option<u64>, Refused> {
    next_turn(&Rule::parse(text, zone)?, catch_up, last_ms, now_ms)
}
