//! The encoded parts of ranges that are not pieces of the log, for each table.

use std::collections::BTreeMap;

use delaymq_core::error::Result;
use delaymq_core::units::{DueKey, Location, Millis, RunNumber, SegmentNumber, Sequence, SubjectNumber};

use crate::plan::due_stretches::DuePart;
use crate::plan::log_piece_codec::{pieces, put_pieces};
use crate::plan::token_codec::{TokenReader, TokenWriter, malformed};
use crate::read::deliveries::DeliveriesPart;
use crate::read::loads::{load, put_load};
use crate::read::pending::{PendingPart, Replay};
use crate::read::ready::ReadyPart;
use crate::read::ready_facts::Refused;
use crate::read::ready_numbers::Numbering;
use crate::read::segments::{KnownFile, KnownSegment};

const SEGMENT: u64 = 0;
const RUN: u64 = 1;
const LOAD: u64 = 2;

fn put_replay(out: &mut TokenWriter, replay: Replay) {
    out.optional(replay.checkpoint.map(u64::from));
    out.number(replay.end.0);
}

fn replay(from: &mut TokenReader<'_>) -> Result<Replay> {
    let checkpoint = from.optional()?.map(u32::try_from).transpose();
    let checkpoint = checkpoint.map_err(|_| malformed("a checkpoint beyond every number"))?;
    Ok(Replay { checkpoint, end: Location(from.number()?) })
}

pub(crate) fn put_pending(out: &mut TokenWriter, part: &PendingPart) {
    put_replay(out, part.replay);
    let due = &part.due;
    let keys = [due.after.due.0, due.after.sequence.0, due.to.due.0, due.to.sequence.0];
    for number in keys.into_iter().chain([due.rows, due.bytes, due.runs.len() as u64]) {
        out.number(number);
    }
    due.runs.iter().for_each(|run| out.number(u64::from(run.0)));
}

pub(crate) fn pending_part(from: &mut TokenReader<'_>) -> Result<PendingPart> {
    let replay = replay(from)?;
    let (after, to) = (due_key(from)?, due_key(from)?);
    let (rows, bytes) = (from.number()?, from.number()?);
    let mut runs = Vec::new();
    for _ in 0..from.number()? {
        runs.push(RunNumber(from.narrow()?));
    }
    Ok(PendingPart { replay, due: DuePart { after, to, rows, bytes, runs } })
}

fn due_key(from: &mut TokenReader<'_>) -> Result<DueKey> {
    Ok(DueKey { due: Millis(from.number()?), sequence: Sequence(from.number()?) })
}

pub(crate) fn put_ready(out: &mut TokenWriter, part: &ReadyPart) {
    put_replay(out, part.replay);
    put_pieces(out, &part.before);
    out.number(u64::from(part.has_older));
    out.number(part.rows);
    put_numbering(out, &part.numbering);
    put_refused(out, &part.refused);
}

pub(crate) fn ready_part(from: &mut TokenReader<'_>) -> Result<ReadyPart> {
    Ok(ReadyPart {
        replay: replay(from)?,
        before: pieces(from)?,
        has_older: from.number()? != 0,
        rows: from.number()?,
        numbering: numbering(from)?,
        refused: refused(from)?,
    })
}

pub(crate) fn put_deliveries(out: &mut TokenWriter, part: &DeliveriesPart) {
    put_replay(out, part.replay);
    out.number(part.log_first.0);
    out.number(part.rows);
    put_numbering(out, &part.numbering);
    put_refused(out, &part.refused);
}

pub(crate) fn deliveries_part(from: &mut TokenReader<'_>) -> Result<DeliveriesPart> {
    Ok(DeliveriesPart {
        replay: replay(from)?,
        log_first: Sequence(from.number()?),
        rows: from.number()?,
        numbering: numbering(from)?,
        refused: refused(from)?,
    })
}

fn put_numbering(out: &mut TokenWriter, numbering: &Numbering) {
    out.number(u64::from(numbering.from.is_some()));
    let (piece, finds) = numbering.from.unwrap_or_default();
    for number in [piece, finds, numbering.next.len() as u64] {
        out.number(number);
    }
    for (subject, next) in &numbering.next {
        out.number(u64::from(subject.0));
        out.number(*next);
    }
}

fn numbering(from: &mut TokenReader<'_>) -> Result<Numbering> {
    let (is_known, place) = (from.number()? != 0, (from.number()?, from.number()?));
    let mut next = BTreeMap::new();
    for _ in 0..from.number()? {
        next.insert(SubjectNumber(from.narrow()?), from.number()?);
    }
    Ok(Numbering { from: is_known.then_some(place), next })
}

fn put_refused(out: &mut TokenWriter, refused: &Refused) {
    out.number(refused.len() as u64);
    for (fact, entry) in refused {
        out.number(fact.0);
        out.number(entry.0);
    }
}

fn refused(from: &mut TokenReader<'_>) -> Result<Refused> {
    let mut refused = Refused::new();
    for _ in 0..from.number()? {
        refused.insert((Sequence(from.number()?), Sequence(from.number()?)));
    }
    Ok(refused)
}

pub(crate) fn put_file(out: &mut TokenWriter, file: &KnownFile) {
    match file {
        KnownFile::Segment(one) => {
            out.number(SEGMENT);
            let sequences = [one.first.0, one.end.0];
            for number in [u64::from(one.number.0)].into_iter().chain(sequences) {
                out.number(number);
            }
            out.number(one.trusted_to.0);
            out.number(u64::from(one.is_sealed));
            out.number(u64::from(one.begins_hollow));
        }
        KnownFile::Run(number) => {
            out.number(RUN);
            out.number(u64::from(number.0));
        }
        KnownFile::Load(load) => {
            out.number(LOAD);
            put_load(out, load);
        }
    }
}

pub(crate) fn files(from: &mut TokenReader<'_>) -> Result<Vec<KnownFile>> {
    let mut files = Vec::new();
    for _ in 0..from.number()? {
        files.push(match from.number()? {
            SEGMENT => KnownFile::Segment(KnownSegment {
                number: SegmentNumber(from.narrow()?),
                first: Sequence(from.number()?),
                end: Sequence(from.number()?),
                trusted_to: Millis(from.number()?),
                is_sealed: from.number()? != 0,
                begins_hollow: from.number()? != 0,
            }),
            RUN => KnownFile::Run(RunNumber(from.narrow()?)),
            LOAD => KnownFile::Load(load(from)?),
            _ => return Err(malformed("a file of another kind")),
        });
    }
    Ok(files)
}
