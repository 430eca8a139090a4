//! The counts of the account.

use crate::counts::counts;

counts! {
    /// The counts of a history over connections.
    Counts {
        /// Messages whose storing was answered.
        published,
        /// Publishes whose answer was lost.
        ambiguous,
        /// Those publishes that were stored nevertheless.
        ambiguous_stored,
        /// Messages that came.
        delivered,
        /// Messages that came again, though nobody gave them back.
        repeated,
        /// Messages that came again because they were given back.
        retried,
        /// Messages that a client had for too long.
        passed_on,
        /// Dead letters that clients made.
        dead,
        /// Cancels answered "done".
        cancelled,
        /// Acknowledgements of what an earlier epoch handed out.
        stale,
        /// Connections lost while the server lived.
        cuts,
        /// Times the server ended.
        crashes,
        /// Occurrences of series that came.
        occurrences,
        /// Moves answered "done".
        moved,
        /// Moves answered "done" though an earlier one of the same was not answered.
        moved_again,
        /// Messages that were answered before, and asked for again under their ids.
        told_again,
        /// Those whose first answer was lost, and whose second answer said what was stored.
        told_late,
        /// Messages that the filters of a group kept back.
        kept_back,
        /// Messages that came of a further subject of a subscription.
        of_others,
        /// Messages that expired before a group received them.
        expired,
        /// Those that became dead letters of the group.
        expired_dead,
        /// Steps of the clock that an operator accepted.
        accepted,
    }
}
