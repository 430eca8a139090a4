//! Stores whose files were changed, cut, swapped, removed and added.

use std::sync::OnceLock;

use delaymq_core::Error;
use delaymq_core::message_log::{IDENTITY_PATH, Identity};
use delaymq_core::storage::{MemoryStorage, Storage, read_upto};

use crate::resealing::reseal_file;
use crate::sample::{Files, drained, files, identity, opened, stored};
use crate::verdict::{Judged, Verdict, covered, holds, same, unexpected};

/// The most edits of one input.
const EDITS_MAX: usize = 24;
/// Bytes of an edit before its own bytes.
const EDIT_BYTES: usize = 6;
/// Folders and endings of the files that an edit may add, with numbers from 1 on.
const NAMES: [(&str, &str); 6] = [
    ("log/", ".segment"),
    ("runs/", ".run"),
    ("checkpoints/", ".checkpoint"),
    ("log/", ".segment.tmp"),
    ("pins/", ""),
    ("aside/", ".segment.1"),
];

fn sample() -> Result<&'static Files, String> {
    static SAMPLE: OnceLock<Result<Files, String>> = OnceLock::new();
    SAMPLE.get_or_init(|| files().map_err(|error| format!("the sample: {error}"))).as_ref().map_err(Clone::clone)
}

/// The files that an input makes from the sample: edits of six bytes and their own bytes, one after the other.
fn edited(input: &[u8]) -> Result<Files, String> {
    let mut files = sample()?.clone();
    let stream = identity(&files).map_err(unexpected("the sample's identity"))?.stream.id;
    let mut rest = input;
    for _ in 0..EDITS_MAX {
        let Some((head, behind)) = rest.split_first_chunk::<EDIT_BYTES>() else { break };
        let [which, what, low, high, number, length] = *head;
        let (bytes, behind) = behind.split_at_checked(usize::from(length)).unwrap_or((behind, &[]));
        rest = behind;
        let paths: Vec<String> = files.keys().cloned().collect();
        let Some(path) = paths.get(usize::from(which) % paths.len().max(1)).cloned() else { break };
        let offset = usize::from(u16::from_le_bytes([low, high]));
        let edit = Edit { path, offset, number, bytes };
        edit.apply(&mut files, what);
        if what & 0x80 != 0
            && let Some(file) = files.get_mut(&edit.path)
        {
            reseal_file(&edit.path, file, &stream);
        }
    }
    Ok(files)
}

struct Edit<'a> {
    path: String,
    offset: usize,
    number: u8,
    bytes: &'a [u8],
}

impl Edit<'_> {
    fn apply(&self, files: &mut Files, what: u8) {
        match what & 0x7F {
            0 => self.in_place(files, |field, given| *field = given),
            1 => self.in_place(files, |field, given| *field ^= given),
            2 => self.of_file(files, |file| file.truncate(self.place(file))),
            3 => drop(files.remove(&self.path)),
            4 => self.of_file(files, |file| file.extend_from_slice(self.bytes)),
            5 => {
                if let Some(file) = files.remove(&self.path) {
                    files.insert(self.numbered(), file);
                }
            }
            6 => {
                if let Some(file) = files.get(&self.path).cloned() {
                    files.insert(self.numbered(), file);
                }
            }
            7 => drop(files.insert(self.numbered(), self.bytes.to_vec())),
            8 => self.of_file(files, |file| {
                let from = self.place(file);
                file.iter_mut().skip(from).for_each(|byte| *byte = 0);
            }),
            _ => {}
        }
    }

    fn of_file(&self, files: &mut Files, change: impl FnOnce(&mut Vec<u8>)) {
        if let Some(file) = files.get_mut(&self.path) {
            change(file);
        }
    }

    fn in_place(&self, files: &mut Files, change: impl Fn(&mut u8, u8)) {
        self.of_file(files, |file| {
            // Also counts from the end: the important part of a run is there.
            let from = if self.number & 1 == 0 { self.place(file) } else { file.len().saturating_sub(self.offset) };
            file.iter_mut().skip(from).zip(self.bytes).for_each(|(field, given)| change(field, *given));
        });
    }

    /// The place within the part before the zeros at the end.
    fn place(&self, file: &[u8]) -> usize {
        let content = file.iter().rposition(|byte| *byte != 0).map_or(0, |last| last.saturating_add(1));
        self.offset.checked_rem(content).unwrap_or_default()
    }

    fn numbered(&self) -> String {
        let (folder, ending) = NAMES.get(usize::from(self.number >> 4) % NAMES.len()).copied().unwrap_or_default();
        format!("{folder}{:010}{ending}", self.number & 15)
    }
}

pub(super) fn judge(input: &[u8]) -> Judged {
    let files = edited(input)?;
    let storage = stored(&files).map_err(unexpected("the disk"))?;
    let before = storage.image();
    let again = stored(&files).map_err(unexpected("the disk"))?;
    match opened(&again) {
        Ok(()) => {}
        Err(
            error @ (Error::Corrupt { .. }
            | Error::MissingFile { .. }
            | Error::NewerFormat { .. }
            | Error::NotAStore { .. }
            | Error::InvalidArgument { .. }),
        ) => {
            holds(&format!("a store that is refused is left as it is: {error}"), again.image() == before)?;
            same("refused again", &drained(&storage).is_err(), &true)?;
            return Ok(Verdict::Refused);
        }
        Err(error) => return Err(format!("opening: {error}")),
    }
    let first = said(&storage);
    let second = said(&again);
    same("opened once, and opened, killed and opened", &first, &second)?;
    if first.is_ok() {
        let (bodies, _) = drained(&storage).map_err(unexpected("opening what was closed"))?;
        same("what was acknowledged comes again", &Vec::<String>::new(), &bodies)?;
    }
    Ok(Verdict::Taken)
}

/// The result of a store; an error without its place.
fn said(storage: &MemoryStorage) -> Result<(Vec<String>, u64), String> {
    drained(storage).map_err(|error| error.to_string().split(':').next().unwrap_or_default().to_owned())
}

/// The file of an identity.
pub(super) fn judge_identity(input: &[u8]) -> Judged {
    let (mode, file) = input.split_first().map_or((0, input), |(mode, file)| (*mode, file));
    let mut bytes = file.to_vec();
    if mode & 1 != 0 {
        reseal_file(IDENTITY_PATH, &mut bytes, &[0; 16]);
    }
    let storage = MemoryStorage::new(1);
    let written = storage.create(IDENTITY_PATH).and_then(|file| file.write_at(0, &bytes));
    written.map_err(unexpected("writing it"))?;
    let read = match Identity::read(&storage) {
        Ok(read) => read.ok_or("an identity that is there is not seen")?,
        Err(Error::Corrupt { .. } | Error::NewerFormat { .. } | Error::NotAStore { .. }) => {
            return Ok(Verdict::Refused);
        }
        Err(error) => return Err(format!("reading it: {error}")),
    };
    covered("its check", &bytes, 0..76, 76)?;
    read.write(&storage).map_err(unexpected("writing it again"))?;
    same("the identity", &Some(read), &Identity::read(&storage).map_err(unexpected("what was written"))?)?;
    let file = storage.open(IDENTITY_PATH).map_err(unexpected("opening it"))?;
    let again = read_upto(file.as_ref(), 0, 81).map_err(unexpected("reading it"))?;
    same("its length", &bytes.len(), &again.len())?;
    Ok(Verdict::Taken)
}
