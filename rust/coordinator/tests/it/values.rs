//! The value as JSON.

use delaymq_coordinator::{decode, encode};

use crate::samples::register;

#[test]
fn a_value_is_read_as_it_was_written() {
    assert_eq!(decode("here", &encode(&register(7))).unwrap(), register(7));
}

#[test]
fn a_value_that_is_wrong_is_refused_by_name() {
    let good = encode(&register(7));
    let without = |what: &str, with: &str| good.replace(what, with);
    for (text, words) in [
        (String::new(), "the register of a group of copies"),
        ("{}".to_owned(), "missing field"),
        (without("\"format\":1", "\"format\":2"), "format 2"),
        (without("\"timeline\"", "\"more\":1,\"timeline\""), "unknown field"),
        (without("\"serving\"", "\"resting\""), "unknown variant"),
        (without("0101", "01g1"), "32 hexadecimal digits"),
        (without("\"primary\":\"0101", "\"primary\":\"0909"), "a primary in the set"),
        (without("\"min_copies\":2", "\"min_copies\":0"), "min_copies"),
    ] {
        let error = decode("here", &text).unwrap_err().to_string();
        assert!(error.contains(words) && error.starts_with("here holds"), "{text}: {error}");
    }
}
