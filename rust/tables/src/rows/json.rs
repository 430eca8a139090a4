//! Tags and attributes as JSON. Bytes that are not UTF-8 become the escapes of lone surrogates, as with Python's
//! `surrogateescape`, so that nothing is lost.

use std::fmt::Write;

/// A list of texts.
pub(crate) fn put_list<'a>(out: &mut String, texts: impl Iterator<Item = &'a str>) {
    out.push('[');
    for (place, text) in texts.enumerate() {
        if place > 0 {
            out.push_str(", ");
        }
        put_text(out, text.as_bytes());
    }
    out.push(']');
}

/// An object of texts, in the order given.
pub(crate) fn put_object<'a>(out: &mut String, pairs: impl Iterator<Item = (&'a str, &'a [u8])>) {
    out.push('{');
    for (place, (key, value)) in pairs.enumerate() {
        if place > 0 {
            out.push_str(", ");
        }
        put_text(out, key.as_bytes());
        out.push_str(": ");
        put_text(out, value);
    }
    out.push('}');
}

fn put_text(out: &mut String, bytes: &[u8]) {
    out.push('"');
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                control if control < ' ' => escape(out, u32::from(control)),
                other => out.push(other),
            }
        }
        for byte in chunk.invalid() {
            escape(out, 0xDC00 + u32::from(*byte));
        }
    }
    out.push('"');
}

fn escape(out: &mut String, code: u32) {
    // Writing to a text cannot fail.
    let _ = write!(out, "\\u{code:04x}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped_and_bytes_that_are_none_are_kept() {
        let mut out = String::new();
        put_list(&mut out, ["a", "\"\\\n\u{1}ß"].into_iter());
        assert_eq!(out, "[\"a\", \"\\\"\\\\\\n\\u0001ß\"]");
        out.clear();
        put_object(&mut out, [("k", b"v\xff".as_slice()), ("l", b"")].into_iter());
        assert_eq!(out, "{\"k\": \"v\\udcff\", \"l\": \"\"}");
    }
}
