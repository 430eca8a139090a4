//! A fault in all threads of this process, while a test looks whether it is seen.

use delaymq_core::planted::{Planted, plant_everywhere};

/// Takes the fault out again whatever happens.
pub(crate) struct Everywhere;

impl Everywhere {
    pub(crate) fn plant(fault: Option<Planted>) -> Self {
        plant_everywhere(fault);
        Self
    }
}

impl Drop for Everywhere {
    fn drop(&mut self) {
        plant_everywhere(None);
    }
}
