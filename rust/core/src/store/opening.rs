//! Whose folder it is: the identity of a store, made where there is none.

use super::recovery::create_folders;
use crate::error::{Error, Result};
use crate::message_log::{IDENTITY_PATH, Identity, LOG_FOLDER, Stream};
use crate::storage::Storage;
use crate::units::Epoch;

/// Names that may stand in the folder of a store whose making was cut short.
const OWN_NAMES: [&str; 3] = ["LOCK", "identity.tmp", IDENTITY_PATH];

/// What a new store is made with.
#[derive(Clone, Copy, Debug)]
pub struct NewStore {
    /// Random bytes: the stream.
    pub stream: [u8; 16],
    /// Random bytes: this copy of it.
    pub node: [u8; 16],
    /// Bytes of a segment.
    pub segment_bytes: u32,
}

/// Reads the identity of a store, or makes one where the folder is empty and `new` is given.
///
/// # Errors
/// `NotAStore` where something else is there, `MissingFile` where a log has lost its identity,
/// `NotFound` where there is nothing and nothing is to be made, `NewerFormat`, `Corrupt`,
/// `InvalidArgument` for a store that belongs to a cluster; no file was changed.
pub fn open_identity(storage: &dyn Storage, new: Option<NewStore>) -> Result<Identity> {
    if let Some(identity) = Identity::read(storage)? {
        if identity.clustered {
            return Err(Error::InvalidArgument {
                argument: "path",
                expected: "a store that stands alone".to_owned(),
                found: "a member of a cluster".to_owned(),
            });
        }
        return Ok(identity);
    }
    refuse_strangers(storage)?;
    let Some(new) = new else {
        return Err(Error::MissingFile {
            path: IDENTITY_PATH.to_owned(),
            reason: "there is no store here, and none was to be made".to_owned(),
        });
    };
    create_folders(storage)?;
    let identity = Identity {
        stream: Stream { id: new.stream, timeline: 0 },
        node: new.node,
        promised_epoch: Epoch(0),
        clustered: false,
        segment_bytes: new.segment_bytes,
    };
    identity.write(storage)?;
    Ok(identity)
}

fn refuse_strangers(storage: &dyn Storage) -> Result<()> {
    let names = storage.list("")?;
    if let Some(stranger) = names.iter().find(|name| !OWN_NAMES.contains(&name.as_str())) {
        return Err(Error::NotAStore { path: ".".to_owned(), found: stranger.clone() });
    }
    match storage.list(LOG_FOLDER) {
        Ok(files) if !files.is_empty() => Err(Error::MissingFile {
            path: IDENTITY_PATH.to_owned(),
            reason: format!("{LOG_FOLDER} holds {} files", files.len()),
        }),
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}
