//! The kernel's protocol, version 7.31: requests as read from `/dev/fuse`, and their answers. Numbers are in native
//! byte order, as in `linux/fuse.h`.

use rustix::io::Errno;

/// The protocol version: every kernel from Linux 5.4 on supports it.
const MAJOR: u32 = 7;
const MINOR: u32 = 31;
/// The most bytes of one write.
pub(crate) const WRITE_BYTES_MAX: u32 = 1 << 20;
/// Bytes of the largest request.
pub(crate) const REQUEST_BYTES_MAX: usize = WRITE_BYTES_MAX as usize + 4096;
const PAGES_MAX: u16 = 256;
const BIG_WRITES: u32 = 1 << 5;
const MAX_PAGES: u32 = 1 << 22;
/// How long the kernel may cache names: practically without end, since only the kernel changes them.
const NAMES_VALID_S: u64 = 1 << 30;

/// `FOPEN_KEEP_CACHE`.
const KEEP_CACHE: u32 = 1 << 1;

const HEADER_BYTES: usize = 40;
const ANSWER_BYTES: usize = 16;

/// The requested operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Operation {
    Lookup,
    Forget,
    Status,
    SetStatus,
    CreateFolder,
    Remove,
    RemoveFolder,
    Rename,
    Rename2,
    Open,
    Read,
    Write,
    FileSystemStatus,
    Release,
    Sync,
    Begin,
    OpenFolder,
    List,
    ReleaseFolder,
    SyncFolder,
    Create,
    Interrupt,
    Allocate,
    Other,
}

impl Operation {
    fn of(number: u32) -> Self {
        match number {
            1 => Self::Lookup,
            2 | 42 => Self::Forget,
            3 => Self::Status,
            4 => Self::SetStatus,
            9 => Self::CreateFolder,
            10 => Self::Remove,
            11 => Self::RemoveFolder,
            12 => Self::Rename,
            14 => Self::Open,
            15 => Self::Read,
            16 => Self::Write,
            17 => Self::FileSystemStatus,
            18 => Self::Release,
            20 => Self::Sync,
            26 => Self::Begin,
            27 => Self::OpenFolder,
            28 => Self::List,
            29 => Self::ReleaseFolder,
            30 => Self::SyncFolder,
            35 => Self::Create,
            36 => Self::Interrupt,
            43 => Self::Allocate,
            45 => Self::Rename2,
            _ => Self::Other,
        }
    }

    /// True if the operation may change the disk.
    pub(crate) const fn changes(self) -> bool {
        matches!(
            self,
            Self::Create
                | Self::CreateFolder
                | Self::Write
                | Self::Allocate
                | Self::SetStatus
                | Self::Rename
                | Self::Rename2
                | Self::Remove
                | Self::RemoveFolder
                | Self::Sync
                | Self::SyncFolder
        )
    }
}

/// One request, whose arguments are read one after the other.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    pub(crate) operation: Operation,
    pub(crate) unique: u64,
    pub(crate) node: u64,
    rest: &'a [u8],
}

impl<'a> Request<'a> {
    pub(crate) fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (header, rest) = bytes.split_at_checked(HEADER_BYTES)?;
        let mut head = Self { operation: Operation::Other, unique: 0, node: 0, rest: header };
        let _length = head.u32().ok()?;
        let operation = Operation::of(head.u32().ok()?);
        let (unique, node) = (head.u64().ok()?, head.u64().ok()?);
        Some(Self { operation, unique, node, rest })
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], Errno> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(Errno::INVAL)?;
        self.rest = rest;
        Ok(*taken)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Errno> {
        self.take().map(u32::from_ne_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Errno> {
        self.take().map(u64::from_ne_bytes)
    }

    /// Skips unused bytes.
    pub(crate) fn skip(&mut self, bytes: usize) -> Result<(), Errno> {
        self.rest = self.rest.get(bytes..).ok_or(Errno::INVAL)?;
        Ok(())
    }

    /// A name that ends with a zero.
    pub(crate) fn name(&mut self) -> Result<&'a [u8], Errno> {
        let end = self.rest.iter().position(|byte| *byte == 0).ok_or(Errno::INVAL)?;
        let (name, rest) = self.rest.split_at_checked(end).ok_or(Errno::INVAL)?;
        self.rest = rest.get(1..).unwrap_or_default();
        Ok(name)
    }

    pub(crate) fn bytes(&mut self, count: u32) -> Result<&'a [u8], Errno> {
        let (taken, rest) = self.rest.split_at_checked(count as usize).ok_or(Errno::INVAL)?;
        self.rest = rest;
        Ok(taken)
    }
}

/// An answer, filled field by field.
#[derive(Debug)]
pub(crate) struct Answer {
    bytes: Vec<u8>,
}

