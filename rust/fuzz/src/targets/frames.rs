//! Frames in a stream of bytes that comes in pieces, at both ends of a connection.

use bytes::Bytes;
use delaymq_core::units::Millis;
use delaymq_core::wire::client::caller::{Caller, CallerLimits, Heard};
use delaymq_core::wire::connection::{Connection, Ending};
use delaymq_core::wire::extension::DELIVER;
use delaymq_core::wire::frame::{FRAME_BYTES_MAX, Frame, HEAD_BYTES, Head, put_frame, read_frame, read_head};
use delaymq_core::wire::malformed::Malformed;
use delaymq_core::wire::quota::connection_limits::ConnectionLimits;
use delaymq_simulation::chance::Chance;

use super::requests::refused;
use crate::verdict::{Judged, Verdict, holds, same, unexpected};

const NOW: Millis = Millis(1);
/// Bytes that a connection may hold in addition to those that it received.
const SPARE_BYTES: usize = 128 << 10;

/// The first byte chooses the cuts, the second the reader; the stream follows.
pub(super) fn judge(input: &[u8]) -> Judged {
    let Some(([seed, mode], stream)) = input.split_first_chunk::<2>() else { return Ok(Verdict::Refused) };
    let (frames, fault, cut_off) = frames_of(stream)?;
    judge_heads(stream)?;
    let cuts = |seed: u64| cut(stream, &mut Chance::new(seed));
    let pieces = cuts(u64::from(*seed));
    let is_garbage = fault.is_some();
    served(&pieces, &frames, cut_off, is_garbage, mode & 1 == 0)?;
    let whole = heard(&[stream])?;
    same("what a caller hears", &whole, &heard(&pieces)?)?;
    same("what a caller hears", &whole, &heard(&cuts(u64::from(*seed).wrapping_add(1 << 32)))?)?;
    match fault {
        Some(fault) => refused(&fault),
        None if frames.is_empty() => Ok(Verdict::Refused),
        None => Ok(Verdict::Taken),
    }
}

/// Complete frames, the error if garbage follows, and the head of an incomplete frame.
type Frames = (Vec<Frame>, Option<Malformed>, Option<Head>);

/// The frames of a stream.
fn frames_of(stream: &[u8]) -> Result<Frames, String> {
    let mut frames = Vec::new();
    let mut rest = stream;
    loop {
        let head = match read_head(rest) {
            Ok(Some(head)) => head,
            Ok(None) => return Ok((frames, None, None)),
            Err(malformed) => return Ok((frames, Some(malformed), None)),
        };
        holds("a frame within its limit", (HEAD_BYTES..=FRAME_BYTES_MAX).contains(&head.frame_bytes))?;
        let Some((whole, behind)) = rest.split_at_checked(head.frame_bytes) else {
            return Ok((frames, None, Some(head)));
        };
        let frame =
            read_frame(&Bytes::copy_from_slice(whole)).map_err(|malformed| format!("its head reads: {malformed}"))?;
        same("the header", &head.header, &frame.header)?;
        let mut out = Vec::new();
        let put = put_frame(&mut out, frame.header, |out| {
            out.extend_from_slice(&frame.body);
            Ok(())
        });
        put.map_err(unexpected("a frame that was read cannot be written"))?;
        same("the frame's bytes", whole, out.as_slice())?;
        frames.push(frame);
        rest = behind;
    }
}

/// Bytes that are refused early stay refused whatever follows, and missing bytes are not judged.
fn judge_heads(stream: &[u8]) -> Result<(), String> {
    let mut before = Ok(None);
    for length in 0..=HEAD_BYTES.min(stream.len()) {
        let found = read_head(stream.get(..length).unwrap_or_default());
        holds("a head is not read before it is there", length >= HEAD_BYTES || !matches!(found, Ok(Some(_))))?;
        if before.is_err() {
            same("the fault", &before, &found)?;
        }
        before = found;
    }
    Ok(())
}

