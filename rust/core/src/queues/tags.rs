//! Filters: the conditions of a consumer on the messages of a subject.

use crate::error::Result;
use crate::record::limits::{WORD_BYTES_MAX, at_most};

/// The most filters of a consumer.
pub const FILTERS_MAX: usize = 16;

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

/// A condition on the value of an attribute.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum AttributeRule {
    /// The message has the attribute, with any value.
    Present,
    /// The value is equal to this.
    Equals(Vec<u8>),
    /// The value begins with this.
    StartsWith(Vec<u8>),
}

impl AttributeRule {
    /// The rule with this number and value; `None` for another number.
    pub fn of_number(number: u8, value: Vec<u8>) -> Option<Self> {
        match number {
            0 => Some(Self::Present),
            1 => Some(Self::Equals(value)),
            2 => Some(Self::StartsWith(value)),
            _ => None,
        }
    }

    /// The number of the rule, on the wire and in calls from Python.
    pub const fn number(&self) -> u8 {
        match self {
            Self::Present => 0,
            Self::Equals(_) => 1,
            Self::StartsWith(_) => 2,
        }
    }

    /// The value, if the rule has one.
    pub fn value(&self) -> Option<&[u8]> {
        match self {
            Self::Present => None,
            Self::Equals(value) | Self::StartsWith(value) => Some(value),
        }
    }
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
    /// By one attribute. A message without it does not pass.
    Attribute {
        /// The name of the attribute.
        key: String,
        /// The condition on its value.
        rule: AttributeRule,
    },
}

/// The fields of a message that filters read.
pub trait Labels {
    /// True if the message has this tag.
    fn has_tag(&self, tag: &str) -> bool;

    /// The value of the first attribute of this name, if there is one.
    fn attribute(&self, key: &str) -> Option<&[u8]>;
}

impl Filter {
    /// True if a message with these labels passes.
    pub fn passes(&self, labels: &impl Labels) -> bool {
        match self {
            Self::Tags { tags, .. } if tags.is_empty() => true,
            Self::Tags { rule: TagRule::Any, tags } => tags.iter().any(|tag| labels.has_tag(tag)),
            Self::Tags { rule: TagRule::All, tags } => tags.iter().all(|tag| labels.has_tag(tag)),
            Self::SubEnvironment { environment, part } => match text_of(labels, ENVIRONMENT_KEY) {
                None => true,
                Some(named) => named == environment && text_of(labels, SUB_ENVIRONMENT_KEY).unwrap_or_default() == part,
            },
            Self::Attribute { key, rule } => labels.attribute(key).is_some_and(|value| match rule {
                AttributeRule::Present => true,
                AttributeRule::Equals(wanted) => value == wanted,
                AttributeRule::StartsWith(wanted) => value.starts_with(wanted),
            }),
        }
    }

    /// The bytes of each tag, text and value in the filter.
    pub fn words(&self) -> impl Iterator<Item = &[u8]> {
        let (tags, words) = match self {
            Self::Tags { tags, .. } => (tags.as_slice(), [None, None]),
            Self::SubEnvironment { environment, part } => {
                ([].as_slice(), [Some(environment.as_bytes()), Some(part.as_bytes())])
            }
            Self::Attribute { key, rule } => ([].as_slice(), [Some(key.as_bytes()), rule.value()]),
        };
        tags.iter().map(String::as_bytes).chain(words.into_iter().flatten())
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

/// The value of an attribute that is text.
fn text_of<'a>(labels: &'a impl Labels, key: &str) -> Option<&'a str> {
    labels.attribute(key).and_then(|value| std::str::from_utf8(value).ok())
}

/// True if a message passes all of these filters.
pub fn pass_all(filters: &[Filter], labels: &impl Labels) -> bool {
    filters.iter().all(|filter| filter.passes(labels))
}

