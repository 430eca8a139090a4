//! The memory that a connection holds, and the limits that follow from it.

use super::{Connection, Hearing};
use crate::units::Millis;
use crate::wire::connection::under_way::RequestId;
use crate::wire::frame::FRAME_BYTES_MAX;

impl Connection {
    /// A request holds `bytes` in addition to its frame, until it is answered.
    pub fn keep(&mut self, id: RequestId, bytes: usize) {
        self.under_way.keep(id, bytes);
    }

    /// The connection holds `bytes` until [`Self::let_go`], independent of answers; false if it already holds too
    /// much of that kind.
    pub fn keep_on(&mut self, bytes: usize) -> bool {
        let lasting_bytes = self.lasting_bytes.saturating_add(bytes);
        let has_room = bytes == 0 || lasting_bytes <= self.limits.kept_bytes_max;
        if has_room {
            self.lasting_bytes = lasting_bytes;
        }
        has_room
    }

    /// Releases `bytes`.
    pub fn let_go(&mut self, bytes: usize) {
        self.lasting_bytes = self.lasting_bytes.saturating_sub(bytes);
    }

    /// The bytes that the connection holds: input, the memory of its requests and subscriptions, and output that
    /// waits to be written.
    pub fn kept_bytes(&self) -> usize {
        let asked = self.under_way.bytes().saturating_add(self.lasting_bytes);
        self.input.len().saturating_add(self.outgoing.bytes()).saturating_add(asked)
    }

    /// Resumes or stops reading from the peer, because of the memory that all connections hold. The time limit of
    /// an incomplete frame continues, since the frame is part of that memory. A peer that is not read does not
    /// count as silent.
    pub fn hear(&mut self, is_heard: bool, now: Millis) {
        if is_heard && !self.hears() {
            self.silence.broken(now);
        }
        self.hearing = if is_heard { Hearing::Heard } else { Hearing::Unheard };
    }

    /// True if waiting requests are not handed out until memory is free.
    pub fn is_paused(&self) -> bool {
        !self.hears()
    }

    /// True if an answer with messages, or a piece of a list, may be made now.
    pub fn has_answer_room(&self) -> bool {
        self.outgoing.bytes() < self.limits.output_bytes_max
    }

    /// The bytes that an answer should not exceed now, so that the output stays bounded. With
    /// [`Self::has_answer_room`], an answer with messages stays within this, or has one message.
    pub fn answer_bytes_max(&self) -> usize {
        let waiting = self.outgoing.bytes();
        self.limits.output_bytes_max.saturating_sub(waiting).min(FRAME_BYTES_MAX)
    }

    /// The bytes of memory in the buffers.
    pub fn memory_bytes(&self) -> usize {
        self.input.capacity().saturating_add(self.outgoing.capacity())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::frame::{Header, put_frame};
    use crate::wire::qmq::send::SEND;
    use crate::wire::quota::connection_limits::ConnectionLimits;

    const NOW: Millis = Millis(1_000);

    fn request(body_bytes: usize) -> Vec<u8> {
        let mut out = Vec::new();
        put_frame(&mut out, Header::request(SEND, 9, 1), |out| {
            out.resize(out.len() + body_bytes, 7);
            Ok(())
        })
        .unwrap();
        out
    }

    #[test]
    fn what_waits_shares_no_memory_with_requests_that_were_taken() {
        let mut connection = Connection::new(ConnectionLimits::default(), true, NOW);
        let (large, small) = (request(100_000), request(10));
        // After a large request the memory is separate at once, whether the waiting bytes are taken or not.
        connection.receive(&[large, small.clone()].concat(), NOW);
        assert!(connection.next_request(NOW).unwrap().frame.body.is_unique());
        // After small ones it is separate once no other complete request waits.
        connection.receive(&[small.as_slice(), &small, &small[..30]].concat(), NOW);
        let mut asked: Vec<_> = std::iter::from_fn(|| connection.next_request(NOW)).collect();
        let last = asked.pop().unwrap();
        assert_eq!(asked.len(), 2);
        drop(asked);
        assert!(last.frame.body.is_unique());
        connection.receive(&small[30..], NOW);
        assert_eq!(connection.next_request(NOW).map(|asked| asked.frame), Some(last.frame));
    }
}
