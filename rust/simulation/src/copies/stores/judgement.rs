//! The state of all machines at the end is compared with a plain reading of all batches that were ever committed. The machines have noted
//! them when they wrote them, and their logs may have lost the first ones.

use super::StoreMachine;
use super::loads::tell_loads;
use super::users;
use crate::ledger::Ledger;
use crate::node::is_stopped;

impl StoreMachine {
    /// The differences, in words.
    pub(super) fn judge(machines: &[&Self]) -> Vec<String> {
        let (mut ledger, mut found) = (Ledger::default(), Vec::new());
        let batches = machines.first().map_or(&[][..], |first| &first.batches);
        for machine in machines {
            match machine.has_log_of(batches) {
                Ok(true) => {}
                Ok(false) => found.push("the logs have other bytes".to_owned()),
                // The machine has ended in the middle of a call, and its process does not know it yet.
                Err(error) if is_stopped(&error) => return Vec::new(),
                Err(error) => return vec![format!("a log cannot be read: {error}")],
            }
        }
        for batch in batches {
            tell_loads(batch, &mut ledger);
            ledger.apply(batch);
        }
        let owners = machines.iter().filter_map(|machine| machine.owner());
        found.extend(owners.flat_map(|owner| ledger.differences_of_store(owner)));
        let forgets = machines.iter().any(|machine| machine.retention);
        found.extend(users::judge(machines.iter().map(|machine| &machine.users), &ledger, forgets));
        found
    }
}
