//! Which copies get the files of a load, and from whom such messages count.

use super::files::LoadMessage;
use super::interface::{Action, LogView};
use super::members::Stage;
use super::register::NodeId;
use super::state::{Node, Role};
use crate::units::Epoch;

/// Another copy, as a primary sees it that sends files of a load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LoadCopy {
    /// Its node.
    pub node: NodeId,
    /// The epoch and the exchange that matched its log; `None` while its log is not matched.
    pub exchange: Option<(Epoch, u64)>,
    /// True if nothing is committed without it: it is in the set or about to join it.
    pub is_counted: bool,
}

impl Node {
    /// The other copies that a primary may send files of a load to. Empty on a replica.
    pub fn load_copies(&self) -> Vec<LoadCopy> {
        let Role::Leading(primary) = &self.role else { return Vec::new() };
        let pending = self.registrar.swap().map(|swap| &swap.value.sync);
        let is_counted = |node: &NodeId| {
            primary.set.contains(node)
                || primary.joining.contains(node)
                || pending.is_some_and(|pending| pending.contains(node))
        };
        let members = primary.members.iter().map(|(node, member)| LoadCopy {
            node: *node,
            exchange: (member.stage == Stage::Matched).then_some((primary.epoch, member.attempt)),
            is_counted: is_counted(node),
        });
        members.collect()
    }

    pub(super) fn receive_load(
        &mut self,
        from: NodeId,
        (epoch, attempt): (Epoch, u64),
        message: LoadMessage,
        log: &dyn LogView,
        out: &mut Vec<Action>,
    ) {
        let is_heard = match message {
            LoadMessage::Hold { .. } => self.hears(from, (epoch, attempt), log, out),
            LoadMessage::Held { .. } => self.hears_member(from, (epoch, attempt)),
        };
        if is_heard {
            out.push(Action::Load(from, epoch, attempt, message));
        }
    }
}
