//! The subjects, groups and consumers that are known, by number.

use std::collections::BTreeMap;

use delaymq_core::units::{ConsumerNumber, GroupNumber, SubjectNumber};

use crate::schema::filter::Names;

/// Names by number. A number is never used again, so a name holds for every fact with the number.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Parties {
    /// Subjects other than those of a range.
    pub(crate) subjects: Names,
    /// Groups, each with its subject.
    pub(crate) groups: BTreeMap<GroupNumber, (SubjectNumber, String)>,
    pub(crate) consumers: BTreeMap<ConsumerNumber, String>,
}
