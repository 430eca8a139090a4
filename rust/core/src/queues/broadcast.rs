//! The cursor of one QMQ consumer that receives every message of a subject.
//!
//! Its pull offsets are the messages' ready numbers. The offset that it reports as received is enough to continue,
//! also after a restart. If the end of an answer did not reach it, it receives that part again; acknowledgements
//! change nothing. The cursor is never saved.

use crate::units::{PullOffset, ReadyNumber};

/// See the module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BroadcastCursor {
    /// The first number that was not examined.
    next: ReadyNumber,
    /// All answered numbers are below this one.
    answered_below: ReadyNumber,
}

impl BroadcastCursor {
    /// The cursor of a new consumer, in a subject whose next message is `latest`: it continues after the last
    /// message that the consumer received, or begins with the next message.
    pub fn new(received: Option<PullOffset>, latest: ReadyNumber) -> Self {
        let behind = received.map(behind).filter(|behind| *behind <= latest);
        let next = behind.unwrap_or(latest);
        Self { next, answered_below: next }
    }

    /// The first number that its next answer may contain.
    pub fn begin(&self, received: Option<PullOffset>) -> ReadyNumber {
        received.map(behind).filter(|behind| *behind < self.answered_below).unwrap_or(self.next)
    }

    /// Everything below `next` was examined; `answered` is the last number that was answered.
    pub fn went_on(&mut self, answered: Option<ReadyNumber>, next: ReadyNumber) {
        if let Some(answered) = answered {
            self.answered_below = answered.next();
        }
        self.next = next;
    }
}

fn behind(received: PullOffset) -> ReadyNumber {
    ReadyNumber(received.next().0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATEST: ReadyNumber = ReadyNumber(10);

    #[test]
    fn who_is_new_begins_with_the_next_message_and_who_comes_back_goes_on() {
        assert_eq!(BroadcastCursor::new(None, LATEST).begin(None), LATEST);
        assert_eq!(BroadcastCursor::new(Some(PullOffset(4)), LATEST).begin(Some(PullOffset(4))), ReadyNumber(5));
        assert_eq!(BroadcastCursor::new(Some(PullOffset(9)), LATEST).begin(Some(PullOffset(9))), LATEST);
        // The offset is from an earlier life of the subject.
        assert_eq!(BroadcastCursor::new(Some(PullOffset(10)), LATEST).begin(Some(PullOffset(10))), LATEST);
        assert_eq!(BroadcastCursor::new(Some(PullOffset(u64::MAX)), LATEST).begin(Some(PullOffset(u64::MAX))), LATEST);
    }

    #[test]
    fn what_did_not_arrive_comes_again_and_what_was_passed_over_does_not() {
        let mut cursor = BroadcastCursor::new(None, LATEST);
        cursor.went_on(Some(ReadyNumber(12)), ReadyNumber(20));
        assert_eq!(cursor.begin(Some(PullOffset(12))), ReadyNumber(20), "13 to 19 did not pass its filter");
        assert_eq!(cursor.begin(Some(PullOffset(10))), ReadyNumber(11));
        assert_eq!(cursor.begin(None), ReadyNumber(20), "it began anew");
        cursor.went_on(None, ReadyNumber(30));
        assert_eq!(
            (cursor.begin(Some(PullOffset(11))), cursor.begin(Some(PullOffset(12)))),
            (ReadyNumber(12), ReadyNumber(30))
        );
    }
}
