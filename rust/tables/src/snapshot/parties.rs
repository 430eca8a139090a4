//! Who takes part beside subjects: groups and consumers, as far as they are known.

use std::collections::BTreeMap;

use delaymq_core::units::{ConsumerNumber, GroupNumber, SubjectNumber};

use crate::schema::filter::Names;

/// Names by number. A number is never used again, so what is known of one holds wherever it stands.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Parties {
    /// Subjects beside those that a range is of.
    pub(crate) subjects: Names,
    /// Groups, each with its subject.
    pub(crate) groups: BTreeMap<GroupNumber, (SubjectNumber, String)>,
    pub(crate) consumers: BTreeMap<ConsumerNumber, String>,
}
