//! Tokens. A server keeps only their hashes.
//!
//! A token has 256 random bits, so its SHA-256 gives nothing away: no one can try so many. A slow or salted hash is for
//! passwords that people choose. Here it would let strangers keep the server's only thread busy.

use std::fmt;

use delaymq_core::error::{Error, Result};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

const PREFIX: &str = "sha256:";
const BYTES: usize = 32;

/// The hash of a token.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TokenHash([u8; BYTES]);

impl TokenHash {
    /// The hash of this token.
    pub fn of(token: &[u8]) -> Self {
        Self(Sha256::digest(token).into())
    }

    /// Reads `sha256:` and 64 hexadecimal digits.
    ///
    /// # Errors
    /// `InvalidArgument` naming `argument`. The error does not repeat the text, which may be the token itself.
    pub fn parse(argument: &'static str, text: &str) -> Result<Self> {
        let digits = text.strip_prefix(PREFIX).map(str::as_bytes).filter(|digits| digits.len() == BYTES * 2);
        digits.and_then(read).map(Self).ok_or_else(|| {
            let expected = "sha256: and 64 hexadecimal digits, as `delaymq token` prints them".to_owned();
            Error::InvalidArgument { argument, expected, found: "other text".to_owned() }
        })
    }

    /// True for the token with this hash. The time that it takes gives nothing away.
    pub fn is_of(&self, token: &[u8]) -> bool {
        Self::of(token).0.ct_eq(&self.0).into()
    }
}

fn read(digits: &[u8]) -> Option<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        for digit in pair {
            *byte = *byte << 4 | char::from(*digit).to_digit(16)? as u8;
        }
    }
    Some(bytes)
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("TokenHash(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SHA-256 of "abc", from FIPS 180-2.
    const OF_ABC: &str = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn a_token_is_known_by_its_hash() {
        let hash = TokenHash::parse("server.token_hash", OF_ABC).unwrap();
        assert_eq!(hash, TokenHash::of(b"abc"));
        assert_eq!(TokenHash::parse("server.token_hash", &OF_ABC.to_uppercase().replace("SHA", "sha")).unwrap(), hash);
        assert!(hash.is_of(b"abc"));
        for wrong in [&b""[..], b"ab", b"abcd", b"abC", &[0; 1_024]] {
            assert!(!hash.is_of(wrong));
        }
        assert_eq!(format!("{hash:?}"), "TokenHash(…)");
    }

    #[test]
    fn what_is_no_hash_is_refused_and_not_repeated() {
        let long = format!("{OF_ABC}0");
        let wide = format!("sha256:{}", "é".repeat(32));
        for wrong in ["", "abc", "sha256:", &OF_ABC[7..], &OF_ABC[..70], &long, &wide, &OF_ABC.replace("ba", "+a")] {
            let told = TokenHash::parse("server.token_hash", wrong).unwrap_err().to_string();
            assert!(told.contains("server.token_hash") && (wrong.len() < 8 || !told.contains(wrong)), "{told}");
        }
    }
}
