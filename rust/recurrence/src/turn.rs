//! The next occurrence of a series, from its rule, the last occurrence, and the policy for missed ones.

use crate::refusal::Refused;
use crate::rule::Rule;

/// The policy for occurrences whose time passed before they could be stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CatchUp {
    /// One of them occurs, at once, with the time of the last one; then the next regular one.
    #[default]
    One,
    /// None of them occurs: the next is the first one after now.
    Skip,
    /// Each of them occurs, one after the other.
    All,
}

/// The due time of the occurrence after the one at `last_ms`, for a store that makes it at `now_ms`. It is one of
/// the rule's own times, whatever the current time is. `None`: there is no further one.
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
