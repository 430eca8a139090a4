//! The filters of a SUBSCRIBE: those that a pull of QMQ has, then those that QMQ does not know.
//!
//! | bytes | field |
//! |---|---|
//! | … | filters by tags and by environment, as in a pull of version 9 |
//! | 4, then each | filters by an attribute |
//!
//! | bytes | field of a filter by an attribute |
//! |---|---|
//! | 1 | `rule`: 0 present, 1 equal to the value, 2 begins with the value |
//! | str | `key` |
//! | blob | `value`, empty for rule 0 |

use bytes::BufMut;

use crate::error::Result;
use crate::queues::tags::{ASKED_BYTES_MAX, ASKED_WORD_BYTES_MAX, AttributeRule, FILTERS_MAX, Filter, check_filters};
use crate::wire::fields::{put_blob, put_count, put_text};
use crate::wire::malformed::{Malformed, Read};
use crate::wire::qmq::pull::{put_filters as put_qmq_filters, read_filters as read_qmq_filters, read_word};
use crate::wire::reader::Reader;

/// Rule, and the lengths of key and value.
const ATTRIBUTE_HEAD_BYTES: usize = 7;

/// Reads the filters, and drops those that pass every message.
///
/// # Errors
/// `Malformed`, naming the field; `TooLarge` naming `filters`.
pub fn read_filters(reader: &mut Reader<'_>) -> Read<Vec<Filter>> {
    let mut filters = read_qmq_filters(reader)?;
    let count = reader.count("filters", FILTERS_MAX.saturating_sub(filters.len()), ATTRIBUTE_HEAD_BYTES)?;
    let used = filters.iter().flat_map(Filter::words).fold(0_usize, |bytes, word| bytes.saturating_add(word.len()));
    let mut left = ASKED_BYTES_MAX.saturating_sub(used);
    for _ in 0..count {
        filters.push(read_attribute(reader, &mut left)?);
    }
    Ok(filters)
}

fn read_attribute(reader: &mut Reader<'_>, left: &mut usize) -> Read<Filter> {
    let number = reader.u8("rule")?;
    let key = read_word(reader, "filters", left)?;
    let value = reader.blob("filters", ASKED_WORD_BYTES_MAX.min(*left))?.to_vec();
    *left = left.saturating_sub(value.len());
    let refused = |field, expected, found| Err(Malformed::Value { field, expected, found });
    let length = value.len();
    let Some(rule) = AttributeRule::of_number(number, value) else {
        return refused("rule", "a rule from 0 to 2", i64::from(number));
    };
    if rule.value().is_none() && length > 0 {
        return refused("value", "no bytes for rule 0", i64::try_from(length).unwrap_or(i64::MAX));
    }
    Ok(Filter::Attribute { key, rule })
}

/// Appends the filters.
///
/// # Errors
/// `TooLarge` naming `filters` or `tags`.
pub fn put_filters(out: &mut Vec<u8>, filters: &[Filter]) -> Result<()> {
    check_filters(filters)?;
    let is_of_qmq = |filter: &&Filter| !matches!(filter, Filter::Attribute { .. });
    let of_qmq: Vec<Filter> = filters.iter().filter(is_of_qmq).cloned().collect();
    put_qmq_filters(out, &of_qmq)?;
    put_count(out, "filters", FILTERS_MAX, filters.len().saturating_sub(of_qmq.len()))?;
    for filter in filters {
        if let Filter::Attribute { key, rule } = filter {
            out.put_u8(rule.number());
            put_text(out, "filters", key)?;
            put_blob(out, "filters", ASKED_WORD_BYTES_MAX, rule.value().unwrap_or_default())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queues::tags::TagRule;

    fn filters() -> Vec<Filter> {
        let attribute = |key: &str, rule| Filter::Attribute { key: key.to_owned(), rule };
        vec![
            Filter::Tags { rule: TagRule::Any, tags: vec!["a".to_owned()] },
            attribute("region", AttributeRule::Equals(b"eu".to_vec())),
            attribute("kind", AttributeRule::StartsWith(b"pay".to_vec())),
            attribute("trace", AttributeRule::Present),
        ]
    }

    #[test]
    fn filters_read_back_and_a_filter_that_passes_all_is_dropped() {
        for wanted in [filters(), filters().split_off(1), filters()[..1].to_vec(), Vec::new()] {
            let mut out = Vec::new();
            put_filters(&mut out, &wanted).unwrap();
            let mut reader = Reader::new(&out);
            assert_eq!(read_filters(&mut reader).unwrap(), wanted);
            assert!(reader.rest().is_empty());
        }
    }

    #[test]
    fn bad_filters_are_refused() {
        let mut out = Vec::new();
        put_filters(&mut out, &[filters().remove(3)]).unwrap();
        let key = out.len() - "trace".len() - 4 - 2 - 1;
        for (at, byte, field) in [(key, 3, "rule"), (out.len() - 1, 1, "filters")] {
            let mut bad = out.clone();
            bad[at] = byte;
            let error = read_filters(&mut Reader::new(&bad)).unwrap_err();
            assert!(format!("{error:?}").contains(field), "{error:?}");
        }
        let mut bad = out.clone();
        *bad.last_mut().unwrap() = 1;
        bad.push(b'x');
        assert!(format!("{:?}", read_filters(&mut Reader::new(&bad)).unwrap_err()).contains("value"));
        let long = Filter::Attribute { key: "k".to_owned(), rule: AttributeRule::Equals(vec![0; 256]) };
        put_filters(&mut Vec::new(), &[long]).unwrap_err();
        put_filters(&mut Vec::new(), &vec![filters().remove(3); FILTERS_MAX + 1]).unwrap_err();
    }
}
