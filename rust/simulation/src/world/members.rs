//! Members of groups with queues of many subjects, as users know them.

use std::collections::BTreeMap;

use delaymq_core::queues::turns::Turns;

use super::asked::Handle;

/// A member: handles of different subjects, which are its queues.
#[derive(Default)]
pub(super) struct Member {
    pub(super) handles: Vec<usize>,
    pub(super) turns: Turns,
}

/// All members, and to which of them each handle belongs as which queue.
#[derive(Default)]
pub(super) struct Together {
    members: Vec<Member>,
    places: Vec<(usize, u32)>,
}

impl Together {
    /// The members of these handles, none of which is woken.
    pub(super) fn of(handles: &[Handle]) -> Self {
        let mut together = Self::default();
        let mut numbers: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for (index, handle) in handles.iter().enumerate() {
            let next = together.members.len();
            let number = *numbers.entry((&handle.group, &handle.name)).or_insert(next);
            if number == next {
                together.members.push(Member::default());
            }
            let Some(member) = together.members.get_mut(number) else { continue };
            let queue = u32::try_from(member.handles.len()).unwrap_or(u32::MAX);
            member.handles.push(index);
            together.places.push((number, queue));
        }
        together
    }

    /// The queue of this handle may have messages.
    pub(super) fn wake(&mut self, index: usize) {
        if let Some((member, queue)) = self.places.get(index)
            && let Some(member) = self.members.get_mut(*member)
        {
            member.turns.wake(*queue);
        }
    }

    /// The member that this handle is a queue of.
    pub(super) fn member_of(&mut self, index: usize) -> Option<&mut Member> {
        let (member, _) = self.places.get(index)?;
        self.members.get_mut(*member)
    }
}
