//! Little-endian fields, written and read in the same order: the body of a checkpoint.

use crate::error::{Error, Result};

/// Appends fields.
#[derive(Debug, Default)]
pub(in crate::store) struct FieldWriter {
    pub(in crate::store) bytes: Vec<u8>,
}

impl FieldWriter {
    pub(in crate::store) fn u32(&mut self, value: u32) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(in crate::store) fn u64(&mut self, value: u64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// Appends the number of items that follow.
    pub(in crate::store) fn count(&mut self, value: usize) {
        self.u64(value as u64);
    }

    pub(in crate::store) fn array(&mut self, value: &[u8; 16]) {
        self.bytes.extend_from_slice(value);
    }

    pub(in crate::store) fn text(&mut self, value: &str) {
        self.blob(value.as_bytes());
    }

    pub(in crate::store) fn blob(&mut self, value: &[u8]) {
        self.count(value.len());
        self.bytes.extend_from_slice(value);
    }
}

/// Reads fields. Too few bytes are a `Corrupt` error.
#[derive(Debug)]
pub(in crate::store) struct FieldReader<'a> {
    path: &'a str,
    start: usize,
    rest: &'a [u8],
}

impl<'a> FieldReader<'a> {
    pub(in crate::store) fn new(path: &'a str, bytes: &'a [u8]) -> Self {
        Self { path, start: bytes.len(), rest: bytes }
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let Some((head, tail)) = self.rest.split_at_checked(length) else {
            return Err(self.malformed(&format!("{length} more bytes")));
        };
        self.rest = tail;
        Ok(head)
    }

    /// A `Corrupt` error at the current offset.
    pub(in crate::store) fn malformed(&self, expected: &str) -> Error {
        let at = self.start.saturating_sub(self.rest.len());
        Error::corrupt(self.path, at as u64, expected, format!("{} bytes left", self.rest.len()))
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N]> {
        let bytes = self.take(N)?;
        bytes.try_into().map_err(|_| self.malformed("a field"))
    }

    pub(in crate::store) fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.fixed()?))
    }

    pub(in crate::store) fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.fixed()?))
    }

    pub(in crate::store) fn array(&mut self) -> Result<[u8; 16]> {
        self.fixed()
    }

    /// Reads a count of items that each take at least `bytes_each` bytes. A count that the remaining bytes cannot hold
    /// is refused, so that a damaged count cannot cause an allocation larger than the file.
    pub(in crate::store) fn count(&mut self, bytes_each: usize) -> Result<usize> {
        let count = self.u64()?;
        let possible = (self.rest.len() / bytes_each.max(1)) as u64;
        if count > possible {
            return Err(self.malformed(&format!("a count of at most {possible}, not {count}")));
        }
        Ok(count as usize)
    }

    pub(in crate::store) fn blob(&mut self) -> Result<&'a [u8]> {
        let length = self.count(1)?;
        self.take(length)
    }

    pub(in crate::store) fn text(&mut self) -> Result<String> {
        let bytes = self.blob()?.to_vec();
        String::from_utf8(bytes).map_err(|_| self.malformed("UTF-8 text"))
    }

    pub(in crate::store) fn end(&self) -> Result<()> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.malformed("the end")) }
    }
}
