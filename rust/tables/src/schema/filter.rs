//! The filter of rows.

use std::collections::BTreeMap;

use delaymq_core::units::{Millis, Sequence, SubjectNumber};

/// The bounds of rows; a bound that is `None` holds for all.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Filter {
    /// Only rows of the subjects that a range has names for.
    pub only_named: bool,
    /// From this sequence on.
    pub first_sequence: Option<Sequence>,
    /// Below this sequence.
    pub end_sequence: Option<Sequence>,
    /// Published at this time or later.
    pub published_from: Option<Millis>,
    /// Published before this time.
    pub published_before: Option<Millis>,
    /// Due at this time or later.
    pub due_from: Option<Millis>,
    /// Due before this time.
    pub due_before: Option<Millis>,
}

/// Names of subjects, by number.
pub(crate) type Names = BTreeMap<SubjectNumber, String>;

impl Filter {
    /// Whether a row of this sequence, due then, is asked for.
    #[inline]
    pub(crate) fn takes(&self, sequence: Sequence, due: Millis) -> bool {
        self.takes_sequence(sequence) && self.takes_due(Some(due))
    }

    /// Whether a row of this sequence is asked for.
    #[inline]
    pub(crate) fn takes_sequence(&self, sequence: Sequence) -> bool {
        self.first_sequence.is_none_or(|first| sequence >= first) && self.end_sequence.is_none_or(|end| sequence < end)
    }

    /// Whether what is due then is asked for. What has no due time is only where any time is.
    #[inline]
    pub(crate) fn takes_due(&self, due: Option<Millis>) -> bool {
        match due {
            Some(due) => {
                self.due_from.is_none_or(|from| due >= from) && self.due_before.is_none_or(|before| due < before)
            }
            None => self.due_from.is_none() && self.due_before.is_none(),
        }
    }

    /// Whether what a batch of this trusted time holds is asked for. Where the time is lost, it is only where
    /// any time is.
    #[inline]
    pub(crate) fn takes_published(&self, published: Option<Millis>) -> bool {
        match published {
            Some(time) => {
                self.published_from.is_none_or(|from| time >= from)
                    && self.published_before.is_none_or(|before| time < before)
            }
            None => self.published_from.is_none() && self.published_before.is_none(),
        }
    }

    /// Whether a row's time of publishing decides about it.
    pub(crate) fn is_by_published(&self) -> bool {
        self.published_from.is_some() || self.published_before.is_some()
    }

    /// Whether anything between these may be asked for; both ends of the times are included.
    pub(crate) fn may_take(&self, sequences: (Sequence, Sequence), published: (Millis, Millis)) -> bool {
        self.first_sequence.is_none_or(|first| sequences.1 > first)
            && self.end_sequence.is_none_or(|end| sequences.0 < end)
            && self.published_from.is_none_or(|from| published.1 >= from)
            && self.published_before.is_none_or(|before| published.0 < before)
    }
}
