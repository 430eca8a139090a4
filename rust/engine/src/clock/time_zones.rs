//! The rules of time zones that series follow: those of the machine where they are newer, otherwise those of this program.
//!
//! A government's new rule reaches a machine with an update of its system, before the next release of this program. The
//! file `tzdata.zi` names the version of a database, so it is looked at before each use: an update needs no restart.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use delaymq_recurrence::{BUNDLED_VERSION, Zones, ZonesVersion};
use jiff::tz::TimeZoneDatabase;

use crate::held;
use crate::sync::Mutex;

/// The file of a database that names its version in its first line.
const VERSION_FILE: &str = "tzdata.zi";
/// Bytes of that line that are read.
const VERSION_LINE_BYTES: u64 = 64;

/// The version of the rules that are in use, and where they are from: a field of `Status`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ZonesInUse {
    /// The version.
    pub version: ZonesVersion,
    /// The folder of a database of the machine; `None` for the database of this program.
    pub folder: Option<PathBuf>,
}

impl fmt::Display for ZonesInUse {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.folder {
            Some(folder) => write!(out, "{} ({})", self.version, folder.display()),
            None => write!(out, "{} (delaymq)", self.version),
        }
    }
}

/// A mark of a file that changes if the file is replaced or written.
type Stamp = Option<(SystemTime, u64)>;

struct Chosen {
    stamps: Vec<Stamp>,
    zones: Zones,
    in_use: ZonesInUse,
}

/// The databases of a machine, and the one that is in use.
pub(crate) struct TimeZones {
    folders: Vec<PathBuf>,
    chosen: Mutex<Chosen>,
}

impl TimeZones {
    /// Chooses among these folders; of two of the same version, the first one. A folder without a database counts as
    /// missing.
    pub(crate) fn new(folders: Vec<PathBuf>) -> Self {
        let chosen = Mutex::new(choose(&folders, stamps_of(&folders)));
        Self { folders, chosen }
    }

    /// The rules to follow now.
    pub(crate) fn current(&self) -> Zones {
        self.with_current(|chosen| chosen.zones.clone())
    }

    /// The version of [`Self::current`].
    pub(crate) fn in_use(&self) -> ZonesInUse {
        self.with_current(|chosen| chosen.in_use.clone())
    }

    fn with_current<T>(&self, read: impl FnOnce(&Chosen) -> T) -> T {
        let stamps = stamps_of(&self.folders);
        let mut chosen = held(&self.chosen);
        if chosen.stamps != stamps {
            *chosen = choose(&self.folders, stamps);
        }
        read(&chosen)
    }
}

fn stamps_of(folders: &[PathBuf]) -> Vec<Stamp> {
    let stamp = |folder: &PathBuf| {
        let metadata = std::fs::metadata(folder.join(VERSION_FILE)).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    };
    folders.iter().map(stamp).collect()
}

fn choose(folders: &[PathBuf], stamps: Vec<Stamp>) -> Chosen {
    let mut zones = Zones::bundled();
    let mut in_use = ZonesInUse { version: BUNDLED_VERSION.clone(), folder: None };
    for folder in folders {
        let newer = version_of(folder).filter(|version| *version > in_use.version);
        if let Some((version, database)) = newer.zip(TimeZoneDatabase::from_dir(folder).ok()) {
            zones = Zones::newer(database);
            in_use = ZonesInUse { version, folder: Some(folder.clone()) };
        }
    }
    Chosen { stamps, zones, in_use }
}

fn version_of(folder: &Path) -> Option<ZonesVersion> {
    let mut start = String::new();
    File::open(folder.join(VERSION_FILE)).ok()?.take(VERSION_LINE_BYTES).read_to_string(&mut start).ok()?;
    ZonesVersion::of_file(&start)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put_version(folder: &Path, version: &str) {
        std::fs::create_dir_all(folder).unwrap();
        // Written aside and renamed, as a package manager does.
        std::fs::write(folder.join("new"), format!("# version {version}\nZ\n")).unwrap();
        std::fs::rename(folder.join("new"), folder.join(VERSION_FILE)).unwrap();
    }

    #[test]
    fn the_newest_database_is_in_use_and_an_update_is_seen_without_a_restart() {
        let machine = tempfile::tempdir().unwrap();
        let folders = ["none", "old", "first", "second"].map(|name| machine.path().join(name));
        put_version(&folders[1], "1999a");
        let zones = TimeZones::new(folders.to_vec());
        let own = ZonesInUse { version: BUNDLED_VERSION.clone(), folder: None };
        assert_eq!(zones.in_use(), own);
        assert!(own.to_string().ends_with(" (delaymq)"));
        for (place, version) in [(3, "9998a"), (2, "9998a"), (3, "9998za"), (1, "9999a")] {
            put_version(&folders[place], version);
            assert_eq!(zones.in_use().folder.as_ref(), Some(&folders[place]), "{version}");
        }
        assert_eq!(zones.in_use().to_string(), format!("9999a ({})", folders[1].display()));
        put_version(&folders[1], "no version");
        assert_eq!(zones.in_use().folder.as_ref(), Some(&folders[3]));
        std::fs::remove_dir_all(machine.path()).unwrap();
        assert_eq!(zones.in_use(), own);
    }
}
