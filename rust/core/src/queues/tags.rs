//! Filters: the conditions of a consumer on the messages of a subject.

use crate::record::limits::WORD_BYTES_MAX;

/// The most tags that a consumer may ask for.
pub const ASKED_TAGS_MAX: usize = 127;

/// The most bytes of a tag or text in a filter: no tag of a message is longer.
pub const ASKED_WORD_BYTES_MAX: usize = WORD_BYTES_MAX;
/// The most bytes of all tags and texts in a consumer's filters together.
pub const ASKED_BYTES_MAX: usize = 32 << 10;

/// The approximate overhead of an allocator for a small piece of memory.
const ALLOCATED_BYTES: usize = 16;

/// The attribute that names a message's environment.
pub const ENVIRONMENT_KEY: &str = "qmq_env";
/// The attribute that names its part of that environment.
pub const SUB_ENVIRONMENT_KEY: &str = "qmq_subEnv";

/// How many of the filter's tags a message must have.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TagRule {
    /// At least one.
    Any,
    /// Each of them.
    All,
}

/// A condition on messages.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Filter {
    /// By tags. A filter without tags passes every message; a filter with tags passes no message without tags.
    Tags {
        /// How many of them a message must have.
        rule: TagRule,
        /// The tags.
        tags: Vec<String>,
    },
    /// By environment: a message without an environment passes for every consumer; any other passes for consumers
    /// of the same environment.
    SubEnvironment {
        /// The environment.
        environment: String,
        /// The part of the environment.
        part: String,
    },
}

/// The fields of a message that filters read.
#[derive(Clone, Copy, Debug)]
pub struct Labels<'a, T> {
    /// Its tags.
    pub tags: T,
    /// Its environment, if it names one.
    pub environment: Option<&'a str>,
    /// Its part of the environment, if it names one.
    pub part: Option<&'a str>,
}

impl Filter {
    /// True if a message with these labels passes.
    pub fn passes<'a, T: Iterator<Item = &'a str> + Clone>(&self, labels: &Labels<'a, T>) -> bool {
        match self {
            Self::Tags { tags: asked, .. } if asked.is_empty() => true,
            Self::Tags { rule: TagRule::Any, tags: asked } => {
                labels.tags.clone().any(|tag| asked.iter().any(|wanted| wanted == tag))
            }
            Self::Tags { rule: TagRule::All, tags: asked } => {
                asked.iter().all(|wanted| labels.tags.clone().any(|tag| tag == wanted))
            }
            Self::SubEnvironment { environment, part } => match labels.environment {
                None => true,
                Some(named) => named == environment && labels.part.unwrap_or_default() == part,
            },
        }
    }

    /// The tags or texts in the filter.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        let (tags, texts) = match self {
            Self::Tags { tags, .. } => (tags.as_slice(), [None, None]),
            Self::SubEnvironment { environment, part } => ([].as_slice(), [Some(environment), Some(part)]),
        };
        tags.iter().chain(texts.into_iter().flatten()).map(String::as_str)
    }

    /// The approximate bytes of memory that it takes.
    pub fn memory_bytes(&self) -> usize {
        let word = size_of::<String>().saturating_add(ALLOCATED_BYTES);
        self.words().fold(size_of::<Self>(), |bytes, one| bytes.saturating_add(word).saturating_add(one.len()))
    }

    /// True if every message passes.
    pub fn passes_all(&self) -> bool {
        matches!(self, Self::Tags { tags, .. } if tags.is_empty())
    }
}

/// True if a message passes all of these filters.
pub fn pass_all<'a, T: Iterator<Item = &'a str> + Clone>(filters: &[Filter], labels: &Labels<'a, T>) -> bool {
    filters.iter().all(|filter| filter.passes(labels))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn asked(rule: TagRule, tags: &[&str]) -> Filter {
        Filter::Tags { rule, tags: tags.iter().map(|tag| (*tag).to_owned()).collect() }
    }

    fn passes(filter: &Filter, tags: &[&str]) -> bool {
        filter.passes(&Labels { tags: tags.iter().copied(), environment: None, part: None })
    }

    #[test]
    fn a_message_without_tags_passes_only_who_asks_for_none() {
        for rule in [TagRule::Any, TagRule::All] {
            assert!(passes(&asked(rule, &[]), &[]));
            assert!(passes(&asked(rule, &[]), &["a"]));
            assert!(!passes(&asked(rule, &["a"]), &[]));
        }
    }

    #[test]
    fn an_environment_is_kept_apart_from_the_others() {
        let filter = Filter::SubEnvironment { environment: "beta".to_owned(), part: "one".to_owned() };
        let labelled = |environment, part| filter.passes(&Labels { tags: std::iter::empty(), environment, part });
        assert!(labelled(None, None));
        assert!(labelled(Some("beta"), Some("one")));
        assert!(!labelled(Some("beta"), None));
        assert!(!labelled(Some("beta"), Some("two")));
        assert!(!labelled(Some("alpha"), Some("one")));
        let beside = [filter.clone(), asked(TagRule::Any, &["x"])];
        assert!(!pass_all(&beside, &Labels { tags: ["y"].into_iter(), environment: None, part: None }));
        assert!(pass_all(&[], &Labels { tags: ["y"].into_iter(), environment: Some("alpha"), part: None }));
    }

    proptest! {
        #[test]
        fn tags_pass_as_sets_say(
            wanted in prop::collection::btree_set("[a-d]", 0..4),
            has in prop::collection::btree_set("[a-d]", 0..4),
        ) {
            let wanted_list: Vec<&str> = wanted.iter().map(String::as_str).collect();
            let has_list: Vec<&str> = has.iter().map(String::as_str).collect();
            let meet = wanted.intersection(&has).collect::<BTreeSet<_>>().len();
            let nothing = wanted.is_empty();
            prop_assert_eq!(passes(&asked(TagRule::Any, &wanted_list), &has_list), nothing || meet > 0);
            prop_assert_eq!(passes(&asked(TagRule::All, &wanted_list), &has_list), meet == wanted.len());
        }
    }
}
