//! Messages counted by subject and minute.

use crate::units::{Minute, SubjectNumber, Tally};
use std::collections::BTreeMap;

/// By subject and minute; nothing that is empty.
pub type Cells = BTreeMap<(SubjectNumber, Minute), Tally>;
