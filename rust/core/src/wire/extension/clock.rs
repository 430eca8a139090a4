//! The clock of the store: CLOCK (233), which has no body, and `ACCEPT_CLOCK` (234).
//!
//! | command | its body | its answer |
//! |---|---|---|
//! | CLOCK | nothing | the clock |
//! | `ACCEPT_CLOCK` | `ahead_ms u64` | `ahead_ms u64` |
//!
//! | bytes | field of the clock |
//! |---|---|
//! | 8 each | `now_ms`, `wall_ms` |
//! | 1 | bits: 1 kept by a time service, 2 dispatch held, 4 behind the log, 8 stepped while closed, 16 accepted by itself |
//! | 8 | if held: `floor_ms` if behind the log, otherwise `by_ms` |
//! | 8 | if held: `held_ms` |
//! | 8 | if held and accepted by itself: `accepted_in_ms` |
//!
//! An acceptance names the step that the operator saw, by how far the wall clock was ahead. Another step is refused.

use bytes::BufMut;

use crate::clock::Hold;
use crate::clock::report::{ClockReport, HeldReport};
use crate::units::Millis;
use crate::wire::malformed::Read;
use crate::wire::reader::Reader;

const SYNCHRONISED: u8 = 1;
const HELD: u8 = 2;
const BEHIND_LOG: u8 = 4;
const WHILE_CLOSED: u8 = 8;
const BY_ITSELF: u8 = 16;

/// The answer to CLOCK.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClockTold(pub ClockReport);

impl ClockTold {
    /// Reads an answer.
    ///
    /// # Errors
    /// `Malformed`, naming the field.
    pub fn read(body: &[u8]) -> Read<Self> {
        let reader = &mut Reader::new(body);
        let (now, wall) = (Millis(reader.u64("now_ms")?), Millis(reader.u64("wall_ms")?));
        let bits = reader.u8("bits")?;
        let held = if bits & HELD == 0 { None } else { Some(read_held(reader, bits, now, wall)?) };
        let report = ClockReport { now, wall, is_synchronised: bits & SYNCHRONISED != 0, held };
        reader.finish("clock").map(|()| Self(report))
    }

    /// Appends the answer.
    pub fn put(&self, out: &mut Vec<u8>) {
        let report = &self.0;
        out.put_u64(report.now.0);
        out.put_u64(report.wall.0);
        let synchronised = if report.is_synchronised { SYNCHRONISED } else { 0 };
        let Some(held) = report.held else { return out.put_u8(synchronised) };
        let (hold_bits, number) = match held.hold {
            Hold::BehindFloor { floor } => (BEHIND_LOG, floor.0),
            Hold::SteppedAhead { by_ms, while_closed: false } => (0, by_ms),
            Hold::SteppedAhead { by_ms, while_closed: true } => (WHILE_CLOSED, by_ms),
        };
        let by_itself = if held.accepted_in_ms.is_some() { BY_ITSELF } else { 0 };
        out.put_u8(synchronised | HELD | hold_bits | by_itself);
        for number in [number, held.held_ms].into_iter().chain(held.accepted_in_ms) {
            out.put_u64(number);
        }
    }
}

fn read_held(reader: &mut Reader<'_>, bits: u8, now: Millis, wall: Millis) -> Read<HeldReport> {
    let hold = if bits & BEHIND_LOG == 0 {
        Hold::SteppedAhead { by_ms: reader.u64("by_ms")?, while_closed: bits & WHILE_CLOSED != 0 }
    } else {
        Hold::BehindFloor { floor: Millis(reader.u64("floor_ms")?) }
    };
    let held_ms = reader.u64("held_ms")?;
    let accepted_in_ms = if bits & BY_ITSELF == 0 { None } else { Some(reader.u64("accepted_in_ms")?) };
    Ok(HeldReport::new(hold, now, wall, held_ms, accepted_in_ms))
}
