//! What another node of a group of copies sends.

use delaymq_core::wire::malformed::Malformed;
use delaymq_core::wire::peer::{Decoder, HELLO_FRAME_BYTES_MAX, PeerFrame};
use delaymq_simulation::chance::Chance;

use super::frames::cut;
use crate::verdict::{Judged, Verdict, holds, same, unexpected};

/// Bytes that a decoder may hold in addition to twice those that it received.
const SPARE_BYTES: usize = 64;
const HEAD_BYTES: usize = 9;
const HEAD_CHECKED_BYTES: usize = 5;
const CHECK_BYTES: usize = 4;

/// With an odd first byte, the checks are made right. The second byte chooses the cuts; the stream follows.
pub(super) fn judge(input: &[u8]) -> Judged {
    let Some(([mode, seed], rest)) = input.split_first_chunk::<2>() else { return Ok(Verdict::Refused) };
    let mut stream = rest.to_vec();
    if mode & 1 == 1 {
        reseal(&mut stream);
    }
    let mut chance = Chance::new(u64::from(*seed));
    let whole = decoded(&[&stream], true)?;
    let pieces = decoded(&cut(&stream, &mut chance), true)?;
    same("frames of a stream that is cut elsewhere", &whole, &pieces)?;
    let (frames, fault) = whole;
    let written = rewritten(&stream, &frames)?;
    judge_flip(&stream, written, &frames, &mut chance)?;
    let (strange, _) = decoded(&[&stream], false)?;
    same("the frames of a stranger", strange.as_slice(), frames.get(..strange.len()).unwrap_or_default())?;
    for frame in &strange {
        holds("a stranger's frame is short", put(frame)?.len() <= HELLO_FRAME_BYTES_MAX)?;
    }
    Ok(if fault.is_some() || frames.is_empty() { Verdict::Refused } else { Verdict::Taken })
}

fn decoded(pieces: &[&[u8]], is_admitted: bool) -> Result<(Vec<PeerFrame>, Option<Malformed>), String> {
    let mut decoder = Decoder::default();
    if is_admitted {
        decoder.admit();
    }
    let (mut frames, mut fed) = (Vec::new(), 0_usize);
    for piece in pieces {
        decoder.feed(piece);
        fed = fed.saturating_add(piece.len());
        let limit = fed.saturating_mul(2).saturating_add(SPARE_BYTES);
        holds("memory follows what was sent", decoder.memory_bytes() <= limit)?;
        loop {
            match decoder.next_frame() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(fault) => return Ok((frames, Some(fault))),
            }
        }
    }
    Ok((frames, None))
}

fn put(frame: &PeerFrame) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    frame.put(&mut out).map_err(unexpected("a frame that was read cannot be written"))?;
    Ok(out)
}

/// Writes the frames again, and returns how many bytes of the stream they are. Later versions of a hello have bytes
/// that are not read.
fn rewritten(stream: &[u8], frames: &[PeerFrame]) -> Result<usize, String> {
    let mut at = 0_usize;
    for frame in frames {
        let out = put(frame)?;
        let rest = stream.get(at..).unwrap_or_default();
        if matches!(frame, PeerFrame::OtherVersion(_)) {
            same("a frame that was written", &decoded(&[&out], true)?, &(vec![frame.clone()], None))?;
            at = at.saturating_add(length_of(rest).unwrap_or(0));
        } else {
            same("the bytes of a frame", rest.get(..out.len()).unwrap_or_default(), out.as_slice())?;
            at = at.saturating_add(out.len());
        }
    }
    Ok(at)
}

/// A bit that flips in whole frames is found, and the frames before it are read.
fn judge_flip(stream: &[u8], whole: usize, frames: &[PeerFrame], chance: &mut Chance) -> Result<(), String> {
    let place = usize::try_from(chance.below(whole as u64)).unwrap_or(0);
    let mut flipped = stream.to_vec();
    let Some(byte) = flipped.get_mut(place).filter(|_| place < whole) else { return Ok(()) };
    *byte ^= 1 << chance.below(8);
    let (found, fault) = decoded(&[&flipped], true)?;
    holds("a flipped bit is found", fault.is_some() && found.len() < frames.len())?;
    same("the frames before it", found.as_slice(), frames.get(..found.len()).unwrap_or_default())
}

fn length_of(bytes: &[u8]) -> Option<usize> {
    bytes.first_chunk::<4>().map(|length| u32::from_be_bytes(*length) as usize)
}

/// Makes the checks of all frames right, as far as their lengths say where they are.
fn reseal(stream: &mut [u8]) {
    let mut rest = stream;
    while let Some(length) = length_of(rest).filter(|length| *length >= HEAD_BYTES + CHECK_BYTES) {
        let Some((frame, behind)) = std::mem::take(&mut rest).split_at_mut_checked(length) else { return };
        put_check(frame, HEAD_CHECKED_BYTES);
        put_check(frame, length.saturating_sub(CHECK_BYTES));
        rest = behind;
    }
}

fn put_check(frame: &mut [u8], at: usize) {
    let check = frame.get(..at).map(crc32fast::hash).unwrap_or_default();
    if let Some(place) = frame.get_mut(at..at.saturating_add(CHECK_BYTES)) {
        place.copy_from_slice(&check.to_be_bytes());
    }
}
