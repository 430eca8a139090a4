//! The subjects that a subscription consumes: a list of names, or every subject whose name begins with a prefix.

use std::collections::HashSet;

use super::subject_names::is_of_users;
use crate::error::{Error, Result};
use crate::record::limits::{at_most, check_name};

/// The most subjects of one subscription.
pub const SUBJECTS_MAX: usize = 10_000;
/// A text that ends with this is a prefix.
const ANY_REST: char = '*';

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Selection {
    /// These subjects, which need not exist yet. Each is there once, and there is at least one.
    Listed(Vec<String>),
    /// Every subject of users whose name begins with this: those that exist, and those that are made later. An empty
    /// text selects all.
    Prefix(String),
}

impl Selection {
    /// Reads the texts of a user: names, or one prefix that ends with `*`.
    ///
    /// # Errors
    /// `InvalidArgument` naming `subject`: there is no name, a name is there twice or is not legal, or a prefix is in a
    /// list. `TooLarge` naming `subjects`.
    pub fn of<T: AsRef<str>>(texts: &[T]) -> Result<Self> {
        at_most("subjects", SUBJECTS_MAX, texts.len())?;
        if let [only] = texts
            && let Some(prefix) = only.as_ref().strip_suffix(ANY_REST)
        {
            if !prefix.is_empty() {
                check_name("subject", prefix)?;
            }
            return Ok(Self::Prefix(prefix.to_owned()));
        }
        if texts.is_empty() {
            return Err(refused("at least one subject", "an empty list"));
        }
        let mut seen = HashSet::with_capacity(texts.len());
        for text in texts.iter().map(AsRef::as_ref) {
            if text.ends_with(ANY_REST) {
                return Err(refused("a prefix alone, or a list of subjects without '*' at their ends", text));
            }
            check_name("subject", text)?;
            if !seen.insert(text) {
                return Err(refused("each subject once", text));
            }
        }
        Ok(Self::Listed(texts.iter().map(|text| text.as_ref().to_owned()).collect()))
    }

    /// True if this selects the subject because of its prefix.
    pub fn begins(&self, name: &str) -> bool {
        matches!(self, Self::Prefix(prefix) if is_of_users(name) && name.starts_with(prefix.as_str()))
    }

    /// The texts that [`Self::of`] reads.
    pub fn texts(&self) -> Vec<String> {
        match self {
            Self::Listed(names) => names.clone(),
            Self::Prefix(prefix) => vec![format!("{prefix}{ANY_REST}")],
        }
    }
}

fn refused(expected: &str, found: &str) -> Error {
    Error::InvalidArgument { argument: "subject", expected: expected.to_owned(), found: found.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(names: &[&str]) -> Selection {
        Selection::Listed(names.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn a_selection_reads_back_from_its_texts() {
        for texts in [vec!["a"], vec!["a", "b.c"], vec!["order.*"], vec!["*"], vec!["a*b"]] {
            let selection = Selection::of(&texts).unwrap();
            assert_eq!(selection.texts(), texts);
        }
        assert_eq!(Selection::of(&["a", "b"]).unwrap(), listed(&["a", "b"]));
        assert_eq!(Selection::of(&["order.*"]).unwrap(), Selection::Prefix("order.".to_owned()));
        assert_eq!(Selection::of(&["*"]).unwrap(), Selection::Prefix(String::new()));
    }

    #[test]
    fn a_prefix_selects_the_subjects_of_users_alone() {
        let orders = Selection::of(&["order.*"]).unwrap();
        let names = ["order.made", "order.", "order", "orders", "%RETRY%order.made%g", "%DEAD_RETRY%order.made%g"];
        assert_eq!(names.map(|name| orders.begins(name)), [true, true, false, false, false, false]);
        let all = Selection::of(&["*"]).unwrap();
        assert_eq!(names.map(|name| all.begins(name)), [true, true, true, true, false, false]);
        assert!(!listed(&["order.made"]).begins("order.made"), "a list is not a prefix");
    }

    #[test]
    fn what_is_no_selection_is_refused_by_name() {
        let wrong: [&[&str]; 8] =
            [&[], &["a", "a"], &["a", "order.*"], &["a b"], &[""], &["a", "b/c"], &["%RETRY%a%g"], &["b c*"]];
        for texts in wrong {
            let refused = Selection::of(texts);
            assert!(
                matches!(refused, Err(Error::InvalidArgument { argument: "subject", .. })),
                "{texts:?}: {refused:?}"
            );
        }
        let many: Vec<String> = (0..=SUBJECTS_MAX).map(|number| number.to_string()).collect();
        assert!(Selection::of(&many[1..]).is_ok());
        let refused = Selection::of(&many);
        let limit = SUBJECTS_MAX as u64;
        assert!(
            matches!(refused, Err(Error::TooLarge { argument: "subjects", limit: found, .. }) if found == limit),
            "{refused:?}"
        );
    }
}
