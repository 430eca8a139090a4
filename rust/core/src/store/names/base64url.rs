//! Bytes as ASCII that may stand in a URL or a database: base64url (RFC 4648 §5), without padding.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Appends the text of these bytes, three of them to four letters; their number is a multiple of 3.
pub(in crate::store) fn encode(bytes: &[u8], text: &mut String) {
    for chunk in bytes.chunks(3) {
        let bits = chunk.iter().fold(0_u32, |bits, byte| (bits << 8) | u32::from(*byte));
        for shift in [18, 12, 6, 0] {
            text.push(char::from(ALPHABET.get((bits >> shift) as usize & 63).copied().unwrap_or_default()));
        }
    }
}

/// Reads a text of so many bytes, a multiple of 3; `None` where it is not one.
pub(in crate::store) fn decode(text: &str, count: usize) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if digits.len() != count / 3 * 4 {
        return None;
    }
    let mut bytes = Vec::with_capacity(count);
    for chunk in digits.chunks(4) {
        let mut bits = 0_u32;
        for digit in chunk {
            let value = ALPHABET.iter().position(|letter| letter == digit)?;
            bits = (bits << 6) | u32::try_from(value).ok()?;
        }
        bytes.extend_from_slice(bits.to_be_bytes().get(1..)?);
    }
    Some(bytes)
}
