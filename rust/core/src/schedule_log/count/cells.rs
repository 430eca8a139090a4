//! Messages counted by subject and minute.

use std::collections::BTreeMap;

use crate::units::{Minute, SubjectNumber, Tally};

/// Tallies by subject and minute, without empty ones.
pub type Cells = BTreeMap<(SubjectNumber, Minute), Tally>;
