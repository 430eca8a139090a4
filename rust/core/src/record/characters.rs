//! Characters that deceive a reader: names with the same look must be the same name.
//!
//! Two names may look the same and be different bytes: one holds a character that is not shown, or the same letters
//! are composed in another way. Names are compared as they were given, byte by byte, so such names are refused.
//! The classes of characters are those of Unicode Standard Annex #44, the composition is that of Annex #15.

use unicode_normalization::is_nfc;
use unicode_properties::{GeneralCategory, UnicodeGeneralCategory};

/// The requirement on the characters of names, as an error states it.
pub(super) const EXPECTED: &str = "visible, assigned characters in normalization form NFC";

/// The first thing in `text` that deceives a reader, as an error states it; `None` for every other text.
///
/// A character of the class Cf (bidirectional marks, zero-width characters, the byte order mark) is not shown. A
/// character of the class Cn is not assigned in the version of Unicode that this program knows: a later version may
/// put it into the class Cf, or compose it. A text that is not in NFC looks like the text that is.
pub(super) fn deception(text: &str) -> Option<String> {
    if text.is_ascii() {
        return None;
    }
    for letter in text.chars() {
        let class = match letter.general_category() {
            GeneralCategory::Format => "a format character",
            GeneralCategory::Unassigned => "an unassigned character",
            _ => continue,
        };
        return Some(format!("U+{:04X}, {class}", u32::from(letter)));
    }
    (!is_nfc(text)).then(|| "text in another normalization form".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_like_another_name_is_named() {
        for (text, found) in [
            ("order\u{200b}", "U+200B, a format character"),
            ("order\u{202e}s", "U+202E, a format character"),
            ("\u{feff}order", "U+FEFF, a format character"),
            ("order\u{e0041}", "U+E0041, a format character"),
            ("order\u{378}", "U+0378, an unassigned character"),
            ("order\u{10ffff}", "U+10FFFF, an unassigned character"),
            ("cafe\u{301}", "text in another normalization form"),
            ("\u{212b}", "text in another normalization form"),
            ("\u{1100}\u{1161}", "text in another normalization form"),
        ] {
            assert_eq!(deception(text).as_deref(), Some(found), "{text:?}");
        }
    }

    #[test]
    fn names_of_all_scripts_deceive_nobody() {
        for text in ["order.timeout-1_a:b", "café", "заказ", "注文", "주문", "طلب", "ऑर्डर", "🛒", "x̂"]
        {
            assert_eq!(deception(text), None, "{text:?}");
        }
    }
}