/// Checks the lengths of filters.
///
/// # Errors
/// `TooLarge` naming `filters` or `tags`.
pub fn check_filters(filters: &[Filter]) -> Result<()> {
    at_most("filters", FILTERS_MAX, filters.len())?;
    let mut all_bytes = 0_usize;
    for filter in filters {
        if let Filter::Tags { tags, .. } = filter {
            at_most("tags", ASKED_TAGS_MAX, tags.len())?;
        }
        for word in filter.words() {
            at_most("filters", ASKED_WORD_BYTES_MAX, word.len())?;
            all_bytes = all_bytes.saturating_add(word.len());
        }
    }
    at_most("filters", ASKED_BYTES_MAX, all_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// A message with these tags and attributes.
    struct Labelled<'a>(&'a [&'a str], &'a [(&'a str, &'a str)]);

    impl Labels for Labelled<'_> {
        fn has_tag(&self, tag: &str) -> bool {
            self.0.contains(&tag)
        }

        fn attribute(&self, key: &str) -> Option<&[u8]> {
            self.1.iter().find(|(known, _)| *known == key).map(|(_, value)| value.as_bytes())
        }
    }

    fn asked(rule: TagRule, tags: &[&str]) -> Filter {
        Filter::Tags { rule, tags: tags.iter().map(|tag| (*tag).to_owned()).collect() }
    }

    fn passes(filter: &Filter, tags: &[&str]) -> bool {
        filter.passes(&Labelled(tags, &[]))
    }

    #[test]
    fn a_message_without_tags_passes_only_a_filter_without_tags() {
        for rule in [TagRule::Any, TagRule::All] {
            assert!(passes(&asked(rule, &[]), &[]));
            assert!(passes(&asked(rule, &[]), &["a"]));
            assert!(!passes(&asked(rule, &["a"]), &[]));
        }
    }

    #[test]
    fn an_environment_is_kept_apart_from_the_others() {
        let filter = Filter::SubEnvironment { environment: "beta".to_owned(), part: "one".to_owned() };
        let labelled = |attributes: &[(&str, &str)]| filter.passes(&Labelled(&[], attributes));
        assert!(labelled(&[]));
        assert!(labelled(&[(ENVIRONMENT_KEY, "beta"), (SUB_ENVIRONMENT_KEY, "one")]));
        assert!(!labelled(&[(ENVIRONMENT_KEY, "beta")]));
        assert!(!labelled(&[(ENVIRONMENT_KEY, "beta"), (SUB_ENVIRONMENT_KEY, "two")]));
        assert!(!labelled(&[(ENVIRONMENT_KEY, "alpha"), (SUB_ENVIRONMENT_KEY, "one")]));
        let beside = [filter.clone(), asked(TagRule::Any, &["x"])];
        assert!(!pass_all(&beside, &Labelled(&["y"], &[])));
        assert!(pass_all(&[], &Labelled(&["y"], &[(ENVIRONMENT_KEY, "alpha")])));
    }

    #[test]
    fn an_attribute_is_present_equal_or_begins_so() {
        let has = |rule: AttributeRule, attributes: &[(&str, &str)]| {
            Filter::Attribute { key: "kind".to_owned(), rule }.passes(&Labelled(&["kind"], attributes))
        };
        let equals = || AttributeRule::Equals(b"pay".to_vec());
        let begins = || AttributeRule::StartsWith(b"pay".to_vec());
        for rule in [AttributeRule::Present, equals(), begins()] {
            assert!(!has(rule.clone(), &[]));
            assert!(!has(rule.clone(), &[("kinds", "pay")]));
            assert!(has(rule, &[("other", "x"), ("kind", "pay")]));
        }
        assert!(has(AttributeRule::Present, &[("kind", "")]));
        assert!(!has(equals(), &[("kind", "payment")]));
        assert!(has(begins(), &[("kind", "payment")]));
        assert!(!has(begins(), &[("kind", "pa")]));
    }

    #[test]
    fn filters_of_any_form_have_bounds() {
        let attribute = |length| Filter::Attribute { key: "k".repeat(length), rule: AttributeRule::Present };
        check_filters(&[attribute(ASKED_WORD_BYTES_MAX)]).unwrap();
        check_filters(&[attribute(ASKED_WORD_BYTES_MAX + 1)]).unwrap_err();
        check_filters(&vec![attribute(1); FILTERS_MAX]).unwrap();
        check_filters(&vec![attribute(1); FILTERS_MAX + 1]).unwrap_err();
        check_filters(&[asked(TagRule::Any, &["a"; ASKED_TAGS_MAX + 1])]).unwrap_err();
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
