//! How a subscription comes to consume more: further subjects of its list, subjects that its prefix selects and that
//! were made since, and the retries of its group.

use delaymq_core::error::Result;
use delaymq_core::store::{Outcome, Selection, StartAt, retry_subject};

use super::Server;
use super::steps::{Join, Joining, Pending, unexpected};
use super::subscription::{Consumed, Standing};
use crate::connected::link::LinkId;
use crate::node::{Node, unless_full};

impl Standing {
    /// Begins to join the queues that it does not consume yet.
    pub(super) fn join(&mut self, node: &Node, link: LinkId, number: u32, pending: &mut Vec<Pending>) {
        let state = node.owner().state();
        let mut join = |queue: u32, step: Join| pending.push(Pending::Joining(Joining { link, number, queue, step }));
        for subject in self.new_subjects(node) {
            let index = self.consumed.len();
            let of_subject = state.subjects.number(&subject);
            let group = of_subject.and_then(|subject| state.group_named(subject, &self.group));
            join(2 * index as u32, group.map_or_else(|| Join::Group(subject.clone()), Join::Consumer));
            self.consumed.push(Consumed { subject, places: [None, None], is_joining: [true, false] });
        }
        for (index, one) in (0_u32..).zip(&mut self.consumed) {
            let ([_, None], [_, false]) = (one.places, one.is_joining) else { continue };
            let subject = state.subjects.number(&retry_subject(&one.subject, &self.group));
            if let Some(group) = subject.and_then(|subject| state.group_named(subject, &self.group)) {
                let [_, is_joining] = &mut one.is_joining;
                *is_joining = true;
                join(2 * index + 1, Join::Consumer(group));
            }
        }
    }

    /// The selected subjects that exist and are not consumed.
    fn new_subjects(&self, node: &Node) -> Vec<String> {
        let is_new = |name: &&String| self.consumed.iter().all(|one| one.subject != **name);
        match &self.selection {
            Selection::Listed(names) => names.iter().filter(is_new).cloned().collect(),
            Selection::Prefix(_) => {
                let names = node.owner().state().subjects.iter().map(|(_, subject)| &subject.name);
                names.filter(|name| self.selection.begins(name)).filter(is_new).cloned().collect()
            }
        }
    }
}

impl Server {
    pub(super) fn keep_joining(&mut self, node: &mut Node, joining: Joining) -> Result<Option<Pending>> {
        let Joining { link, number, queue, step } = joining;
        let standing = self.peers.get_mut(&link).and_then(|peer| peer.standings.get_mut(&number));
        let step = match (step, standing) {
            (Join::Beginning(group, fact), standing) => match (node.take_outcome(fact), standing) {
                (None, _) => Join::Beginning(group, fact),
                (Some(Outcome::Consumer(consumer)), Some(standing)) => {
                    standing.joined(queue, (group, consumer));
                    return Ok(None);
                }
                (Some(Outcome::Consumer(consumer)), None) => {
                    return unless_full(node.end_consumer(group, consumer, 0)).map(|()| None);
                }
                (Some(other), _) => return Err(unexpected(other)),
            },
            // The subscription has ended meanwhile. The group stays.
            (_, None) => return Ok(None),
            // Subjects that are met later are consumed from their first messages on.
            (Join::Group(subject), Some(standing)) => {
                match unless_full(node.subscribe(&subject, &standing.group, StartAt::Earliest))? {
                    Some(fact) => Join::Making(fact),
                    None => Join::Group(subject),
                }
            }
            (Join::Making(fact), Some(_)) => match node.take_outcome(fact) {
                None => Join::Making(fact),
                Some(Outcome::Group(group) | Outcome::GroupThere(group)) => Join::Consumer(group),
                Some(other) => return Err(unexpected(other)),
            },
            (Join::Consumer(group), Some(standing)) => {
                let name = format!("{}-{link}-{number}-{queue}", node.epoch());
                match unless_full(node.begin_consumer(group, &name, standing.in_flight_max))? {
                    Some(fact) => Join::Beginning(group, fact),
                    None => Join::Consumer(group),
                }
            }
        };
        Ok(Some(Pending::Joining(Joining { link, number, queue, step })))
    }
}
