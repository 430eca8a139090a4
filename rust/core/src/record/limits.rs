//! The limits of a message, in one place: the embedded store and the server call these checks, so that both refuse
//! the same messages with the same texts.

use super::characters;
use super::meta::MetaView;
use crate::error::{Error, Result};

/// The longest subject, group or message id, in characters.
pub const NAME_CHARACTERS_MAX: usize = 100;
/// The most messages in one batch.
pub const BATCH_MESSAGES_MAX: usize = 10_000;
/// The largest body of one message, in bytes.
pub const BODY_BYTES_MAX: usize = 4 << 20;
/// The most tags of one message.
pub const TAGS_MAX: usize = 10;
/// The longest tag or attribute key, in bytes of UTF-8.
pub const WORD_BYTES_MAX: usize = 255;
/// The most attributes of one opaque message.
pub const ATTRIBUTES_MAX: usize = 1_000;
/// The most bytes that keys and values of the attributes of one opaque message take together. A QMQ message's
/// attributes are its body, and count as body.
pub const ATTRIBUTE_BYTES_MAX: usize = 32 << 10;

/// The prefix of the name of a retry subject.
pub const RETRY_PREFIX: &str = "%RETRY%";
/// The prefix of the name of a dead-letter subject.
pub const DEAD_LETTER_PREFIX: &str = "%DEAD_RETRY%";

/// Checks a subject, group, key or message id given by a user: 1 to 100 characters, none of them a control character,
/// white space, `/` or `%`, all of them visible, assigned and in NFC.
///
/// # Errors
/// `InvalidArgument` naming `argument`.
pub fn check_name(argument: &'static str, name: &str) -> Result<()> {
    let refused = |found: String| Error::InvalidArgument {
        argument,
        expected: format!("1 to {NAME_CHARACTERS_MAX} characters without white space, control characters, '/' and '%'"),
        found,
    };
    // A name of 100 characters takes at most 400 bytes: counting stops there for a longer text.
    let characters = name.chars().take(NAME_CHARACTERS_MAX * 4).count();
    if characters == 0 || characters > NAME_CHARACTERS_MAX {
        return Err(refused(format!("{characters} characters")));
    }
    match name.chars().find(|letter| letter.is_control() || letter.is_whitespace() || matches!(letter, '/' | '%')) {
        Some(letter) => Err(refused(format!("{letter:?}"))),
        None => check_characters(argument, name),
    }
}

/// Checks that a name looks like no other name.
fn check_characters(argument: &'static str, name: &str) -> Result<()> {
    match characters::deception(name) {
        Some(found) => Err(Error::InvalidArgument { argument, expected: characters::EXPECTED.to_owned(), found }),
        None => Ok(()),
    }
}

/// A retry or dead-letter subject, taken apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupSubject<'a> {
    /// True for `%DEAD_RETRY%`, false for `%RETRY%`.
    pub is_dead: bool,
    /// The subject that the group consumes.
    pub subject: &'a str,
    /// The group.
    pub group: &'a str,
}

/// Takes the name of a retry or dead-letter subject apart; `None` for every other text.
pub fn group_subject(name: &str) -> Option<GroupSubject<'_>> {
    let (is_dead, rest) = match name.strip_prefix(RETRY_PREFIX) {
        Some(rest) => (false, rest),
        None => (true, name.strip_prefix(DEAD_LETTER_PREFIX)?),
    };
    let (subject, group) = rest.split_once('%')?;
    (!subject.is_empty() && !group.is_empty()).then_some(GroupSubject { is_dead, subject, group })
}

/// Checks the subject of a QMQ command. QMQ's clients also send to the retry and dead-letter subjects of their
/// groups: such a name may be longer, but its parts may not.
///
/// # Errors
/// `InvalidArgument` naming `argument`.
pub fn check_qmq_subject(argument: &'static str, name: &str) -> Result<()> {
    match group_subject(name) {
        Some(parts) => check_name(argument, parts.subject).and_then(|()| check_name(argument, parts.group)),
        None => check_name(argument, name),
    }
}

/// Checks a message id that a producer chose.
///
/// # Errors
/// `InvalidArgument` naming `message_id`.
pub fn check_message_id(message_id: &str) -> Result<()> {
    check_name("message_id", message_id)
}

/// Checks the size of a body.
///
/// # Errors
/// `TooLarge` naming `body`.
pub fn check_body(bytes: usize) -> Result<()> {
    at_most("body", BODY_BYTES_MAX, bytes)
}

/// Checks the number of messages of a batch.
///
/// # Errors
/// `TooLarge` naming `messages`.
pub fn check_batch(messages: usize) -> Result<()> {
    at_most("messages", BATCH_MESSAGES_MAX, messages)
}

/// Checks the tags of a message.
///
/// # Errors
/// `InvalidArgument` naming `tags`.
pub fn check_tags<'a>(tags: impl Iterator<Item = &'a str>) -> Result<()> {
    let mut count = 0_usize;
    for tag in tags {
        count = count.saturating_add(1);
        check_tag(tag)?;
    }
    if count > TAGS_MAX {
        let (expected, found) = (format!("at most {TAGS_MAX}"), count.to_string());
        return Err(Error::InvalidArgument { argument: "tags", expected, found });
    }
    Ok(())
}

/// Checks one tag: 1 to 255 bytes of visible, assigned characters in NFC.
///
/// # Errors
/// `InvalidArgument` naming `tags`.
pub fn check_tag(tag: &str) -> Result<()> {
    check_word("tags", tag)?;
    check_characters("tags", tag)
}

