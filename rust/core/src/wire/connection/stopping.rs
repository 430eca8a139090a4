//! The handling of received requests when the server stops.

use super::{Connection, Ending};
use crate::units::Millis;
use crate::wire::extension::errors::{ErrorCode, RemoteError};
use crate::wire::extension::{ACKNOWLEDGE, CREDIT, FLUSH, GIVE_BACK, OWN_COMMANDS, PUT_AWAY, UNSUBSCRIBE};

impl Connection {
    /// The server stops: nothing more is read. Requests under way may be answered; the caller ends the
    /// [`Self::held`] ones. A complete request of delaymq's own that was not handed out gets the error `Stopping`,
    /// as far as there is room, so its client knows that nothing was done. A QMQ request gets no answer, since QMQ
    /// has no code for this. A request of a subscription gets none either: the subscription ends with its
    /// connection.
    pub fn drain(&mut self, now: Millis) {
        while self.ending.is_none()
            && self.is_admitted
            && self.has_answer_room()
            && let Ok(Some(head)) = self.head()
            && let Some(frame) = self.input.take(head)
        {
            if OWN_COMMANDS.contains(&frame.header.code) && !is_of_subscription(frame.header.code) {
                let error = RemoteError::new(ErrorCode::Stopping, "the server is stopping; nothing of this was done");
                let header = frame.header.answered(error.code.number());
                // The text of an error fits into a frame.
                drop(self.outgoing.put(now, header, |out| error.put(out)));
            }
        }
        self.end(Ending::Drained);
    }
}

/// True for a command that names a subscription of its connection.
const fn is_of_subscription(command: i16) -> bool {
    matches!(command, CREDIT | ACKNOWLEDGE | GIVE_BACK | PUT_AWAY | FLUSH | UNSUBSCRIBE)
}
