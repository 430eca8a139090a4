//! Terms of publishes, and outcomes of moves.

use delaymq_core::units::Millis;
use delaymq_core::wire::extension::moves::Moved;
use delaymq_engine::{Expires, IfExists, MoveOutcome, OnExpiry, PublishTerms};

/// A key or None, what to do if it is taken (0 replace, 1 keep, 2 refuse), and whether the message id identifies
/// repetitions; and if it expires, when (a time after its due time, or since 1970 if the second is true) and whether it
/// becomes a dead letter then. `delaymq.keys` has checked them.
pub(crate) type Terms = (Option<String>, u8, bool, Option<Expiring>);
/// Milliseconds, whether they count from 1970, and whether the message becomes a dead letter.
pub(crate) type Expiring = (u64, bool, bool);

/// The terms for the engine.
pub(crate) fn of(terms: Option<&Terms>) -> PublishTerms<'_> {
    let Some((key, if_exists, deduplicates, expires)) = terms else { return PublishTerms::NONE };
    let expires = expires.map(|(time_ms, absolute, dies)| {
        (if absolute { Expires::At(Millis(time_ms)) } else { Expires::After(time_ms) }, then_of(dies))
    });
    PublishTerms { expires, ..on(key.as_deref(), *if_exists, *deduplicates) }
}

/// The terms of a message that does not expire.
pub(crate) const fn on(key: Option<&str>, if_exists: u8, deduplicates: bool) -> PublishTerms<'_> {
    let if_exists = match (key, if_exists) {
        (Some(_), 0) => IfExists::Replace,
        (Some(_), 1) => IfExists::Keep,
        _ => IfExists::Refuse,
    };
    PublishTerms { key, if_exists, deduplicates, expires: None }
}

/// The effect of an expiry.
pub(crate) const fn then_of(dies: bool) -> OnExpiry {
    if dies { OnExpiry::DeadLetter } else { OnExpiry::Drop }
}

/// The outcome of a move, in its wire form.
pub(crate) const fn moved(outcome: MoveOutcome) -> Moved {
    match outcome {
        MoveOutcome::Done(receipt) => Moved::Done(receipt),
        MoveOutcome::AlreadyDispatched => Moved::AlreadyDispatched,
        MoveOutcome::NotFound => Moved::NotFound,
    }
}
