//! A register in a file that all nodes can lock and replace, as nodes on one machine can.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use delaymq_core::replication::{Reading, Register, SwapAnswer, Version};
use rustix::fs::{FlockOperation, flock};
use serde::Deserialize;

use crate::value::{decode, encode};
use crate::{Coordinator, CoordinatorError};

/// How often a wait for a change looks.
const LOOK_EVERY: Duration = Duration::from_millis(20);

#[derive(Deserialize)]
struct Content {
    coordinator: u64,
    version: u64,
    value: serde_json::Value,
}

/// A register in a file. A lock file next to it makes a swap exclusive; the file itself is replaced by a rename, so
/// that a reader finds one whole value. It must not be on a network file system.
#[derive(Debug)]
pub struct FileCoordinator {
    path: PathBuf,
    number: u64,
}

impl FileCoordinator {
    /// A register at this path. `number` is kept in a file that is made new, as the number of its coordinator; a random
    /// one tells a file from another that took its place.
    pub fn new(path: &Path, number: u64) -> Self {
        Self { path: path.to_owned(), number: number.max(1) }
    }

    fn file_error(path: &Path) -> impl Fn(std::io::Error) -> CoordinatorError {
        let path = path.display().to_string();
        move |source| CoordinatorError::File { path: path.clone(), source }
    }

    fn beside(&self, ending: &str) -> PathBuf {
        let mut path = self.path.clone().into_os_string();
        path.push(ending);
        PathBuf::from(path)
    }

    /// Holds the lock until the file is dropped.
    fn lock(&self, operation: FlockOperation) -> Result<File, CoordinatorError> {
        let path = self.beside(".lock");
        let failed = Self::file_error(&path);
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path).map_err(&failed)?;
        flock(&file, operation).map_err(|errno| failed(errno.into()))?;
        Ok(file)
    }

    fn stored(&self) -> Result<Option<Reading>, CoordinatorError> {
        let text = match std::fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Self::file_error(&self.path)(error)),
        };
        let place = self.path.display().to_string();
        let content: Content = serde_json::from_str(&text).map_err(|error| CoordinatorError::Malformed {
            place: place.clone(),
            expected: "a register with its version".to_owned(),
            found: format!("{text:.200} ({error})"),
        })?;
        let value = decode(&place, &content.value.to_string())?;
        Ok(Some(Reading { coordinator: content.coordinator, version: Version(content.version), value }))
    }

    fn replace(&self, coordinator: u64, version: Version, value: &Register) -> Result<(), CoordinatorError> {
        let text = format!(
            r#"{{"coordinator":{coordinator},"version":{version},"value":{}}}"#,
            encode(value),
            version = version.0
        );
        let unfinished = self.beside(".tmp");
        let failed = Self::file_error(&unfinished);
        let mut file = File::create(&unfinished).map_err(&failed)?;
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(&failed)?;
        std::fs::rename(&unfinished, &self.path).map_err(&failed)?;
        let folder = self.path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(Self::file_error(folder))
    }
}

impl Coordinator for FileCoordinator {
    fn read(&self) -> Result<Option<Reading>, CoordinatorError> {
        // A value whose rename is not durable yet must not be read: a power cut may take it back.
        let _lock = self.lock(FlockOperation::LockShared)?;
        self.stored()
    }

    fn swap(&self, expected: Version, value: &Register) -> Result<SwapAnswer, CoordinatorError> {
        let _lock = self.lock(FlockOperation::LockExclusive)?;
        let (coordinator, version) = match self.stored()? {
            Some(reading) if reading.version != expected => return Ok(SwapAnswer::Lost(reading)),
            Some(reading) => (reading.coordinator, reading.version),
            None if expected != Version(0) => {
                return Err(CoordinatorError::Missing { key: self.path.display().to_string() });
            }
            None => (self.number, Version(0)),
        };
        let next = Version(version.0.saturating_add(1));
        self.replace(coordinator, next, value)?;
        Ok(SwapAnswer::Won(coordinator, next))
    }

    fn changed(&self, since: Version, at_most: Duration) -> Result<bool, CoordinatorError> {
        let until = Instant::now() + at_most;
        loop {
            if self.read()?.is_some_and(|reading| reading.version > since) {
                return Ok(true);
            }
            let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) else {
                return Ok(false);
            };
            sleep(left.min(LOOK_EVERY));
        }
    }
}
