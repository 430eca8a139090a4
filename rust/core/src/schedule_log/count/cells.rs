//! Messages counted by subject and minute.

use std::collections::BTreeMap;

use crate::units::{Minute, SubjectNumber, Tally};

/// By subject and minute; nothing that is empty.
pub type Cells = BTreeMap<(SubjectNumber, Minute), Tally>;