/// Checks the attributes of an opaque message.
///
/// # Errors
/// `InvalidArgument` or `TooLarge` naming `attributes`.
pub fn check_attributes<'a>(attributes: impl Iterator<Item = (&'a str, &'a [u8])>) -> Result<()> {
    let (mut count, mut bytes) = (0_usize, 0_usize);
    for (key, value) in attributes {
        check_word("attributes", key)?;
        count = count.saturating_add(1);
        bytes = bytes.saturating_add(key.len()).saturating_add(value.len());
    }
    if count > ATTRIBUTES_MAX {
        let (expected, found) = (format!("at most {ATTRIBUTES_MAX}"), count.to_string());
        return Err(Error::InvalidArgument { argument: "attributes", expected, found });
    }
    at_most("attributes", ATTRIBUTE_BYTES_MAX, bytes)
}

/// Checks the encoded meta of an opaque message: empty, or message id, tags and attributes within their limits.
///
/// # Errors
/// `InvalidArgument` or `TooLarge` naming `meta`, `message_id`, `tags` or `attributes`.
pub fn check_meta(meta: &[u8]) -> Result<()> {
    if meta.is_empty() {
        return Ok(());
    }
    let view = MetaView::read(meta).ok_or_else(|| Error::InvalidArgument {
        argument: "meta",
        expected: "message id, tags and attributes".to_owned(),
        found: format!("{} bytes that are not that", meta.len()),
    })?;
    if !view.message_id().is_empty() {
        check_message_id(view.message_id())?;
    }
    check_tags(view.tags())?;
    check_attributes(view.attributes())
}

fn check_word(argument: &'static str, word: &str) -> Result<()> {
    if (1..=WORD_BYTES_MAX).contains(&word.len()) {
        return Ok(());
    }
    let (expected, found) = (format!("1 to {WORD_BYTES_MAX} bytes of UTF-8"), format!("{} bytes", word.len()));
    Err(Error::InvalidArgument { argument, expected, found })
}

/// Checks that `found` is within `limit`.
///
/// # Errors
/// `TooLarge` naming `argument`.
pub fn at_most(argument: &'static str, limit: usize, found: usize) -> Result<()> {
    if found <= limit {
        return Ok(());
    }
    Err(Error::TooLarge { argument, limit: limit as u64, found: found as u64 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::message::{Meta, encode_meta};

    fn argument_of(result: Result<()>) -> &'static str {
        match result {
            Err(Error::InvalidArgument { argument, .. } | Error::TooLarge { argument, .. }) => argument,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn bad_names_are_refused_by_argument() {
        let long = ["x".repeat(101), "x".repeat(1 << 20)];
        for name in ["", " ", "a b", "a/b", "100%", "a\nb", "a\u{200d}", "u\u{308}", &long[0], &long[1]] {
            assert_eq!(argument_of(check_name("subject", name)), "subject", "{name}");
        }
        assert!(check_name("subject", &"ä".repeat(100)).is_ok());
        assert!(check_name("group", "order.timeout").is_ok());
    }

    #[test]
    fn subjects_of_groups_are_taken_from_qmq_clients_only_when_made_of_names() {
        let long = format!("%RETRY%{}%{}", "s".repeat(100), "g".repeat(100));
        for name in ["order", "%RETRY%order%billing", "%DEAD_RETRY%order%billing", &long] {
            assert!(check_qmq_subject("subject", name).is_ok(), "{name}");
        }
        for name in ["%RETRY%order", "%RETRY%%g", "%RETRY%a%", "%RETRY%a%b%c", "%OTHER%a%b", "%RETRY%a b%g", "%"] {
            assert_eq!(argument_of(check_qmq_subject("subject", name)), "subject", "{name}");
        }
        let parts = group_subject("%DEAD_RETRY%a%b").unwrap();
        assert_eq!((parts.is_dead, parts.subject, parts.group), (true, "a", "b"));
    }

    #[test]
    fn each_part_of_meta_is_at_its_limit_or_refused() {
        let encoded = |id: &str, tags: usize, value: usize| {
            let meta = Meta {
                message_id: id.to_owned(),
                tags: vec!["t".to_owned(); tags],
                attributes: vec![("k".to_owned(), vec![b'v'; value])],
            };
            check_meta(&encode_meta(&meta).unwrap())
        };
        assert!(encoded(&"i".repeat(100), TAGS_MAX, ATTRIBUTE_BYTES_MAX - 1).is_ok());
        assert!(encoded("", 0, 0).is_ok());
        assert_eq!(argument_of(encoded(&"i".repeat(101), 0, 0)), "message_id");
        assert_eq!(argument_of(encoded("a/b", 0, 0)), "message_id");
        assert_eq!(argument_of(encoded("i", TAGS_MAX + 1, 0)), "tags");
        assert_eq!(argument_of(encoded("i", 1, ATTRIBUTE_BYTES_MAX)), "attributes");
        assert_eq!(argument_of(check_meta(b"meta")), "meta");
        assert_eq!(argument_of(check_tags(["a", ""].into_iter())), "tags");
        assert_eq!(argument_of(check_tags(["a\u{202e}"].into_iter())), "tags");
        let many = vec![("k", &b""[..]); ATTRIBUTES_MAX + 1];
        assert_eq!(argument_of(check_attributes(many.into_iter())), "attributes");
    }

    #[test]
    fn sizes_are_refused_one_over_their_limit() {
        assert!(check_body(4_194_304).is_ok());
        assert_eq!(argument_of(check_body(4_194_305)), "body");
        assert!(check_batch(10_000).is_ok());
        assert_eq!(argument_of(check_batch(10_001)), "messages");
    }
}
