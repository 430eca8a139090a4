//! The newest checkpoint keeps the runs that were loaded after it: an opening from it applies the facts that adopt
//! them.

use crate::schedule_log::PayloadCopies;
use crate::store::owner::Owner;
use crate::units::Sequence;

impl Owner {
    /// An opening from the newest checkpoint applies the facts from this sequence on.
    pub(in crate::store) fn opened_from(&self) -> Sequence {
        self.kept.last().map_or(Sequence(0), |newest| newest.next_sequence)
    }

    /// Adds the runs that were just adopted to the files that the newest checkpoint keeps: an opening from it opens
    /// them.
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

    /// Closes the files that were read for the sizes of bodies, and passes on the loaded runs as of now.
    pub(in crate::store) fn open_payloads_anew(&mut self) {
        self.effects.payloads = PayloadCopies::knowing(self.state.loaded_runs());
    }

    /// How often runs were loaded or released since the store was opened. If this changed, a caller that keeps
    /// [`State::loaded_runs`] must get them again.
    pub fn loads_changed(&self) -> u64 {
        self.loads_changed
    }
}
