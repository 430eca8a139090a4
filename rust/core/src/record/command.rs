//! Facts about single messages and about the log: cancel (kind 2), move (kind 3), void (kind 14) and epoch start
//! (kind 15).

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::header::{RawRecord, encode_record};
use super::read_struct;
use crate::units::{DueKey, Epoch, Millis, ReadyNumber, Sequence, SubjectNumber};

/// The kind byte of a cancel.
pub const KIND_CANCEL: u8 = 2;
/// The kind byte of a move.
pub const KIND_MOVE: u8 = 3;
/// Flag of a move: the caller gave a delay, and not a time.
pub const FLAG_RELATIVE: u8 = 1;
/// The kind byte of a void.
pub const KIND_VOID: u8 = 14;
/// The kind byte of an epoch start.
pub const KIND_EPOCH_START: u8 = 15;

/// Fixed part of a cancel: `target_due_ms u64 | target_sequence u64 | subject u32 | size u32`.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct CancelFixed {
    target_due_ms: U64,
    target_sequence: U64,
    subject: U32,
    size: U32,
}
const _: () = assert!(size_of::<CancelFixed>() == 24);

/// A cancel of the entry with this key. Subject and size come from its receipt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cancel {
    /// The entry's due time and own sequence.
    pub target: DueKey,
    /// Its subject.
    pub subject: SubjectNumber,
    /// Bytes of its body.
    pub size: u32,
}

/// Appends a cancel.
pub fn encode_cancel(out: &mut Vec<u8>, cancel: Cancel) {
    let fixed = CancelFixed {
        target_due_ms: U64::new(cancel.target.due.0),
        target_sequence: U64::new(cancel.target.sequence.0),
        subject: U32::new(cancel.subject.0),
        size: U32::new(cancel.size),
    };
    encode_record(out, KIND_CANCEL, 0, fixed.as_bytes(), &[]);
}

/// Reads a cancel.
pub fn decode_cancel(record: &RawRecord<'_>) -> Option<Cancel> {
    let fixed: CancelFixed = read_struct(record.fixed)?;
    let target = DueKey { due: Millis(fixed.target_due_ms.get()), sequence: Sequence(fixed.target_sequence.get()) };
    Some(Cancel { target, subject: SubjectNumber(fixed.subject.get()), size: fixed.size.get() })
}

/// Fixed part of a move.
///
/// | offset | bytes | field |
/// |---|---|---|
/// | 0 | 8 | `target_due_ms` |
/// | 8 | 8 | `target_sequence` |
/// | 16 | 8 | `due_ms`: the new due time |
/// | 24 | 8 | `delay_ms`: with `FLAG_RELATIVE` the delay that the caller gave, else 0 |
/// | 32 | 4 | `subject` |
/// | 36 | 4 | `size` |
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct MoveFixed {
    target_due_ms: U64,
    target_sequence: U64,
    due_ms: U64,
    delay_ms: U64,
    subject: U32,
    size: U32,
}
const _: () = assert!(size_of::<MoveFixed>() == 40);

/// The entry with this key ends. An entry for the same payload begins under this fact's own sequence, with another
/// due time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Move {
    /// The entry's due time and own sequence.
    pub target: DueKey,
    /// The new due time.
    pub due: Millis,
    /// The delay that the caller gave, in milliseconds; `None` if it gave a time.
    pub delay_ms: Option<u64>,
    /// Its subject, from its receipt.
    pub subject: SubjectNumber,
    /// Bytes of its body, from its receipt.
    pub size: u32,
}

impl Move {
    /// True if both commands ask for the same delay, or for the same time. With a delay, the due times are not
    /// compared: each sending of the same delay gives another time.
    pub fn asks_the_same(&self, due: Millis, delay_ms: Option<u64>) -> bool {
        self.delay_ms == delay_ms && (delay_ms.is_some() || self.due == due)
    }
}

/// Appends a move.
pub fn encode_move(out: &mut Vec<u8>, moved: &Move) {
    let fixed = MoveFixed {
        target_due_ms: U64::new(moved.target.due.0),
        target_sequence: U64::new(moved.target.sequence.0),
        due_ms: U64::new(moved.due.0),
        delay_ms: U64::new(moved.delay_ms.unwrap_or_default()),
        subject: U32::new(moved.subject.0),
        size: U32::new(moved.size),
    };
    let flags = if moved.delay_ms.is_some() { FLAG_RELATIVE } else { 0 };
    encode_record(out, KIND_MOVE, flags, fixed.as_bytes(), &[]);
}

/// Reads a move.
pub fn decode_move(record: &RawRecord<'_>) -> Option<Move> {
    let fixed: MoveFixed = read_struct(record.fixed)?;
    let is_relative = record.header.flags & FLAG_RELATIVE != 0;
    Some(Move {
        target: DueKey { due: Millis(fixed.target_due_ms.get()), sequence: Sequence(fixed.target_sequence.get()) },
        due: Millis(fixed.due_ms.get()),
        delay_ms: is_relative.then(|| fixed.delay_ms.get()),
        subject: SubjectNumber(fixed.subject.get()),
        size: fixed.size.get(),
    })
}

