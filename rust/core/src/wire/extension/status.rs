//! STATUS (220), which has no body; its answer:
//!
//! | bytes | field |
//! |---|---|
//! | 1 | `durability`: 0 disk, 1 os |
//! | 1 | bits: 1 created by this open, 2 closed, 4 dispatch held, 8 disk full, 16 poisoned, 32 disk space low, 64 free space known, 128 hot minutes |
//! | 4 | `epoch` |
//! | 8 each | `pending`, `ready`, `accepted`, `visible`, `applied`, `now_ms`, `recovered_ms`, `recovered_facts`, `voided`, `expired` |
//! | 8 | `free_bytes`, if they are known |
//! | 8 | `hot_minutes`, if there are any |
//! | blob | why it is poisoned; empty if it is not |
//! | 4, then blob each | what the open set aside, as text |
//! | blob | the version of the time zone rules, and where they are from, as text |

use bytes::BufMut;

use crate::error::Result;
use crate::message_log::Durability;
use crate::units::{Epoch, Millis, Sequence};
use crate::wire::fields::{put_blob, put_count};
use crate::wire::malformed::Read;
use crate::wire::reader::{Reader, utf8};

const TEXT_BYTES_MAX: usize = 64 << 10;
const ASIDE_MAX: usize = 4_096;
const CREATED: u8 = 1;
const CLOSED: u8 = 2;
const HELD: u8 = 4;
const DISK_FULL: u8 = 8;
const POISONED: u8 = 16;
const ROOM_LOW: u8 = 32;
const FREE_KNOWN: u8 = 64;
const HOT: u8 = 128;

/// The content and state of a store; the fields of `delaymq.Status`.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own about the store")]
pub struct StatusTold {
    /// The durability that an answer waits for.
    pub durability: Durability,
    /// True if this open created the store.
    pub created: bool,
    /// The store is closed.
    pub closed: bool,
    /// Dispatch waits because the clock cannot be trusted.
    pub held: bool,
    /// Publishes are refused because the disk is full.
    pub disk_full: bool,
    /// Free disk space is below the mark for a warning.
    pub room_low: bool,
    /// The free bytes at the last check; `None` if no mark is set.
    pub free_bytes: Option<u64>,
    /// Why the store refuses everything, if it does.
    pub poisoned: Option<String>,
    /// How often the store was opened for writing.
    pub epoch: Epoch,
    /// Messages that are not due.
    pub pending: u64,
    /// Messages that became due and that some group has not finished.
    pub ready: u64,
    /// The sequence of the next fact.
    pub accepted: Sequence,
    /// Facts below this may be answered.
    pub visible: Sequence,
    /// Facts below this are applied.
    pub applied: Sequence,
    /// The trusted clock.
    pub now: Millis,
    /// How long recovery took.
    pub recovered_ms: u64,
    /// Facts that recovery applied.
    pub recovered_facts: u64,
    /// Damaged messages that were voided since the store was opened.
    pub voided: u64,
    /// Messages that expired since then.
    pub expired: u64,
    /// Minutes in which more messages are due than the store's options allow.
    pub hot_minutes: u64,
    /// What the open set aside, as text.
    pub aside: Vec<String>,
    /// The version of the time zone rules that series follow, and where they are from.
    pub zones: String,
}

impl StatusTold {
    /// Reads an answer.
    ///
    /// # Errors
    /// `Malformed`, naming the field.
    pub fn read(body: &[u8]) -> Read<Self> {
        let mut reader = Reader::new(body);
        let durability = if reader.flag("durability")? { Durability::Os } else { Durability::Disk };
        let bits = reader.u8("bits")?;
        let mut told = Self {
            durability,
            created: bits & CREATED != 0,
            closed: bits & CLOSED != 0,
            held: bits & HELD != 0,
            disk_full: bits & DISK_FULL != 0,
            room_low: bits & ROOM_LOW != 0,
            free_bytes: None,
            poisoned: None,
            epoch: Epoch(reader.u32("epoch")?),
            pending: reader.u64("pending")?,
            ready: reader.u64("ready")?,
            accepted: Sequence(reader.u64("accepted")?),
            visible: Sequence(reader.u64("visible")?),
            applied: Sequence(reader.u64("applied")?),
            now: Millis(reader.u64("now_ms")?),
            recovered_ms: reader.u64("recovered_ms")?,
            recovered_facts: reader.u64("recovered_facts")?,
            voided: reader.u64("voided")?,
            expired: reader.u64("expired")?,
            hot_minutes: 0,
            aside: Vec::new(),
            zones: String::new(),
        };
        if bits & FREE_KNOWN != 0 {
            told.free_bytes = Some(reader.u64("free_bytes")?);
        }
        if bits & HOT != 0 {
            told.hot_minutes = reader.u64("hot_minutes")?;
        }
        let reason = read_words(&mut reader, "poisoned")?;
        told.poisoned = (bits & POISONED != 0).then_some(reason);
        let count = reader.count("aside", ASIDE_MAX, 4)?;
        for _ in 0..count {
            told.aside.push(read_words(&mut reader, "aside")?);
        }
        told.zones = read_words(&mut reader, "zones")?;
        reader.finish("status").map(|()| told)
    }

    /// Appends the answer.
    ///
    /// # Errors
    /// `TooLarge` naming `poisoned`, `aside` or `zones`.
    pub fn put(&self, out: &mut Vec<u8>) -> Result<()> {
        out.put_u8(u8::from(self.durability == Durability::Os));
        let bits = [
            (self.created, CREATED),
            (self.closed, CLOSED),
            (self.held, HELD),
            (self.disk_full, DISK_FULL),
            (self.poisoned.is_some(), POISONED),
            (self.room_low, ROOM_LOW),
            (self.free_bytes.is_some(), FREE_KNOWN),
            (self.hot_minutes > 0, HOT),
        ];
        out.put_u8(bits.iter().filter(|(is_set, _)| *is_set).fold(0, |bits, (_, bit)| bits | bit));
        out.put_u32(self.epoch.0);
        let numbers = [
            self.pending,
            self.ready,
            self.accepted.0,
            self.visible.0,
            self.applied.0,
            self.now.0,
            self.recovered_ms,
            self.recovered_facts,
            self.voided,
            self.expired,
        ];
        let hot = (self.hot_minutes > 0).then_some(self.hot_minutes);
        for number in numbers.into_iter().chain(self.free_bytes).chain(hot) {
            out.put_u64(number);
        }
        put_blob(out, "poisoned", TEXT_BYTES_MAX, self.poisoned.as_deref().unwrap_or_default().as_bytes())?;
        put_count(out, "aside", ASIDE_MAX, self.aside.len())?;
        self.aside.iter().try_for_each(|words| put_blob(out, "aside", TEXT_BYTES_MAX, words.as_bytes()))?;
        put_blob(out, "zones", TEXT_BYTES_MAX, self.zones.as_bytes())
    }
}

fn read_words(reader: &mut Reader<'_>, field: &'static str) -> Read<String> {
    Ok(utf8(field, reader.blob(field, TEXT_BYTES_MAX)?)?.to_owned())
}
