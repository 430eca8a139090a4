//! The network between one client and the server: bytes in both directions, in order, in pieces of any size, late, and
//! cut at any byte.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use delaymq_core::units::Millis;
use delaymq_core::wire::client::delivery_keys;
use delaymq_core::wire::extension::consume::Deliver;
use delaymq_core::wire::extension::{CREDIT, DELIVER};

use crate::chance::Chance;

/// Names a connection, over the whole history.
pub(super) type LinkId = u64;

/// Bytes of a frame before its body.
const HEAD_BYTES: usize = 24;
/// Bytes of a frame that its first field does not count.
const TOTAL_BYTES: usize = 4;

/// A whole frame: where its parts are is all that the network knows of the protocol's frames.
struct Frame {
    code: i16,
    opaque: i32,
    is_answer: bool,
    /// The command of the request that an answer answers.
    command: i16,
    body: Vec<u8>,
}

/// The frames in a stream of bytes.
#[derive(Debug, Default)]
struct Frames {
    bytes: Vec<u8>,
}

impl Frames {
    /// The frames that these bytes complete.
    fn take(&mut self, bytes: &[u8]) -> Vec<Frame> {
        self.bytes.extend_from_slice(bytes);
        let mut whole = Vec::new();
        while let Some((mut frame, length)) = self.head() {
            if self.bytes.len() < length {
                break;
            }
            frame.body = self.bytes.drain(..length).skip(HEAD_BYTES).collect();
            whole.push(frame);
        }
        whole
    }

    fn head(&self) -> Option<(Frame, usize)> {
        let short = |at: usize| self.bytes.get(at..)?.first_chunk().map(|field| i16::from_be_bytes(*field));
        let number = |at: usize| number_at(&self.bytes, at);
        let length = usize::try_from(number(0)?).ok()?.saturating_add(TOTAL_BYTES);
        let is_answer = number(18)? & 1 != 0;
        let frame = Frame { code: short(10)?, opaque: number(14)?, is_answer, command: short(22)?, body: Vec::new() };
        Some((frame, length))
    }
}

fn number_at(bytes: &[u8], at: usize) -> Option<i32> {
    bytes.get(at..)?.first_chunk().map(|field| i32::from_be_bytes(*field))
}

/// The bytes of a connection, by which the client is judged.
#[derive(Debug, Default)]
struct Watch {
    to_server: Frames,
    to_client: Frames,
    /// The requests whose whole answer came to the client, by their commands.
    answered: BTreeSet<(i16, i32)>,
    /// The messages that subscriptions gave credit for, and those that came for it, by the numbers of the subscriptions.
    credits: BTreeMap<u32, (u64, u64)>,
    /// The keys of the messages that came, and when they were sent.
    given: Vec<(u128, Millis)>,
}

impl Watch {
    fn left_client(&mut self, bytes: &[u8]) {
        for frame in self.to_server.take(bytes).into_iter().filter(|frame| frame.code == CREDIT && !frame.is_answer) {
            let field = |at| number_at(&frame.body, at).and_then(|field| u32::try_from(field).ok());
            if let (Some(number), Some(credit)) = (field(0), field(4)) {
                self.credits.entry(number).or_default().0 += u64::from(credit);
            }
        }
    }

