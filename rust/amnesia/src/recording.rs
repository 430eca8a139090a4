//! The writes and flushes of one file, in order, so that the file can be restored as of each moment.

use std::io::{BufWriter, Write};
use std::path::Path;

/// One event of the file.
#[derive(Clone, Debug)]
enum Event {
    Write { offset: u64, bytes: Vec<u8> },
    Flush,
}

/// The writes and flushes of one file, if they are recorded.
#[derive(Default, Debug)]
pub(crate) struct Recording {
    of: Option<u64>,
    events: Vec<Event>,
}

impl Recording {
    /// Starts a new recording, of this file.
    pub(crate) fn begin(&mut self, number: u64) {
        *self = Self { of: Some(number), events: Vec::new() };
    }

    pub(crate) fn write(&mut self, number: u64, offset: u64, bytes: &[u8]) {
        if self.of == Some(number) {
            self.events.push(Event::Write { offset, bytes: bytes.to_vec() });
        }
    }

    pub(crate) fn flush(&mut self, number: u64) {
        if self.of == Some(number) && !matches!(self.events.last(), Some(Event::Flush)) {
            self.events.push(Event::Flush);
        }
    }

    /// The number of events.
    pub(crate) fn length(&self) -> usize {
        self.events.len()
    }

    /// Writes all events to a file: each with its offset and its number of bytes, 8 bytes each, little-endian, then
    /// its bytes. A flush has the offset 2^64 - 1.
    pub(crate) fn save(&self, path: &Path) -> std::io::Result<()> {
        let mut file = BufWriter::new(std::fs::File::create(path)?);
        for event in &self.events {
            let (offset, bytes) = match event {
                Event::Write { offset, bytes } => (*offset, bytes.as_slice()),
                Event::Flush => (u64::MAX, [].as_slice()),
            };
            file.write_all(&offset.to_le_bytes())?;
            file.write_all(&(bytes.len() as u64).to_le_bytes())?;
            file.write_all(bytes)?;
        }
        file.flush()
    }
}
