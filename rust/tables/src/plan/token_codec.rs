//! The encoding of tokens for another process: numbers of 8 bytes, texts behind their length, and a check of the whole.
//! The release that wrote a token reads it, and it is stored nowhere.

use delaymq_core::error::{Error, Result};

const CHECK_BYTES: usize = 4;

#[derive(Default)]
pub(crate) struct TokenWriter(Vec<u8>);

impl TokenWriter {
    pub(crate) fn number(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    pub(crate) fn optional(&mut self, number: Option<u64>) {
        self.number(u64::from(number.is_some()));
        self.number(number.unwrap_or_default());
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

    /// A number of 32 bits.
    pub(crate) fn narrow(&mut self) -> Result<u32> {
        u32::try_from(self.number()?).map_err(|_| malformed("a number beyond its bounds"))
    }

    pub(crate) fn optional(&mut self) -> Result<Option<u64>> {
        let (is_some, number) = (self.number()? != 0, self.number()?);
        Ok(is_some.then_some(number))
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8]> {
        let length = usize::try_from(self.number()?).map_err(|_| malformed("a length beyond memory"))?;
        self.take(length)
    }

    pub(crate) fn text(&mut self) -> Result<String> {
        String::from_utf8(self.bytes()?.to_vec()).map_err(|_| malformed("a name that is no text"))
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
    let expected = "a range that `plan` of this release made".to_owned();
    Error::InvalidArgument { argument: "range", expected, found: found.to_owned() }
}
