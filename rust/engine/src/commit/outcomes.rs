//! The outcomes of facts, kept for the callers that wait for them.

use std::collections::HashMap;
use std::ops::Range;

use delaymq_core::error::Result;
use delaymq_core::store::Outcome;
use delaymq_core::units::Sequence;

use crate::held;
use crate::sync::Mutex;

/// Outcomes by sequence; `None` while the fact is not applied.
#[derive(Debug, Default)]
pub(crate) struct Outcomes {
    expected: Mutex<HashMap<Sequence, Option<Outcome>>>,
}

impl Outcomes {
    /// Submits facts and expects an outcome of each, before any thread can have applied them; of an adoption of `adopts`
    /// messages behind other facts, only its own. `submit` must not wait.
    pub(crate) fn expect(
        &self,
        adopts: u32,
        submit: impl FnOnce() -> Result<Option<Range<Sequence>>>,
    ) -> Result<Option<Range<Sequence>>> {
        let mut expected = held(&self.expected);
        let submitted = submit()?;
        if let Some(range) = &submitted {
            let adoption = range.end.0.saturating_sub(u64::from(adopts));
            let facts = if adopts > 0 { adoption..adoption.saturating_add(1) } else { range.start.0..range.end.0 };
            expected.extend(facts.map(|sequence| (Sequence(sequence), None)));
        }
        Ok(submitted)
    }

    /// Stores outcomes that are expected, and drops all others.
    pub(crate) fn found(&self, outcomes: Vec<(Sequence, Outcome)>) {
        if outcomes.is_empty() {
            return;
        }
        let mut expected = held(&self.expected);
        for (sequence, outcome) in outcomes {
            if let Some(answer) = expected.get_mut(&sequence) {
                *answer = Some(outcome);
            }
        }
    }

    /// The outcome of one fact, once. Call it after the fact was applied.
    pub(crate) fn take(&self, sequence: Sequence) -> Option<Outcome> {
        held(&self.expected).remove(&sequence).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_asked_is_kept() {
        let outcomes = Outcomes::default();
        outcomes.expect(0, || Ok(Some(Sequence(3)..Sequence(5)))).unwrap();
        outcomes.found(vec![(Sequence(2), Outcome::Done), (Sequence(4), Outcome::NotFound)]);
        assert_eq!(outcomes.take(Sequence(2)), None);
        assert_eq!(outcomes.take(Sequence(3)), None);
        assert_eq!(outcomes.take(Sequence(4)), Some(Outcome::NotFound));
        assert!(held(&outcomes.expected).is_empty());
    }
}
