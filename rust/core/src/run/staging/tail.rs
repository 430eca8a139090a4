//! The end of a staged run's footer, after the fields of a schedule run.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 4 | `contents`: CRC-32 of the header checks of all records, then of the checks of all blocks, in order |
//! | 4 | 4 | `name_count` |
//! | 8 | any | names: `length u16`, then its bytes; rows have the places of names, from 1 |

use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::STAGED_NAMES_MAX;

/// The range of the header check in a record.
const HEADER_CHECK: std::ops::Range<usize> = 12..16;

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct StagedTailHead {
    contents: U32,
    name_count: U32,
}
const _: () = assert!(size_of::<StagedTailHead>() == 8);

/// The fields of the tail; see the module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::run) struct StagedTail {
    pub(in crate::run) contents: u32,
    pub(in crate::run) names: Vec<String>,
}

impl StagedTail {
    pub(in crate::run) fn encode(&self, out: &mut Vec<u8>) {
        let name_count = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        let head = StagedTailHead { contents: U32::new(self.contents), name_count: U32::new(name_count) };
        out.extend_from_slice(head.as_bytes());
        for name in &self.names {
            out.extend_from_slice(&u16::try_from(name.len()).unwrap_or(u16::MAX).to_le_bytes());
            out.extend_from_slice(name.as_bytes());
        }
    }

    /// Takes the tail off the front of `rest`. `None` if parts are missing or a name is not text.
    pub(in crate::run) fn take(rest: &mut &[u8]) -> Option<Self> {
        let (head, mut tail) = StagedTailHead::read_from_prefix(rest).ok()?;
        if head.name_count.get() > STAGED_NAMES_MAX {
            return None;
        }
        let mut names = Vec::new();
        for _ in 0..head.name_count.get() {
            let (length, behind) = tail.split_first_chunk::<2>()?;
            let (name, behind) = behind.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
            names.push(std::str::from_utf8(name).ok()?.to_owned());
            tail = behind;
        }
        *rest = tail;
        Some(Self { contents: head.contents.get(), names })
    }
}

/// The header check of an encoded record.
pub(in crate::run) fn header_check_of(record: &[u8]) -> &[u8] {
    record.get(HEADER_CHECK).unwrap_or_default()
}
