//! Files that have the name of a checkpoint.

use delaymq_core::Error;
use delaymq_core::message_log::Stream;
use delaymq_core::storage::{MemoryStorage, Storage};
use delaymq_core::store::{CHECKPOINT_FOLDER, CHECKPOINT_HEADER_BYTES, checkpoint_path, rewritten_checkpoint};

use super::log::STREAM;
use crate::resealing::reseal_checkpoint;
use crate::verdict::{Judged, Verdict, covered, same, unexpected};

const NUMBER: u32 = 1;
const RESEALED: u8 = 1;

/// The first byte decides whether the checks are recomputed; the file follows.
pub(super) fn judge(input: &[u8]) -> Judged {
    let Some(bytes) = file(input) else { return Ok(Verdict::Refused) };
    let once = match rewritten(&bytes, &STREAM)? {
        Ok(once) => once,
        Err(Error::Corrupt { .. } | Error::NewerFormat { .. }) => return Ok(Verdict::Refused),
        Err(error) => return Err(format!("reading a checkpoint that is there: {error}")),
    };
    covered("the check of its header", &bytes, 0..60, 60)?;
    covered("the check of its body", &bytes, CHECKPOINT_HEADER_BYTES..bytes.len(), 56)?;
    let twice = rewritten(&once, &STREAM)?.map_err(unexpected("a checkpoint that was read, written and read"))?;
    same("written once, and twice", &once, &twice)?;
    Ok(Verdict::Taken)
}

fn file(input: &[u8]) -> Option<Vec<u8>> {
    let (mode, file) = input.split_first()?;
    let mut bytes = file.to_vec();
    if mode & RESEALED != 0 {
        reseal_checkpoint(&mut bytes);
    }
    Some(bytes)
}

/// The bytes that this release would write for the content of a checkpoint.
fn rewritten(bytes: &[u8], stream: &Stream) -> Result<delaymq_core::Result<Vec<u8>>, String> {
    let storage = MemoryStorage::new(1);
    let written = storage
        .create_folder(CHECKPOINT_FOLDER)
        .and_then(|()| storage.create(&checkpoint_path(NUMBER)))
        .and_then(|file| file.write_at(0, bytes));
    written.map_err(unexpected("writing the checkpoint"))?;
    Ok(rewritten_checkpoint(&storage, stream, NUMBER))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::{inputs, parse};

    #[test]
    fn what_this_release_wrote_is_written_again_byte_by_byte() -> Result<(), String> {
        let golden = parse("@ checkpoint")?;
        let stream = Stream { timeline: 0, ..STREAM };
        assert_eq!(rewritten(&golden, &stream)?, Ok(golden));
        Ok(())
    }
    /// A sequence in two windows would be pending in one of them and dispatched in the other.
    #[test]
    fn windows_that_share_a_sequence_or_reach_beyond_the_last_are_refused_for_that() -> Result<(), String> {
        let inputs = inputs("checkpoint")?;
        let told = |name: &str| {
            let input = inputs.iter().find(|input| input.name == name).ok_or(format!("there is no {name}"))?;
            rewritten(&file(&input.bytes).unwrap_or_default(), &STREAM)
        };
        assert!(told("windows_that_touch")?.is_ok());
        for name in ["windows_that_overlap", "window_beyond_the_end"] {
            let refused = told(name)?;
            let is_so = |error: &Error| error.to_string().contains("a window behind the one before");
            assert!(refused.as_ref().is_err_and(is_so), "{name}: {refused:?}");
        }
        Ok(())
    }
}
