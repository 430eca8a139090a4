//! The identity of a store: read at an open, or made in an empty folder.

use crate::error::{Error, Result};
use crate::message_log::{
    ASIDE_FOLDER, IDENTITY_PATH, Identity, LOG_FOLDER, SEGMENT_BYTES_MIN, SEGMENT_HEADER_BYTES, SegmentHeader, Stream,
    segment_name, segment_path,
};
use crate::run::{LOAD_FOLDER, RUN_FOLDER};
use crate::storage::{Storage, read_upto, write_atomically};
use crate::store::checkpoint::paths::CHECKPOINT_FOLDER;
use crate::store::retention::pins::PIN_FOLDER;
use crate::units::{Epoch, SegmentNumber, Version};

/// Names that an interrupted creation of a store may leave in its folder.
const OWN_NAMES: [&str; 3] = ["LOCK", "identity.tmp", IDENTITY_PATH];
/// Files that the engine and the server keep next to the log. They do not show that the folder is a store.
const NAMES_BESIDE: [&str; 4] = ["clock", "clock.tmp", "switched_off", "switched_off.tmp"];

/// The values that a new store gets.
#[derive(Clone, Copy, Debug)]
pub struct NewStore {
    /// Random bytes that identify the stream.
    pub stream: [u8; 16],
    /// Random bytes that identify this copy of the stream.
    pub node: [u8; 16],
    /// The size of a segment in bytes.
    pub segment_bytes: u32,
}

/// Makes the folders of a store; existing folders are left alone.
///
/// # Errors
/// The errors of the storage.
pub fn create_folders(storage: &dyn Storage) -> Result<()> {
    for folder in [LOG_FOLDER, RUN_FOLDER, LOAD_FOLDER, CHECKPOINT_FOLDER, ASIDE_FOLDER, PIN_FOLDER] {
        storage.create_folder(folder)?;
    }
    storage.sync_folder("")
}

/// Reads the identity of a store that is only read, whether it stands alone or is a copy in a cluster.
///
/// # Errors
/// `NotAStore` if the folder has other files; `MissingFile` if a log has lost its identity, or if there is no store;
/// `NewerFormat`, `Corrupt`. No file was changed.
pub fn read_identity(storage: &dyn Storage) -> Result<Identity> {
    if let Some(identity) = Identity::read(storage)? {
        return Ok(identity);
    }
    refuse_strangers(storage)?;
    let reason = "there is no store here, and none was to be made".to_owned();
    Err(Error::MissingFile { path: IDENTITY_PATH.to_owned(), reason })
}

/// Reads the identity of a store that is written, or makes one if the folder is empty and `new` is given.
///
/// # Errors
/// Those of [`read_identity`], without `MissingFile` for an empty folder if `new` is given; `InvalidArgument` naming
/// `path` for a copy in a cluster. No file was changed.
pub fn open_identity(storage: &dyn Storage, new: Option<NewStore>) -> Result<Identity> {
    let identity = match new {
        Some(new) if Identity::read(storage)?.is_none() => {
            make_store(storage, Stream { id: new.stream, timeline: 0 }, (new.node, new.segment_bytes), false)?
        }
        _ => read_identity(storage)?,
    };
    if identity.clustered {
        return Err(Error::InvalidArgument {
            argument: "path",
            expected: "a store that stands alone".to_owned(),
            found: "a copy in a cluster, which may be behind the others: start the node that it belongs to".to_owned(),
        });
    }
    Ok(identity)
}

/// Reads the identity of a copy in a cluster, or makes an empty copy of this stream, with the random bytes of its node and the
/// size of a segment, if the folder is empty.
///
/// # Errors
/// As [`open_identity`]; `InvalidArgument` naming `path` for a store that stands alone. No file was changed.
pub fn open_copy(storage: &dyn Storage, stream: Stream, new: ([u8; 16], u32)) -> Result<Identity> {
    let identity = match Identity::read(storage)? {
        None => make_store(storage, stream, new, true)?,
        Some(identity) => identity,
    };
    if identity.clustered {
        return Ok(identity);
    }
    Err(Error::InvalidArgument {
        argument: "path",
        expected: "an empty folder, or a copy in a cluster".to_owned(),
        found: "a store that stands alone: `delaymq cluster create` makes it the first copy of a group".to_owned(),
    })
}

fn make_store(
    storage: &dyn Storage,
    stream: Stream,
    (node, segment_bytes): ([u8; 16], u32),
    clustered: bool,
) -> Result<Identity> {
    refuse_strangers(storage)?;
    create_folders(storage)?;
    write_first_segment(storage, stream)?;
    let (promised_epoch, seen) = (Epoch(0), (0, Version(0)));
    let identity = Identity { stream, node, promised_epoch, seen, clustered, segment_bytes };
    identity.write(storage)?;
    Ok(identity)
}

/// Writes the empty first segment of the log, before the identity. So a store with an identity and without a log has
/// lost its log, and is not one whose creation was interrupted.
fn write_first_segment(storage: &dyn Storage, stream: Stream) -> Result<()> {
    let number = SegmentNumber(1);
    let mut bytes = SegmentHeader { number, stream, capacity: SEGMENT_BYTES_MIN }.to_block();
    bytes.resize(SEGMENT_BYTES_MIN as usize, 0);
    write_atomically(storage, LOG_FOLDER, &segment_path(number), &bytes)
}

