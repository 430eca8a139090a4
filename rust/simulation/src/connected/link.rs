//! The network between one client and the server: bytes in both directions, in order, in pieces of any size, late, and
//! cut at any byte.

use std::collections::{BTreeSet, VecDeque};

use crate::chance::Chance;

/// Names a connection, over the whole history.
pub(super) type LinkId = u64;

/// Bytes of a frame before its body.
const HEAD_BYTES: usize = 24;
/// Bytes of a frame that its first field does not count.
const TOTAL_BYTES: usize = 4;

/// Reads the bytes for a client and finds the requests whose whole answer has arrived. It knows no more of the protocol
/// than where a frame ends and where its opaque number and flags are, so that it can judge the client.
#[derive(Debug, Default)]
struct Watch {
    bytes: Vec<u8>,
    answered: BTreeSet<i32>,
}

impl Watch {
    fn take(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        while let Some((opaque, flags, length)) = self.head() {
            if self.bytes.len() < length {
                return;
            }
            self.bytes.drain(..length);
            if flags & 1 != 0 {
                self.answered.insert(opaque);
            }
        }
    }

    fn head(&self) -> Option<(i32, i32, usize)> {
        let number = |at: usize| {
            let field = self.bytes.get(at..)?.first_chunk::<4>()?;
            Some(i32::from_be_bytes(*field))
        };
        let length = usize::try_from(number(0)?).ok()?.saturating_add(TOTAL_BYTES);
        (self.bytes.len() >= HEAD_BYTES).then_some((number(14)?, number(18)?, length))
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
        self.watch.take(piece.get(..taken).unwrap_or_default());
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

    /// True if the whole answer to this request came to the client.
    pub(super) fn was_answered(&self, opaque: i32) -> bool {
        self.watch.answered.contains(&opaque)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame with a body of `length` bytes, made from the table in `docs/protocol.md`.
    fn frame(opaque: i32, flags: i32, length: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&i32::try_from(20 + length).unwrap().to_be_bytes());
        bytes.extend_from_slice(&18_u16.to_be_bytes());
        bytes.extend_from_slice(&0xDEC1_0ADE_u32.to_be_bytes());
        bytes.extend_from_slice(&0_i16.to_be_bytes());
        bytes.extend_from_slice(&1_i16.to_be_bytes());
        bytes.extend_from_slice(&opaque.to_be_bytes());
        bytes.extend_from_slice(&flags.to_be_bytes());
        bytes.extend_from_slice(&0_i16.to_be_bytes());
        bytes.resize(24 + length, 7);
        bytes
    }

    #[test]
    fn an_answer_counts_once_its_last_byte_came() {
        let whole: Vec<u8> = [frame(3, 1, 5), frame(0, 2, 9), frame(4, 1, 0)].concat();
        for piece in [1, 2, 7, 1_000] {
            let mut link = Link::default();
            link.leave_server(&whole);
            let mut came = 0;
            while came < whole.len() {
                came += link.reach_client(piece, <[u8]>::len);
                assert_eq!(link.was_answered(3), came >= 29, "{came}");
                assert_eq!(link.was_answered(4), came == whole.len());
                assert!(!link.was_answered(0), "a delivery is no answer");
            }
        }
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