impl Default for Answer {
    fn default() -> Self {
        Self { bytes: vec![0; ANSWER_BYTES] }
    }
}

/// The attributes of a file or folder, for the kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attributes {
    pub(crate) number: u64,
    pub(crate) length: u64,
    pub(crate) is_folder: bool,
}

impl Answer {
    pub(crate) fn u32(&mut self, number: u32) -> &mut Self {
        self.raw(&number.to_ne_bytes())
    }

    pub(crate) fn u64(&mut self, number: u64) -> &mut Self {
        self.raw(&number.to_ne_bytes())
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// The bytes so far, without their header.
    pub(crate) fn length(&self) -> usize {
        self.bytes.len() - ANSWER_BYTES
    }

    /// The answer to [`Operation::Begin`]: the capabilities of this file system.
    pub(crate) fn begin(&mut self, readahead_max: u32) {
        self.u32(MAJOR).u32(MINOR).u32(readahead_max).u32(BIG_WRITES | MAX_PAGES);
        self.raw(&12_u16.to_ne_bytes()).raw(&9_u16.to_ne_bytes());
        self.u32(WRITE_BYTES_MAX).u32(1).raw(&PAGES_MAX.to_ne_bytes()).raw(&[0; 2 + 8 * 4]);
    }

    /// A name that was found.
    pub(crate) fn entry(&mut self, of: Attributes) -> &mut Self {
        self.u64(of.number).u64(0).u64(NAMES_VALID_S).u64(0).u64(0).attributes(of)
    }

    /// The answer to [`Operation::Status`], which the kernel must not cache.
    pub(crate) fn status(&mut self, of: Attributes) -> &mut Self {
        self.u64(0).u64(0).attributes(of)
    }

    fn attributes(&mut self, of: Attributes) -> &mut Self {
        let (mode, links) = if of.is_folder { (0o040_700, 2) } else { (0o100_600, 1) };
        self.u64(of.number).u64(of.length).u64(of.length.div_ceil(512));
        self.u64(0).u64(0).u64(0).u32(0).u32(0).u32(0);
        self.u32(mode).u32(links).u32(0).u32(0).u32(0).u32(4096).u32(0)
    }

    /// The answer to an open. As on any disk, the kernel keeps its cache of the file.
    pub(crate) fn opened(&mut self) -> &mut Self {
        self.u64(0).u32(KEEP_CACHE).u32(0)
    }

    /// One name of a folder; false if there is no room for it.
    pub(crate) fn listed(&mut self, name: &[u8], number: u64, is_folder: bool, next: u64, room: usize) -> bool {
        let length = (24 + name.len()).next_multiple_of(8);
        if self.length() + length > room {
            return false;
        }
        self.u64(number).u64(next).u32(u32::try_from(name.len()).unwrap_or(0)).u32(if is_folder { 4 } else { 8 });
        self.raw(name);
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        true
    }

    /// The encoded bytes of the answer.
    pub(crate) fn encode(mut self, unique: u64) -> Vec<u8> {
        let length = u32::try_from(self.bytes.len()).unwrap_or(0);
        let header = [&length.to_ne_bytes()[..], &0_i32.to_ne_bytes(), &unique.to_ne_bytes()].concat();
        self.bytes.splice(..ANSWER_BYTES, header);
        self.bytes
    }

    /// The encoded bytes of a failure.
    pub(crate) fn refuse(unique: u64, errno: Errno) -> Vec<u8> {
        let length = u32::try_from(ANSWER_BYTES).unwrap_or(0);
        [&length.to_ne_bytes()[..], &(-errno.raw_os_error()).to_ne_bytes(), &unique.to_ne_bytes()].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_have_the_lengths_that_the_kernel_expects() {
        let of = Attributes { number: 3, length: 700, is_folder: false };
        let length = |fill: &dyn Fn(&mut Answer)| {
            let mut answer = Answer::default();
            fill(&mut answer);
            answer.length()
        };
        assert_eq!(length(&|answer| answer.begin(0)), 64);
        assert_eq!(
            length(&|answer| {
                answer.entry(of);
            }),
            128
        );
        assert_eq!(
            length(&|answer| {
                answer.status(of);
            }),
            104
        );
        assert_eq!(
            length(&|answer| {
                answer.opened();
            }),
            16
        );
        assert_eq!(length(&|answer| assert!(answer.listed(b"abc", 3, false, 1, 100))), 32);
    }

    #[test]
    fn a_request_that_is_cut_short_is_refused() {
        assert!(Request::decode(&[0; 39]).is_none());
        let mut request = Request::decode(&[0; 44]).unwrap();
        assert_eq!(request.u64(), Err(Errno::INVAL));
        assert_eq!(request.u32(), Ok(0));
        assert_eq!(request.name(), Err(Errno::INVAL));
    }
}