/// Fixed part of a void: `subject u32 | what u32 (0 ready number, 1 pending entry) | number u64 (0) or sequence u64
/// (1)`.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct VoidFixed {
    subject: U32,
    what: U32,
    number: U64,
}

/// Ends a message whose bytes are damaged, for every group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Void {
    /// The ready message with this number of the subject.
    Ready {
        /// The subject.
        subject: SubjectNumber,
        /// Its number there.
        number: ReadyNumber,
    },
    /// The pending entry with this sequence.
    Pending {
        /// The subject; 0 if it cannot be known.
        subject: SubjectNumber,
        /// The entry's own sequence.
        sequence: Sequence,
    },
}

/// Appends a void.
pub fn encode_void(out: &mut Vec<u8>, void: Void) {
    let (subject, what, number) = match void {
        Void::Ready { subject, number } => (subject, 0, number.0),
        Void::Pending { subject, sequence } => (subject, 1, sequence.0),
    };
    let fixed = VoidFixed { subject: U32::new(subject.0), what: U32::new(what), number: U64::new(number) };
    encode_record(out, KIND_VOID, 0, fixed.as_bytes(), &[]);
}

/// Reads a void.
pub fn decode_void(record: &RawRecord<'_>) -> Option<Void> {
    let fixed: VoidFixed = read_struct(record.fixed)?;
    let subject = SubjectNumber(fixed.subject.get());
    match fixed.what.get() {
        0 => Some(Void::Ready { subject, number: ReadyNumber(fixed.number.get()) }),
        1 => Some(Void::Pending { subject, sequence: Sequence(fixed.number.get()) }),
        _ => None,
    }
}

/// Fixed part of an epoch start.
///
/// | offset | bytes | field |
/// |---|---|---|
/// | 0 | 4 | `epoch` |
/// | 4 | 4 | `format_version` |
/// | 8 | 16 | `nonce`: random, keys the checks of this epoch's receipts |
/// | 24 | 16 | `node` |
/// | 40 | 4 | `previous_epoch`: 0 for the first |
/// | 44 | 4 | `previous_chain` |
/// | 48 | 8 | `previous_sequence`: the last sequence before this fact |
/// | 56 | 8 | `delay_ms_max`: the store's range of due times |
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct EpochStartFixed {
    epoch: U32,
    format_version: U32,
    nonce: [u8; 16],
    node: [u8; 16],
    previous_epoch: U32,
    previous_chain: U32,
    previous_sequence: U64,
    delay_ms_max: U64,
}
const _: () = assert!(size_of::<EpochStartFixed>() == 64);

/// The first fact of each epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EpochStart {
    /// The epoch that begins.
    pub epoch: Epoch,
    /// The format that it writes.
    pub format_version: u32,
    /// Random; keys the checks of this epoch's receipts.
    pub nonce: [u8; 16],
    /// The node that opened.
    pub node: [u8; 16],
    /// The last epoch before, 0 for none.
    pub previous_epoch: Epoch,
    /// The chain of the last batch before.
    pub previous_chain: u32,
    /// The last sequence before this fact.
    pub previous_sequence: Sequence,
    /// The furthest due time that is accepted, in milliseconds after the publish.
    pub delay_ms_max: u64,
}

/// Appends an epoch start.
pub fn encode_epoch_start(out: &mut Vec<u8>, start: &EpochStart) {
    let fixed = EpochStartFixed {
        epoch: U32::new(start.epoch.0),
        format_version: U32::new(start.format_version),
        nonce: start.nonce,
        node: start.node,
        previous_epoch: U32::new(start.previous_epoch.0),
        previous_chain: U32::new(start.previous_chain),
        previous_sequence: U64::new(start.previous_sequence.0),
        delay_ms_max: U64::new(start.delay_ms_max),
    };
    encode_record(out, KIND_EPOCH_START, 0, fixed.as_bytes(), &[]);
}

/// Reads an epoch start.
pub fn decode_epoch_start(record: &RawRecord<'_>) -> Option<EpochStart> {
    let fixed: EpochStartFixed = read_struct(record.fixed)?;
    Some(EpochStart {
        epoch: Epoch(fixed.epoch.get()),
        format_version: fixed.format_version.get(),
        nonce: fixed.nonce,
        node: fixed.node,
        previous_epoch: Epoch(fixed.previous_epoch.get()),
        previous_chain: fixed.previous_chain.get(),
        previous_sequence: Sequence(fixed.previous_sequence.get()),
        delay_ms_max: fixed.delay_ms_max.get(),
    })
}
