//! The beginning of a group, and of each of its copies.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use delaymq_coordinator::{Coordinator, CoordinatorError, encode};
use delaymq_core::error::Error;
use delaymq_core::message_log::{Identity, Stream};
use delaymq_core::replication::{NodeId, Reading, Register, SwapAnswer, Version};
use delaymq_core::storage::Storage;
use delaymq_core::store::{NewStore, adopt_snapshot, open_copy, open_identity, read_identity};
use delaymq_core::units::Epoch;
use delaymq_engine::{FileStorage, StoreLock, random};
use serde_json::{Value, json};

use crate::interface::{CoordinatorOptions, NodeError};

/// A group that was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupCreated {
    /// The stream that its copies hold.
    pub stream: [u8; 16],
    /// The node of the first copy.
    pub node: NodeId,
}

/// The copy of a node that starts.
pub(crate) struct OpenedCopy {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) lock: StoreLock,
    pub(crate) identity: Identity,
}

/// How often a node that starts reads the register where no endpoint answers, and the pause between two tries.
const FIRST_READS: u32 = 4;
const FIRST_READS_PAUSE: Duration = Duration::from_millis(500);

/// Reads the register for a node that starts. A link that loses packets, or a coordinator that starts at the same time,
/// does not end the node at once.
pub(crate) fn first_reading(coordinator: &dyn Coordinator) -> Result<Option<Reading>, CoordinatorError> {
    for _ in 1..FIRST_READS {
        match coordinator.read() {
            Err(CoordinatorError::Unreachable { .. }) => std::thread::sleep(FIRST_READS_PAUSE),
            answer => return answer,
        }
    }
    coordinator.read()
}

/// Makes the first copy of a new group in the folder `path`, or takes the closed store that is there, and writes the register. A
/// call that was interrupted can be repeated.
///
/// # Errors
/// `GroupExists`; errors of the store, of which `Locked` if it is open, and of the coordinator.
pub fn create_group(
    path: &Path,
    segment_bytes: u32,
    coordinator: &CoordinatorOptions,
    min_copies: usize,
) -> Result<GroupCreated, NodeError> {
    if min_copies == 0 {
        return Err(Error::InvalidArgument {
            argument: "min_copies",
            expected: "at least 1".to_owned(),
            found: "0".to_owned(),
        }
        .into());
    }
    let register = coordinator.open()?;
    let known = register.read()?;
    let storage = FileStorage::open(path, true)?;
    if known.is_none() && Identity::read(&storage)?.is_none() {
        refuse_foreign_folder(&storage)?;
    }
    let exists = || NodeError::GroupExists { register: coordinator.place() };
    let is_ours = |value: &Register, identity: &Identity| {
        (value.stream, value.primary.0) == (identity.stream.id, identity.node) && value.sync.len() == 1
    };
    if let Some(reading) = &known {
        // An earlier call may have ended before it marked the store.
        let identity = Identity::read(&storage)?.filter(|identity| !identity.clustered);
        if identity.is_none_or(|identity| !is_ours(&reading.value, &identity)) {
            return Err(exists());
        }
    }
    let _lock = StoreLock::take(path)?;
    let new = NewStore { stream: random()?, node: random()?, segment_bytes };
    let identity = open_identity(&storage, Some(new))?;
    let created = GroupCreated { stream: identity.stream.id, node: NodeId(identity.node) };
    let Reading { coordinator, version, value } = if let Some(reading) = known {
        reading
    } else {
        let first = Register::first(created.stream, created.node, Epoch(1), min_copies);
        let value = Register { timeline: identity.stream.timeline, ..first };
        match register.swap(Version(0), &value)? {
            SwapAnswer::Won(coordinator, version) => Reading { coordinator, version, value },
            SwapAnswer::Lost(reading) if reading.value == value => reading,
            SwapAnswer::Lost(_) | SwapAnswer::Unknown => return Err(exists()),
        }
    };
    // The number of the coordinator is known only by now. The store may have been opened alone since a call that was interrupted.
    let made = Register { epoch: identity.promised_epoch.max(value.epoch), made_for: coordinator, ..value.clone() };
    if made != value && !matches!(register.swap(version, &made)?, SwapAnswer::Won(..)) {
        return Err(exists());
    }
    Identity { clustered: true, ..identity }.write(&storage)?;
    Ok(created)
}

