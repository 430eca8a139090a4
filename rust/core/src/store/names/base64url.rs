//! base64url without padding (RFC 4648 §5): bytes as ASCII that is safe in URLs and databases.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Appends the text of these bytes, four letters for each three bytes; their number is a multiple of 3.
pub(in crate::store) fn encode(bytes: &[u8], text: &mut String) {
    for chunk in bytes.chunks(3) {
        let bits = chunk.iter().fold(0_u32, |bits, byte| (bits << 8) | u32::from(*byte));
        for shift in [18, 12, 6, 0] {
            text.push(char::from(ALPHABET.get((bits >> shift) as usize & 63).copied().unwrap_or_default()));
        }
    }
}

/// Reads the text of `count` bytes, a multiple of 3; `None` if the text is malformed.
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
