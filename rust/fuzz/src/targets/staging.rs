//! Files that have the name of a staged run.

use std::sync::Arc;

use delaymq_core::Error;
use delaymq_core::record::header::read_record;
use delaymq_core::record::message::decode_message;
use delaymq_core::run::{
    LOAD_FOLDER, LoadName, RowScan, ScanBuffer, ScheduleRow, Staged, StagedMessage, StagedRun, Stager, StagingLimits,
    check_staged, read_payload,
};
use delaymq_core::storage::{MemoryStorage, Storage};
use delaymq_core::units::Millis;

use super::log::STREAM;
use crate::resealing::reseal_staged;
use crate::verdict::{Judged, Verdict, holds, same, unexpected};

const RESEALED: u8 = 1;

/// A message with its subject, its meta and its body.
type Loaded = (Millis, String, Vec<u8>, Vec<u8>);

fn name(staged: u64) -> LoadName {
    LoadName { staged: Millis(staged), nonce: STREAM.id }
}

/// The first byte decides whether the checks are recomputed; the file follows. Its adoption names it as it is.
pub(super) fn judge(input: &[u8]) -> Judged {
    let Some((mode, file)) = input.split_first() else { return Ok(Verdict::Refused) };
    let mut bytes = file.to_vec();
    if mode & RESEALED != 0 {
        reseal_staged(&mut bytes);
    }
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new(1));
    let written = storage
        .create_folder(LOAD_FOLDER)
        .and_then(|()| storage.create(&name(1).path()))
        .and_then(|file| file.write_at(0, &bytes));
    written.map_err(unexpected("writing the staged run"))?;
    let Some(named) = named_as_it_is(&bytes) else { return Ok(Verdict::Refused) };
    let staged = match check_staged(storage.as_ref(), &named) {
        Ok(staged) => staged,
        Err(Error::Corrupt { .. } | Error::DamagedPayload { .. } | Error::NewerFormat { .. }) => {
            return Ok(Verdict::Refused);
        }
        Err(error) => return Err(format!("checking a staged run that is there: {error}")),
    };
    for other in [
        StagedRun { length: named.length.wrapping_add(1), ..named },
        StagedRun { digest: named.digest ^ 1, ..named },
        StagedRun { rows: named.rows ^ 1, ..named },
    ] {
        holds("it is not what somebody else names", check_staged(storage.as_ref(), &other).is_err())?;
    }
    let messages = messages_of(&staged)?;
    same("messages", &(messages.len() as u64), &named.rows)?;
    same("messages that are staged again", &staged_again(storage.as_ref(), &messages)?, &messages)?;
    Ok(Verdict::Taken)
}

fn named_as_it_is(bytes: &[u8]) -> Option<StagedRun> {
    let rows = u64::from_le_bytes(*bytes.get(40..48)?.first_chunk()?);
    let digest = bytes.get(bytes.len().checked_sub(24)?..)?;
    let digest = u32::from_le_bytes(*digest.first_chunk()?);
    Some(StagedRun { name: name(1), length: bytes.len() as u64, digest, rows })
}

/// The messages of a checked staged run, in its order.
fn messages_of(staged: &Staged) -> Result<Vec<Loaded>, String> {
    let (mut buffer, mut bytes, mut messages) = (ScanBuffer::default(), Vec::new(), Vec::new());
    let mut scan = RowScan::<ScheduleRow>::from_block(&staged.run, 0, None, &mut buffer);
    while let Some(row) = scan.next_row().map_err(|block| format!("a block that was checked: {}", block.error))? {
        let offset = u64::from(row.location.offset());
        read_payload(staged.run.file().as_ref(), offset, row.payload_sequence, Some(row.length), &mut bytes)
            .map_err(unexpected("a record that was checked"))?;
        let record = read_record(&bytes, row.payload_sequence).map_err(|fault| format!("{fault:?}"))?;
        let message = decode_message(&record).ok_or("a record that was checked is no message")?;
        let subject = (row.subject.0 as usize).checked_sub(1).and_then(|place| staged.subjects().get(place));
        let subject = subject.ok_or("a row that was checked has no subject")?;
        holds("rows by due time", messages.last().is_none_or(|last: &Loaded| last.0 <= row.key.due))?;
        messages.push((row.key.due, subject.clone(), message.meta.to_vec(), message.body.to_vec()));
    }
    Ok(messages)
}

fn staged_again(storage: &dyn Storage, messages: &[Loaded]) -> Result<Vec<Loaded>, String> {
    let mut stager = Stager::new(storage, StagingLimits::until(Millis(u64::MAX)), || name(2));
    for (due, subject, meta, body) in messages {
        let taken = stager.push(&StagedMessage { due: *due, subject, meta, body, expiry: None });
        let taken = taken.map_err(unexpected("staging it again"))?;
        holds("what was checked is taken again", taken.is_ok())?;
    }
    let written = stager.finish().map_err(unexpected("staging it again"))?;
    let mut again = Vec::new();
    for named in &written {
        again.extend(messages_of(&check_staged(storage, named).map_err(unexpected("checking it again"))?)?);
    }
    Ok(again)
}