/// Refuses the folder of something else before a lock file is made in it.
fn refuse_foreign_folder(storage: &dyn Storage) -> Result<(), NodeError> {
    match read_identity(storage) {
        Err(Error::MissingFile { .. }) | Ok(_) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Opens the copy in the folder, or makes an empty one of the group that the register names.
pub(crate) fn open_or_join(
    path: &Path,
    segment_bytes: u32,
    (register, place): (&Reading, String),
) -> Result<OpenedCopy, NodeError> {
    let storage: Arc<dyn Storage> = Arc::new(FileStorage::open(path, true)?);
    let stream = Stream { id: register.value.stream, timeline: register.value.timeline };
    if let Some(identity) = Identity::read(storage.as_ref())?.filter(|identity| identity.clustered)
        && identity.stream != stream
    {
        return Err(other_group(path, place, &register.value, &identity));
    }
    if Identity::read(storage.as_ref())?.is_none() {
        refuse_foreign_folder(storage.as_ref())?;
    }
    let lock = StoreLock::take(path)?;
    let identity = open_copy(storage.as_ref(), stream, (random()?, segment_bytes))?;
    // A process may have ended while a snapshot took the place of the copy.
    adopt_snapshot(storage.as_ref())?;
    Ok(OpenedCopy { storage, lock, identity })
}

/// The refusal of a copy that is not of the group of the register.
pub(crate) fn other_group(path: &Path, register: String, value: &Register, identity: &Identity) -> NodeError {
    let (path, found) = (path.display().to_string(), identity.stream);
    if (value.stream, value.primary.0) == (found.id, identity.node) {
        let again = format!("repeat `delaymq cluster promote {} --accept-loss`", value.primary);
        return NodeError::Refused(format!("the promotion of the copy in {path} was interrupted: {again}"));
    }
    if value.stream == found.id && value.timeline > found.timeline {
        return NodeError::Superseded { path, timeline: value.timeline };
    }
    let shown = |id: [u8; 16], timeline: u32| format!("{} (timeline {timeline})", NodeId(id));
    let (expected, found) = (shown(value.stream, value.timeline), shown(found.id, found.timeline));
    NodeError::OtherGroup { path, register, expected, found }
}

/// The value of the register as JSON, with the number of its coordinator and its version; `None` if there is none.
///
/// # Errors
/// Those of the coordinator.
pub fn read_register(coordinator: &CoordinatorOptions) -> Result<Option<String>, NodeError> {
    let reading = coordinator.open()?.read()?;
    Ok(reading.map(|reading| register_shown(&reading).to_string()))
}

/// A value of the register as the status shows it.
pub(crate) fn register_shown(reading: &Reading) -> Value {
    let mut shown: Value = serde_json::from_str(&encode(&reading.value)).unwrap_or_default();
    if let Some(fields) = shown.as_object_mut() {
        fields.insert("coordinator".to_owned(), json!(reading.coordinator));
        fields.insert("version".to_owned(), json!(reading.version.0));
    }
    shown
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// A coordinator of which the first reads are lost.
    struct Unreachable {
        lost: u32,
        reads: AtomicU32,
    }

    impl Coordinator for Unreachable {
        fn read(&self) -> Result<Option<Reading>, CoordinatorError> {
            let read = self.reads.fetch_add(1, Ordering::Relaxed);
            if read < self.lost { Err(CoordinatorError::Unreachable { reasons: Vec::new() }) } else { Ok(None) }
        }

        fn swap(&self, _expected: Version, _value: &Register) -> Result<SwapAnswer, CoordinatorError> {
            Err(CoordinatorError::Unreachable { reasons: Vec::new() })
        }

        fn changed(&self, _since: Version, _at_most: Duration) -> Result<bool, CoordinatorError> {
            Err(CoordinatorError::Unreachable { reasons: Vec::new() })
        }
    }

    #[test]
    fn a_node_starts_although_its_first_reads_of_the_register_are_lost() {
        for (lost, is_read) in [(0, true), (3, true), (4, false)] {
            let coordinator = Unreachable { lost, reads: AtomicU32::new(0) };
            assert_eq!(first_reading(&coordinator).is_ok(), is_read);
            assert_eq!(coordinator.reads.into_inner(), (lost + 1).min(4));
        }
    }
}
