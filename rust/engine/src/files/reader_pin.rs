//! The pin of a reader without the lock: a file that keeps retention from removing anything. The reader removes it when
//! it is done. If the reader died, the pin expires.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use delaymq_core::store::PIN_FOLDER;
use delaymq_core::units::Millis;

/// How many pins of one process may expire in the same millisecond.
const ALIKE_MAX: u32 = 1_000;

/// See the module.
#[derive(Debug)]
pub struct ReaderPin {
    path: PathBuf,
    /// The name of its file.
    pub name: String,
    /// When it ends by itself.
    pub expires: Millis,
    outlives: bool,
}

impl ReaderPin {
    /// Leaves a pin in the store's folder. `None` if the folder is not writable: then nothing is kept back.
    pub(crate) fn leave(root: &Path, now: Millis, reader: &str, for_ms: u64) -> Option<Self> {
        let expires = now.plus(for_ms);
        let left = |number: u32| {
            let name = format!("{expires}-{reader}-{}-{number}", std::process::id());
            let path = root.join(PIN_FOLDER).join(&name);
            match std::fs::OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(_) => Some(Some(Self { path, name, expires, outlives: false })),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => None,
                Err(_) => Some(None),
            }
        };
        (1..=ALIKE_MAX).find_map(left).flatten()
    }

    /// Lets the pin stay until it expires: other processes go on reading.
    pub fn outlive(mut self) {
        self.outlives = true;
    }
}

impl Drop for ReaderPin {
    fn drop(&mut self) {
        if !self.outlives {
            // A pin that cannot be removed expires.
            drop(std::fs::remove_file(&self.path));
        }
    }
}
