//! Segments of the log mapped for reading. All `unsafe` of the project is in this file.
#![expect(unsafe_code, reason = "mapping a file cannot be proven safe by the compiler; see each note")]

use std::fs::File;
use std::path::Path;

use delaymq_core::error::Result;
use memmap2::{Advice, Mmap, MmapOptions};

use crate::files::storage_error;

/// A file mapped whole, for reading.
pub(crate) struct Mapping {
    map: Mmap,
}

impl Mapping {
    /// Maps the file at `path`, which errors name as `name`.
    ///
    /// # Errors
    /// `Storage` where the file cannot be opened or mapped.
    pub(crate) fn open(path: &Path, name: &str) -> Result<Self> {
        let file = File::open(path).map_err(|error| storage_error("open", name, &error))?;
        // SAFETY: the slice that the mapping gives out must stay readable and must not change while
        // it is looked at. Readable: a segment is prepared at its full length and no code of this
        // project truncates one; a retired segment is unlinked, which keeps its pages. Unchanged:
        // readers look only at records below the visible position, where the log never writes
        // again; repair writes another file and renames it over. That no other program writes into
        // the files of a store while it is open is what its lock asks for, and is assumed here as
        // it is by everybody who maps a file. The bytes are only ever read as bytes: no value that
        // some bit pattern would make invalid is built over them.
        let map = unsafe { MmapOptions::new().map(&file) }.map_err(|error| storage_error("map", name, &error))?;
        // Records are read here in the order of their due times, which is no order of the file.
        // A kernel that refuses the advice reads ahead more than it needs to, nothing else.
        let _refused = map.advise(Advice::Random);
        Ok(Self { map })
    }

    /// The file's bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.map
    }
}

impl std::fmt::Debug for Mapping {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Mapping").field("length", &self.map.len()).finish()
    }
}
