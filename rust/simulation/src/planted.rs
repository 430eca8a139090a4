//! Planting a fault of the core. Which layer finds which is in `docs/guarantees.md`.

use delaymq_core::planted::lowered::lower;
use delaymq_core::planted::{Planted, plant};

/// The names of all faults.
pub fn names() -> String {
    let mut names: Vec<&str> = Planted::ALL.iter().map(|(_, name)| *name).collect();
    names.sort_unstable();
    names.join(", ")
}

/// Plants one fault on this thread for as long as the value lives.
#[derive(Debug)]
pub struct Plant;

impl Plant {
    /// Plants this fault, or none.
    pub fn new(fault: Option<Planted>) -> Self {
        plant(fault);
        Self
    }
}

impl Drop for Plant {
    fn drop(&mut self) {
        plant(None);
    }
}

/// Lowers limits that histories are too short for on this thread, for as long as the value lives.
#[derive(Debug)]
pub struct Lowered;

impl Lowered {
    /// None of them allows more than this.
    pub fn to(most: u64) -> Self {
        lower(Some(most));
        Self
    }
}

impl Drop for Lowered {
    fn drop(&mut self) {
        lower(None);
    }
}