/// The stream in pieces of any size, some of them empty.
pub(super) fn cut<'a>(stream: &'a [u8], chance: &mut Chance) -> Vec<&'a [u8]> {
    let mut pieces = Vec::new();
    let mut rest = stream;
    while !rest.is_empty() {
        let most = chance.one_of(&[1, 3, 30, 300, 70_000]);
        let length = usize::try_from(chance.below(most.saturating_add(1))).unwrap_or(0).min(rest.len());
        let (piece, behind) = rest.split_at(length);
        pieces.push(piece);
        rest = behind;
    }
    pieces
}

/// A server's connection hands out the requests of these frames, up to the first frame that is too large.
fn served(
    pieces: &[&[u8]],
    frames: &[Frame],
    cut_off: Option<Head>,
    is_garbage: bool,
    admitted: bool,
) -> Result<(), String> {
    let limits = ConnectionLimits::default();
    let may_be = |bytes: usize| admitted || bytes <= limits.first_request_bytes_max;
    let read: Vec<&Frame> = frames.iter().take_while(|frame| may_be(frame.bytes())).collect();
    let expected: Vec<&Frame> = read.iter().copied().filter(|frame| !frame.header.is_answer()).collect();
    // A frame is checked by its head, before it is complete.
    let is_refused = is_garbage || cut_off.is_some_and(|head| !may_be(head.frame_bytes));
    let mut connection = Connection::new(limits, admitted, NOW);
    let mut handed = Vec::new();
    let mut sent = 0_usize;
    for piece in pieces {
        let mut rest = *piece;
        loop {
            let taken = connection.receive(rest, NOW);
            sent = sent.saturating_add(taken);
            rest = rest.get(taken..).unwrap_or_default();
            while let Some(asked) = connection.next_request(NOW) {
                let answered = connection.answer(asked.id, 0, NOW, |_| Ok(())).map_err(unexpected("an answer"))?;
                holds("a request that was handed out is answered once", answered)?;
                connection.sent(connection.output_bytes(), NOW);
                handed.push(asked.frame);
            }
            holds("no more is kept than was sent", connection.input_bytes() <= sent)?;
            let kept = connection.memory_bytes();
            holds("memory follows what was sent", kept <= sent.saturating_mul(2).saturating_add(SPARE_BYTES))?;
            if rest.is_empty() || !connection.wants_input() || taken == 0 {
                break;
            }
        }
    }
    same("the requests", &expected, &handed.iter().collect::<Vec<_>>())?;
    let told = matches!(connection.ending(), Some(Ending::Malformed(_)));
    same("what is no request ends the connection", &told, &(read.len() < frames.len() || is_refused))
}

/// The results of a caller: answers, deliveries, and the error that ends them.
fn heard(pieces: &[&[u8]]) -> Result<(Vec<Heard>, Option<Malformed>), String> {
    let mut caller = Caller::new(CallerLimits::default());
    for command in 200..216 {
        caller.ask(command, NOW, |_| Ok(())).map_err(unexpected("asking"))?;
    }
    let pending = caller.pending_count();
    let mut told = Vec::new();
    for piece in pieces {
        let mut rest = *piece;
        loop {
            let taken = caller.receive(rest);
            rest = rest.get(taken..).unwrap_or_default();
            loop {
                match caller.hear() {
                    Ok(Some(heard)) => told.push(heard),
                    Ok(None) => break,
                    Err(fault) => return Ok((told, Some(fault))),
                }
            }
            if rest.is_empty() || taken == 0 {
                break;
            }
        }
    }
    let delivered = told.iter().filter(|heard| matches!(heard, Heard::Deliver(_))).count();
    holds("only a delivery comes unasked", delivered <= told.len() && DELIVER == 206)?;
    holds("no answer ends two requests", caller.pending_count() <= pending)?;
    Ok((told, None))
}
