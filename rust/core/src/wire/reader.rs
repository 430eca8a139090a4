//! Big-endian fields, read from the front of borrowed bytes. Each is checked against its limit before use.

use super::malformed::{Malformed, Read};

/// The bytes that are not read yet.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

macro_rules! numbers {
    ($($name:ident: $kind:ty),*) => {
        $(
            #[doc = concat!("The next field, as `", stringify!($kind), "`.")]
            ///
            /// # Errors
            /// `Short` naming `field`.
            pub fn $name(&mut self, field: &'static str) -> Read<$kind> {
                self.array(field).map(<$kind>::from_be_bytes)
            }
        )*
    };
}

impl<'a> Reader<'a> {
    /// A reader of these bytes.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    numbers!(u8: u8, i8: i8, u16: u16, i16: i16, u32: u32, i32: i32, u64: u64, i64: i64);

    /// The bytes that are not read yet.
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// True if nothing is left.
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next `count` bytes.
    ///
    /// # Errors
    /// `Short` naming `field`.
    pub fn bytes(&mut self, field: &'static str, count: usize) -> Read<&'a [u8]> {
        let short = Malformed::Short { field, needed: count, left: self.rest.len() };
        let (head, rest) = self.rest.split_at_checked(count).ok_or(short)?;
        self.rest = rest;
        Ok(head)
    }

    /// The next `N` bytes.
    ///
    /// # Errors
    /// `Short` naming `field`.
    pub fn array<const N: usize>(&mut self, field: &'static str) -> Read<[u8; N]> {
        let short = Malformed::Short { field, needed: N, left: self.rest.len() };
        let (head, rest) = self.rest.split_first_chunk::<N>().ok_or(short)?;
        self.rest = rest;
        Ok(*head)
    }

    /// QMQ's `str`: a signed 16-bit length and UTF-8.
    ///
    /// # Errors
    /// `Value` for a negative length, `Short`, `NotText`, naming `field`.
    pub fn text(&mut self, field: &'static str) -> Read<&'a str> {
        let length = self.i16(field)?;
        let expected = "a length from 0 to 32767";
        let count =
            usize::try_from(length).map_err(|_| Malformed::Value { field, expected, found: i64::from(length) })?;
        utf8(field, self.bytes(field, count)?)
    }

    /// Bytes after an unsigned 32-bit length of at most `limit`.
    ///
    /// # Errors
    /// `TooLarge`, `Short`, naming `field`.
    pub fn blob(&mut self, field: &'static str, limit: usize) -> Read<&'a [u8]> {
        let length = self.u32(field)?;
        if length as usize > limit {
            return Err(Malformed::TooLarge { field, limit: limit as u64, found: u64::from(length) });
        }
        self.bytes(field, length as usize)
    }

    /// A count of items that take at least `bytes_each` bytes each. A count that the remaining bytes cannot hold is
    /// refused.
    ///
    /// # Errors
    /// `TooLarge` over `limit`, `Short`, naming `field`.
    pub fn count(&mut self, field: &'static str, limit: usize, bytes_each: usize) -> Read<usize> {
        let count = self.u32(field)? as usize;
        if count > limit {
            return Err(Malformed::TooLarge { field, limit: limit as u64, found: count as u64 });
        }
        let needed = count.saturating_mul(bytes_each);
        if needed > self.rest.len() {
            return Err(Malformed::Short { field, needed, left: self.rest.len() });
        }
        Ok(count)
    }

    /// A byte that is 0 or 1.
    ///
    /// # Errors
    /// `Value`, `Short`, naming `field`.
    pub fn flag(&mut self, field: &'static str) -> Read<bool> {
        match self.u8(field)? {
            0 => Ok(false),
            1 => Ok(true),
            found => Err(Malformed::Value { field, expected: "0 or 1", found: i64::from(found) }),
        }
    }

    /// Checks that no bytes are left.
    ///
    /// # Errors
    /// `LeftOver` naming `field`.
    pub const fn finish(&self, field: &'static str) -> Read<()> {
        if self.rest.is_empty() { Ok(()) } else { Err(Malformed::LeftOver { field, count: self.rest.len() }) }
    }
}

/// These bytes as text.
pub(super) fn utf8<'a>(field: &'static str, bytes: &'a [u8]) -> Read<&'a str> {
    std::str::from_utf8(bytes).map_err(|error| Malformed::NotText { field, offset: error.valid_up_to() })
}
