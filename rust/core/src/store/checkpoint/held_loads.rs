//! Runs that were loaded just now are held by the newest checkpoint.

use crate::schedule_log::PayloadCopies;
use crate::store::owner::Owner;
use crate::units::Sequence;

impl Owner {
    /// From here on facts are applied by who opens the newest checkpoint.
    pub(in crate::store) fn opened_from(&self) -> Sequence {
        self.kept.last().map_or(Sequence(0), |newest| newest.next_sequence)
    }

    /// What was adopted just now is held by the checkpoint that is the newest: whoever opens that opens it.
    pub(in crate::store) fn hold_adopted(&mut self) {
        if !std::mem::take(&mut self.effects.has_adopted) {
            return;
        }
        if let Some(newest) = self.kept.pop() {
            self.kept.push(newest.holding_loads(&self.state));
        }
        self.open_payloads_anew();
        self.loads_changed = self.loads_changed.saturating_add(1);
    }

    /// Lets go of the files in which bodies were measured, and knows the loaded runs as of now.
    pub(in crate::store) fn open_payloads_anew(&mut self) {
        self.effects.payloads = PayloadCopies::knowing(self.state.loaded_runs());
    }

    /// How often runs were loaded, or let go of, since the store was opened: when it is another one, whoever keeps
    /// [`State::loaded_runs`] asks for them again.
    pub fn loads_changed(&self) -> u64 {
        self.loads_changed
    }
}