    fn reached_client(&mut self, bytes: &[u8]) {
        for frame in self.to_client.take(bytes) {
            if frame.is_answer {
                self.answered.insert((frame.command, frame.opaque));
            } else if let (DELIVER, Ok(deliver)) = (frame.code, Deliver::read(&frame.body)) {
                self.credits.entry(deliver.subscription).or_default().1 += deliver.messages.len() as u64;
                let keys = deliver.messages.iter().filter_map(|one| delivery_keys::key(deliver.subscription, one));
                self.given.extend(keys.map(|key| (key, deliver.now)));
            }
        }
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Link {
    to_server: VecDeque<u8>,
    to_client: VecDeque<u8>,
    is_cut: bool,
    /// Nothing moves for so many turns.
    pub(super) paused: u64,
    watch: Watch,
}

impl Link {
    /// Bytes leave the client. After a cut they are lost.
    pub(super) fn leave_client(&mut self, bytes: &[u8]) {
        self.watch.left_client(bytes);
        if !self.is_cut {
            self.to_server.extend(bytes);
        }
    }

    /// Bytes leave the server.
    pub(super) fn leave_server(&mut self, bytes: &[u8]) {
        if !self.is_cut {
            self.to_client.extend(bytes);
        }
    }

    /// Up to so many bytes come to the server. `take` returns how many it took.
    pub(super) fn reach_server(&mut self, count_max: usize, take: impl FnOnce(&[u8]) -> usize) -> usize {
        let piece: Vec<u8> = self.to_server.iter().take(count_max).copied().collect();
        let taken = take(&piece).min(piece.len());
        self.to_server.drain(..taken);
        taken
    }

    /// Up to so many bytes come to the client.
    pub(super) fn reach_client(&mut self, count_max: usize, take: impl FnOnce(&[u8]) -> usize) -> usize {
        let piece: Vec<u8> = self.to_client.iter().take(count_max).copied().collect();
        let taken = take(&piece).min(piece.len());
        self.watch.reached_client(piece.get(..taken).unwrap_or_default());
        self.to_client.drain(..taken);
        taken
    }

    /// The connection is lost: each side gets a prefix of the bytes under way, which may be empty.
    pub(super) fn cut(&mut self, chance: &mut Chance) {
        if self.is_cut {
            return;
        }
        self.is_cut = true;
        for way in [&mut self.to_server, &mut self.to_client] {
            let kept = match chance.below(3) {
                0 => 0,
                1 => way.len() as u64,
                _ => chance.below(way.len() as u64),
            };
            way.truncate(usize::try_from(kept).unwrap_or(0));
        }
    }

    /// As [`Self::cut`], and the server receives nothing more.
    pub(super) fn cut_by_crash(&mut self, chance: &mut Chance) {
        self.cut(chance);
        self.to_server.clear();
    }

    /// True if the connection is lost.
    pub(super) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// True if the server has received all that it will ever get.
    pub(super) fn is_over_for_server(&self) -> bool {
        self.is_cut && self.to_server.is_empty()
    }

    /// True if the client has received all that it will ever get.
    pub(super) fn is_over_for_client(&self) -> bool {
        self.is_cut && self.to_client.is_empty()
    }

    /// True if no byte is under way and both sides may use the connection. A cut one is not quiet: a client that has
    /// not noticed the cut would wait permanently.
    pub(super) fn is_quiet(&self) -> bool {
        !self.is_cut && self.to_server.is_empty() && self.to_client.is_empty()
    }

    /// The number of whole answers to requests of these commands that came to the client.
    pub(super) fn answers_to(&self, commands: &[i16]) -> usize {
        self.watch.answered.iter().filter(|(command, _)| commands.contains(command)).count()
    }

    /// The numbers of subscriptions, the messages that each gave credit for, and those that came.
    pub(super) fn credits(&self) -> impl Iterator<Item = (u32, u64, u64)> {
        self.watch.credits.iter().map(|(number, (credit, came))| (*number, *credit, *came))
    }

    /// The keys of the messages that came, in their order, and the server's time when each was sent.
    pub(super) fn given(&self) -> &[(u128, Millis)] {
        &self.watch.given
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame with this body, made from the table in `docs/protocol.md`. Answers are to command 7.
    fn frame(code: i16, opaque: i32, flags: i32, body: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&i32::try_from(20 + body.len()).unwrap().to_be_bytes());
        bytes.extend_from_slice(&18_u16.to_be_bytes());
        bytes.extend_from_slice(&0xDEC1_0ADE_u32.to_be_bytes());
        bytes.extend_from_slice(&code.to_be_bytes());
        bytes.extend_from_slice(&1_i16.to_be_bytes());
        bytes.extend_from_slice(&opaque.to_be_bytes());
        bytes.extend_from_slice(&flags.to_be_bytes());
        bytes.extend_from_slice(&7_i16.to_be_bytes());
        [&bytes, body].concat()
    }

    #[test]
    fn an_answer_counts_once_its_last_byte_came() {
        let whole: Vec<u8> = [frame(0, 3, 1, &[9; 5]), frame(0, 0, 2, &[9; 9]), frame(0, 4, 1, &[])].concat();
        for piece in [1, 2, 7, 1_000] {
            let mut link = Link::default();
            link.leave_server(&whole);
            let mut came = 0;
            while came < whole.len() {
                came += link.reach_client(piece, <[u8]>::len);
                // A delivery is no answer.
                let answers = usize::from(came >= 29) + usize::from(came == whole.len());
                assert_eq!((link.answers_to(&[7]), link.answers_to(&[8])), (answers, 0), "{came}");
            }
        }
    }

    #[test]
    fn credit_counts_once_it_was_sent() {
        let mut link = Link::default();
        let credit = |number: u32, credit: u32| [number.to_be_bytes(), credit.to_be_bytes()].concat();
        let whole = [frame(CREDIT, 1, 2, &credit(5, 3)), frame(CREDIT, 2, 0, &credit(5, 4)), frame(0, 3, 0, &[])];
        for piece in whole.concat().chunks(3) {
            link.leave_client(piece);
        }
        assert_eq!(link.credits().collect::<Vec<_>>(), [(5, 7, 0)]);
    }

    #[test]
    fn behind_a_cut_only_the_beginning_of_what_was_under_way_comes() {
        let (mut least, mut most) = (usize::MAX, 0);
        for seed in 0..60 {
            let mut link = Link::default();
            link.leave_server(b"abcdef");
            link.leave_client(b"ghijkl");
            link.cut(&mut Chance::new(seed));
            link.leave_server(b"xyz");
            link.leave_client(b"xyz");
            let mut found = Vec::new();
            let came = link.reach_client(100, |bytes| {
                found.extend_from_slice(bytes);
                bytes.len()
            });
            assert!(b"abcdef".starts_with(&found) && link.is_over_for_client());
            (least, most) = (least.min(came), most.max(came));
        }
        assert_eq!((least, most), (0, 6));
    }
}
