//! What a connection makes the server keep, and what it may be given for all that.

use super::{Connection, Hearing};
use crate::units::Millis;
use crate::wire::connection::under_way::RequestId;
use crate::wire::frame::FRAME_BYTES_MAX;

impl Connection {
    /// A request makes the server keep so many bytes beside its frame, until it is answered.
    pub fn keep(&mut self, id: RequestId, bytes: usize) {
        self.under_way.keep(id, bytes);
    }

    /// The server keeps so many bytes until [`Self::let_go`], whatever is answered; false where it keeps
    /// too much so.
    pub fn keep_on(&mut self, bytes: usize) -> bool {
        let lasting_bytes = self.lasting_bytes.saturating_add(bytes);
        let has_room = bytes == 0 || lasting_bytes <= self.limits.kept_bytes_max;
        if has_room {
            self.lasting_bytes = lasting_bytes;
        }
        has_room
    }

    /// So many bytes are not kept any more.
    pub fn let_go(&mut self, bytes: usize) {
        self.lasting_bytes = self.lasting_bytes.saturating_sub(bytes);
    }

    /// How many bytes the connection makes the server keep: what was read, what its requests and
    /// subscriptions keep, and what waits to be written.
    pub fn kept_bytes(&self) -> usize {
        let asked = self.under_way.bytes().saturating_add(self.lasting_bytes);
        self.input.len().saturating_add(self.outgoing.bytes()).saturating_add(asked)
    }

    /// Hears the peer, or does not for now, because of what all connections keep. The time of a frame that
    /// is not whole passes meanwhile: it is part of what is kept. Nobody is silent who is not heard.
    pub fn hear(&mut self, is_heard: bool, now: Millis) {
        if is_heard && !self.hears() {
            self.silence.broken(now);
        }
        self.hearing = if is_heard { Hearing::Heard } else { Hearing::Unheard };
    }

    /// True where requests that are there are not handed out until there is room.
    pub fn is_paused(&self) -> bool {
        !self.hears()
    }

    /// True where there is room for an answer with messages, or for a piece of a list: without it none is
    /// made.
    pub fn has_answer_room(&self) -> bool {
        self.outgoing.bytes() < self.limits.output_bytes_max
    }

    /// How many bytes an answer should not exceed now, so that what waits stays bounded. An answer
    /// with messages is made within this, or has one message, where there is [`Self::has_answer_room`].
    pub fn answer_bytes_max(&self) -> usize {
        let waiting = self.outgoing.bytes();
        self.limits.output_bytes_max.saturating_sub(waiting).min(FRAME_BYTES_MAX)
    }

    /// How many bytes of memory the buffers keep.
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
        // Behind a large one that is at once so, whether anybody takes what is there or not.
        connection.receive(&[large, small.clone()].concat(), NOW);
        assert!(connection.next_request(NOW).unwrap().frame.body.is_unique());
        // Behind small ones it is once there is no other that is whole.
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
