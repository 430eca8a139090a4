//! The encoding of tokens for another process: numbers of 8 bytes, texts behind their length, and a check of the whole.
//! The release that wrote a token reads it, and it is stored nowhere.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use delaymq_core::error::{Error, Result};

use crate::refused;

const CHECK_BYTES: usize = 4;

#[derive(Default)]
pub(crate) struct TokenWriter(Vec<u8>);

impl TokenWriter {
    pub(crate) fn number(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        let check = crc32fast::hash(&self.0);
        self.0.extend_from_slice(&check.to_le_bytes());
        self.0
    }
}

pub(crate) struct TokenReader<'a>(&'a [u8]);

impl<'a> TokenReader<'a> {
    pub(crate) fn new(token: &'a [u8]) -> Result<Self> {
        let split = token.len().checked_sub(CHECK_BYTES).and_then(|at| token.split_at_checked(at));
        let (rest, check) = split.ok_or_else(|| malformed("fewer bytes than its check has"))?;
        if crc32fast::hash(rest).to_le_bytes().as_slice() == check {
            Ok(Self(rest))
        } else {
            Err(malformed("other bytes"))
        }
    }

    pub(crate) fn number(&mut self) -> Result<u64> {
        let bytes = self.take(8)?.try_into().map_err(|_| malformed("fewer bytes"))?;
        Ok(u64::from_le_bytes(bytes))
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8]> {
        let length = usize::try_from(self.number()?).map_err(|_| malformed("a length beyond memory"))?;
        self.take(length)
    }

    pub(crate) fn finish(self) -> Result<()> {
        if self.0.is_empty() { Ok(()) } else { Err(malformed("more bytes than it has")) }
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(length).ok_or_else(|| malformed("fewer bytes"))?;
        self.0 = tail;
        Ok(head)
    }
}

pub(crate) fn malformed(found: &str) -> Error {
    refused("range", "a range that `plan` of this release made", found)
}

/// A value of a token.
pub(crate) trait Coded: Sized {
    fn put(&self, out: &mut TokenWriter);
    /// Reads what [`Self::put`] wrote.
    fn take(from: &mut TokenReader<'_>) -> Result<Self>;
}

/// Codes structs as their fields, in the order given here.
macro_rules! coded {
    ($($name:ty { $($field:tt),+ })+) => {
        $(impl Coded for $name {
            fn put(&self, out: &mut TokenWriter) {
                $(self.$field.put(out);)+
            }

            fn take(from: &mut TokenReader<'_>) -> Result<Self> {
                Ok(Self { $($field: Coded::take(from)?),+ })
            }
        })+
    };
}
pub(crate) use coded;

impl Coded for u64 {
    fn put(&self, out: &mut TokenWriter) {
        out.number(*self);
    }

    fn take(from: &mut TokenReader<'_>) -> Result<Self> {
        from.number()
    }
}

impl Coded for u32 {
    fn put(&self, out: &mut TokenWriter) {
        out.number(u64::from(*self));
    }

    fn take(from: &mut TokenReader<'_>) -> Result<Self> {
        Self::try_from(from.number()?).map_err(|_| malformed("a number beyond its bounds"))
    }
}

impl Coded for bool {
    fn put(&self, out: &mut TokenWriter) {
        out.number(u64::from(*self));
    }

    fn take(from: &mut TokenReader<'_>) -> Result<Self> {
        Ok(from.number()? != 0)
    }
}

impl Coded for [u8; 16] {
    fn put(&self, out: &mut TokenWriter) {
        out.bytes(self);
    }

    fn take(from: &mut TokenReader<'_>) -> Result<Self> {
        from.bytes()?.try_into().map_err(|_| malformed("an identity of another length"))
    }
}

impl Coded for String {
    fn put(&self, out: &mut TokenWriter) {
        out.bytes(self.as_bytes());
    }

    fn take(from: &mut TokenReader<'_>) -> Result<Self> {
        Self::from_utf8(from.bytes()?.to_vec()).map_err(|_| malformed("a name that is no text"))
    }
}

impl<T: Coded + Copy + Default> Coded for Option<T> {
    fn put(&self, out: &mut TokenWriter) {
        (self.is_some(), self.unwrap_or_default()).put(out);
    }

    fn take(from: &mut TokenReader<'_>) -> Result<Self> {
        let (is_some, value) = Coded::take(from)?;
        Ok(if is_some { Some(value) } else { None })
    }
}

impl<A: Coded, B: Coded> Coded for (A, B) {
    fn put(&self, out: &mut TokenWriter) {
        self.0.put(out);
        self.1.put(out);
    }

    fn take(from: &mut TokenReader<'_>) -> Result<Self> {
        Ok((Coded::take(from)?, Coded::take(from)?))
    }
}

impl<T: Coded> Coded for Arc<T> {
    fn put(&self, out: &mut TokenWriter) {
        T::put(self, out);
    }

    fn take(from: &mut TokenReader<'_>) -> Result<Self> {
        T::take(from).map(Self::new)
    }
}

impl<T: Coded> Coded for Vec<T> {
    fn put(&self, out: &mut TokenWriter) {
        out.number(self.len() as u64);
        for one in self {
            one.put(out);
        }
    }

    fn take(from: &mut TokenReader<'_>) -> Result<Self> {
        (0..from.number()?).map(|_| T::take(from)).collect()
    }
}

impl<T: Coded + Ord> Coded for BTreeSet<T> {
    fn put(&self, out: &mut TokenWriter) {
        out.number(self.len() as u64);
        for one in self {
            one.put(out);
        }
    }

    fn take(from: &mut TokenReader<'_>) -> Result<Self> {
        Ok(Vec::take(from)?.into_iter().collect())
    }
}

impl<K: Coded + Ord, V: Coded> Coded for BTreeMap<K, V> {
    fn put(&self, out: &mut TokenWriter) {
        out.number(self.len() as u64);
        for (key, value) in self {
            key.put(out);
            value.put(out);
        }
    }

    fn take(from: &mut TokenReader<'_>) -> Result<Self> {
        Ok(Vec::take(from)?.into_iter().collect())
    }
}