/// True if the log contains only files that [`write_first_segment`] may leave.
fn is_unused_log(storage: &dyn Storage, names: &[String]) -> Result<bool> {
    let first = segment_name(SegmentNumber(1));
    for name in names.iter().filter(|name| name.strip_suffix(".tmp").unwrap_or(name) == first.as_str()) {
        let file = storage.open(&format!("{LOG_FOLDER}/{name}"))?;
        let bytes = read_upto(file.as_ref(), 0, SEGMENT_BYTES_MIN as usize + 1)?;
        let content = bytes.get(SEGMENT_HEADER_BYTES as usize..).unwrap_or_default();
        if bytes.len() > SEGMENT_BYTES_MIN as usize || content.iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
    }
    Ok(names.iter().all(|name| name.strip_suffix(".tmp").unwrap_or(name) == first.as_str()))
}

fn refuse_strangers(storage: &dyn Storage) -> Result<()> {
    let names = storage.list("")?;
    let is_known = |name: &str| OWN_NAMES.contains(&name) || NAMES_BESIDE.contains(&name);
    if let Some(stranger) = names.iter().find(|name| !is_known(name)) {
        return Err(Error::NotAStore { path: ".".to_owned(), found: stranger.clone() });
    }
    match storage.list(LOG_FOLDER) {
        Ok(files) if !is_unused_log(storage, &files)? => Err(Error::MissingFile {
            path: IDENTITY_PATH.to_owned(),
            reason: format!("{LOG_FOLDER} holds {} files", files.len()),
        }),
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::MemoryStorage;

    const NEW: NewStore = NewStore { stream: [1; 16], node: [2; 16], segment_bytes: SEGMENT_BYTES_MIN };

    #[test]
    fn a_making_that_was_cut_short_anywhere_is_begun_again() {
        for calls in 0.. {
            let storage = MemoryStorage::new(1);
            storage.stop_after_calls(calls);
            let made = open_identity(&storage, Some(NEW)).is_ok();
            let after = storage.crash(crate::storage::Crash::PowerCut, calls);
            let again = open_identity(&after, Some(NewStore { stream: [3; 16], ..NEW })).unwrap();
            assert!(again.stream.id == [3; 16] || again.stream.id == [1; 16]);
            if made {
                assert_eq!(again.stream.id, [1; 16]);
                break;
            }
        }
    }

    #[test]
    fn a_copy_in_a_cluster_is_not_opened_alone_and_can_be_read() {
        let storage = MemoryStorage::new(1);
        let clustered = Identity { clustered: true, ..open_identity(&storage, Some(NEW)).unwrap() };
        clustered.write(&storage).unwrap();
        let before = storage.image();
        for new in [None, Some(NEW)] {
            let Err(Error::InvalidArgument { argument, found, .. }) = open_identity(&storage, new) else {
                panic!("it was opened")
            };
            assert_eq!((argument, found.ends_with("start the node that it belongs to")), ("path", true), "{found}");
        }
        assert_eq!(read_identity(&storage), Ok(clustered));
        assert_eq!(storage.image(), before);
    }

    #[test]
    fn a_copy_is_made_in_an_empty_folder_and_a_store_that_stands_alone_is_refused() {
        let storage = MemoryStorage::new(1);
        let (stream, new) = (Stream { id: [1; 16], timeline: 3 }, ([2; 16], SEGMENT_BYTES_MIN));
        let made = open_copy(&storage, stream, new).unwrap();
        assert_eq!((made.stream, made.node, made.clustered), (stream, [2; 16], true));
        assert_eq!(open_copy(&storage, stream, ([9; 16], SEGMENT_BYTES_MIN)), Ok(made));
        let alone = MemoryStorage::new(1);
        open_identity(&alone, Some(NEW)).unwrap();
        let before = alone.image();
        let Err(Error::InvalidArgument { argument, found, .. }) = open_copy(&alone, stream, new) else {
            panic!("it was opened")
        };
        assert_eq!((argument, found.contains("delaymq cluster create")), ("path", true));
        assert_eq!(alone.image(), before);
    }

    #[test]
    fn a_folder_with_something_else_is_refused_and_left_alone() {
        let storage = MemoryStorage::new(1);
        storage.create("notes.txt").unwrap();
        assert!(matches!(open_identity(&storage, Some(NEW)), Err(Error::NotAStore { .. })));
        assert_eq!(storage.list("").unwrap(), ["notes.txt"]);
    }

    #[test]
    fn a_log_without_its_identity_is_refused() {
        let storage = MemoryStorage::new(1);
        open_identity(&storage, Some(NEW)).unwrap();
        storage.open(&segment_path(SegmentNumber(1))).unwrap().write_at(5000, b"x").unwrap();
        storage.remove(IDENTITY_PATH).unwrap();
        for beside in NAMES_BESIDE {
            storage.create(beside).unwrap();
        }
        assert!(matches!(open_identity(&storage, Some(NEW)), Err(Error::MissingFile { .. })));
    }
}
