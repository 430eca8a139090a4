//! How many ready messages a group has not finished.

use crate::queues::Group;
use crate::store::state::State;

/// Ready messages that a group has not finished.
pub(in crate::store) fn lag_of(state: &State, group: &Group) -> u64 {
    let next = state.dispatch.next_number(group.subject);
    let done_above = group.done.ranges().map(|(first, end)| end.saturating_sub(first)).fold(0, u64::saturating_add);
    next.0.saturating_sub(group.done.below()).saturating_sub(done_above)
}
