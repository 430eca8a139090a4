//! Tags and attributes from JSON: the reverse of `crate::rows::json`. Only lists of texts and objects of texts are
//! read, so nothing is nested, and only wanted parts are kept.

use std::iter::Peekable;
use std::str::Chars;

/// Lone surrogates that stand for bytes which are no UTF-8, as Python's `surrogateescape` has them.
const ESCAPED_BYTES: std::ops::RangeInclusive<u32> = 0xDC80..=0xDCFF;
const HIGH: std::ops::RangeInclusive<u32> = 0xD800..=0xDBFF;
const LOW: std::ops::RangeInclusive<u32> = 0xDC00..=0xDFFF;

/// The texts of a list, in order; `None` if it is no such list, or has more than `most`.
pub(super) fn list(text: &str, most: usize) -> Option<Vec<String>> {
    let mut reader = Reader(text.chars().peekable());
    let mut found = Vec::new();
    reader.each('[', ']', |reader| {
        found.push(String::from_utf8(reader.text()?).ok()?);
        (found.len() <= most).then_some(())
    })?;
    Some(found)
}

/// Keys and values of an object, in order; `None` if it is no such object, or has more than `most`.
pub(super) fn object(text: &str, most: usize) -> Option<Vec<(String, Vec<u8>)>> {
    let mut reader = Reader(text.chars().peekable());
    let mut found = Vec::new();
    reader.each('{', '}', |reader| {
        let key = String::from_utf8(reader.text()?).ok()?;
        reader.blank();
        reader.take(':')?;
        reader.blank();
        found.push((key, reader.text()?));
        (found.len() <= most).then_some(())
    })?;
    Some(found)
}

struct Reader<'a>(Peekable<Chars<'a>>);

impl Reader<'_> {
    /// What stands between two signs, separated by commas, and nothing behind it.
    fn each(&mut self, open: char, close: char, mut read: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.blank();
        self.take(open)?;
        self.blank();
        if self.take(close).is_none() {
            loop {
                self.blank();
                read(self)?;
                self.blank();
                if self.take(close).is_some() {
                    break;
                }
                self.take(',')?;
            }
        }
        self.blank();
        self.0.peek().is_none().then_some(())
    }

    fn blank(&mut self) {
        while self.0.next_if(|letter| matches!(letter, ' ' | '\t' | '\n' | '\r')).is_some() {}
    }

    fn take(&mut self, sign: char) -> Option<()> {
        self.0.next_if_eq(&sign).map(drop)
    }

    /// A text, as bytes.
    fn text(&mut self) -> Option<Vec<u8>> {
        self.take('"')?;
        let mut bytes = Vec::new();
        loop {
            match self.0.next()? {
                '"' => return Some(bytes),
                '\\' => self.escaped(&mut bytes)?,
                control if control < ' ' => return None,
                letter => put(&mut bytes, letter),
            }
        }
    }

    fn escaped(&mut self, bytes: &mut Vec<u8>) -> Option<()> {
        let letter = match self.0.next()? {
            same @ ('"' | '\\' | '/') => same,
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => return self.numbered(bytes),
            _ => return None,
        };
        put(bytes, letter);
        Some(())
    }

    fn numbered(&mut self, bytes: &mut Vec<u8>) -> Option<()> {
        let code = self.digits()?;
        if ESCAPED_BYTES.contains(&code) {
            bytes.push(u8::try_from(code & 0xFF).ok()?);
            return Some(());
        }
        if !HIGH.contains(&code) {
            put(bytes, char::from_u32(code)?);
            return Some(());
        }
        self.take('\\')?;
        self.take('u')?;
        let low = self.digits()?;
        if !LOW.contains(&low) {
            return None;
        }
        put(bytes, char::from_u32(0x1_0000 + ((code - 0xD800) << 10) + (low - 0xDC00))?);
        Some(())
    }

    fn digits(&mut self) -> Option<u32> {
        (0..4).try_fold(0, |number, _| Some(number * 16 + self.0.next()?.to_digit(16)?))
    }
}

fn put(bytes: &mut Vec<u8>, letter: char) {
    bytes.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
}
