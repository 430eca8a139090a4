//! Terms of publishes, and outcomes of moves.

use delaymq_core::wire::extension::moves::Moved;
use delaymq_engine::{IfExists, MoveOutcome, PublishTerms};

/// A key or None, what to do if it is taken (0 replace, 1 keep, 2 refuse), and whether the message id identifies
/// repetitions. `delaymq.keys` has checked them.
pub(crate) type Terms = (Option<String>, u8, bool);

/// The terms for the engine.
pub(crate) fn of(terms: Option<&Terms>) -> PublishTerms<'_> {
    let Some((key, if_exists, deduplicates)) = terms else { return PublishTerms::NONE };
    let if_exists = match if_exists {
        0 => IfExists::Replace,
        1 => IfExists::Keep,
        _ => IfExists::Refuse,
    };
    PublishTerms { key: key.as_deref(), if_exists, deduplicates: *deduplicates }
}

/// The outcome of a move, in its wire form.
pub(crate) const fn moved(outcome: MoveOutcome) -> Moved {
    match outcome {
        MoveOutcome::Done(receipt) => Moved::Done(receipt),
        MoveOutcome::AlreadyDispatched => Moved::AlreadyDispatched,
        MoveOutcome::NotFound => Moved::NotFound,
    }
}
