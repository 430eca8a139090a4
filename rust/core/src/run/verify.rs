//! Checks a whole run.

use super::RunKind;
use super::block::BLOCK_BYTES;
use super::cell_bytes::Cell;
use super::cells::CellGatherer;
use super::footer::{Footer, GROUP_BLOCKS, Reference, file_code, file_of};
use super::holes::RunHoles;
use super::reader::Run;
use super::rows::{Row, RowKey};
use super::scan::{RowScan, ScanBuffer};
use super::writer::{RunHead, encode_header};
use crate::error::{Error, Result};
use crate::record::written_format;
use crate::storage::read_upto;
use crate::units::{LocationFile, padded};

impl Run {
    /// Reads everything and reports all damage to `report`: header, blocks, their order, fences, counts, and
    /// each record of the payload area with the zeros after it. A damaged block is reported once, and the
    /// rest is checked. Returns the number of rows that were read.
    ///
    /// # Errors
    /// None. Anything that cannot be read is reported.
    pub fn verify<R: Row>(&self, report: &mut dyn FnMut(Error)) -> u64 {
        self.verify_past::<R>(&RunHoles::default(), report)
    }

    /// Like [`Self::verify`], except for payloads in these holes.
    pub fn verify_past<R: Row>(&self, holes: &RunHoles, report: &mut dyn FnMut(Error)) -> u64 {
        self.verify_each::<R>(holes, report, &mut |_, _| Ok(()))
    }

    /// Like [`Self::verify_past`], and passes each row with a whole record in the run to `show`, with the
    /// record. Errors of `show` are also reported.
    pub(super) fn verify_each<R: Row>(
        &self,
        holes: &RunHoles,
        report: &mut dyn FnMut(Error),
        show: &mut dyn FnMut(&R, &[u8]) -> Result<()>,
    ) -> u64 {
        if let Err(error) = self.verify_header() {
            report(error);
        }
        let mut buffer = ScanBuffer::default();
        let mut scan = RowScan::<R>::from_block(self, 0, None, &mut buffer);
        let mut gathered = Footer::default();
        let mut cells = CellGatherer::default();
        let mut references = std::collections::BTreeMap::<u32, u64>::new();
        let mut payload_end = self.payload_start();
        let mut record = Vec::new();
        let mut last: Option<RowKey> = None;
        let mut whole = true;
        loop {
            match scan.next_row() {
                Ok(None) => break,
                Ok(Some(row)) => {
                    if last.is_some_and(|last| last >= row.key()) {
                        let found = format!("{:?} behind {last:?}", row.key());
                        report(self.block_error(scan.block(), "keys in order", &found));
                    }
                    last = Some(row.key());
                    gathered.add(&row);
                    cells.add(row.due(), row.subject(), row.size());
                    let rows = references.entry(file_code(row.location().file())).or_default();
                    *rows = rows.saturating_add(1);
                    if let Err(error) = self.verify_payload(&row, holes, &mut payload_end, &mut record, show) {
                        report(error);
                    }
                }
                Err(damaged) => {
                    whole = false;
                    report(damaged.error);
                    scan.skip_block();
                }
            }
        }
        if whole {
            let counted: Vec<Reference> =
                references.iter().map(|(code, rows)| Reference { file: file_of(*code), rows: *rows }).collect();
            self.verify_footer(&gathered, &counted, payload_end, report);
            if self.kind() != RunKind::Dispatch {
                self.verify_cells(&cells.finish(), report);
            }
        }
        gathered.row_count
    }

    /// Checks that the cells are those of the rows.
    fn verify_cells(&self, counted: &[Cell], report: &mut dyn FnMut(Error)) {
        let mut kept = Vec::new();
        if let Err(error) = self.each_cell(None, &mut |cell| kept.push(cell)) {
            return report(error);
        }
        if self.relation().is_some() {
            kept.sort_unstable_by_key(Cell::key);
        }
        if counted != kept {
            let different = counted.iter().zip(&kept).find(|(counted, kept)| counted != kept);
            let words = |cell: Option<&Cell>| cell.map_or("no more".to_owned(), |cell| format!("{cell:?}"));
            let (expected, found) = match different {
                Some((counted, kept)) => (words(Some(counted)), words(Some(kept))),
                None => (words(counted.get(kept.len())), words(kept.get(counted.len()))),
            };
            report(Error::corrupt(self.file.path(), self.cells_start(), expected, found));
        }
    }

    fn verify_header(&self) -> Result<()> {
        let head = RunHead { number: self.file_number(), stream: self.file_stream(), row_count: self.row_count() };
        let found = read_upto(self.file.as_ref(), 0, BLOCK_BYTES)?;
        // The header's own check covers the format that it states.
        let format = found.get(8..12).and_then(|bytes| bytes.first_chunk::<4>());
        let newest = written_format();
        let format = format.map_or(newest, |bytes| u32::from_le_bytes(*bytes).clamp(1, newest));
        let expected = encode_header(&head, format, self.file_kind());
        if expected == found {
            return Ok(());
        }
        let at = expected.iter().zip(&found).position(|(expected, found)| expected != found).unwrap_or(found.len());
        let byte = |bytes: &[u8]| bytes.get(at).map_or("the end".to_owned(), |byte| format!("{byte:02x}"));
        Err(Error::corrupt(self.file.path(), at as u64, byte(&expected), byte(&found)))
    }

    /// Checks one payload. Copied payloads follow each other in the order of the rows.
    fn verify_payload<R: Row>(
        &self,
        row: &R,
        holes: &RunHoles,
        payload_end: &mut u64,
        record: &mut Vec<u8>,
        show: &mut dyn FnMut(&R, &[u8]) -> Result<()>,
    ) -> Result<()> {
        if row.location().file() != LocationFile::Run(self.number()) {
            return Ok(());
        }
        let offset = u64::from(row.location().offset());
        let expected =
            std::mem::replace(payload_end, offset.saturating_add(padded(row.payload_length() as usize) as u64));
        if offset != expected {
            return Err(Error::corrupt(self.file.path(), offset, format!("a payload at {expected}"), offset));
        }
        if holes.has(row.location()) {
            return Ok(());
        }
        self.read_payload(offset, row.payload_sequence(), Some(row.payload_length()), record)?;
        let length = row.payload_length() as usize;
        let said = record.first_chunk::<4>().map_or(0, |bytes| u32::from_le_bytes(*bytes)) as usize;
        let zeros = record.get(length..).is_some_and(|rest| rest.iter().all(|byte| *byte == 0));
        if said != length || !zeros {
            let expected = format!("a record of {length} bytes and zeros behind it");
            return Err(Error::corrupt(self.file.path(), offset, expected, format!("{said} bytes")));
        }
        show(row, record)
    }

    fn verify_footer(
        &self,
        gathered: &Footer,
        references: &[Reference],
        payload_end: u64,
        report: &mut dyn FnMut(Error),
    ) {
        let sequences = (self.first_sequence(), self.last_sequence());
        let fits = gathered.fences == self.fences()
            && gathered.row_count == self.row_count()
            && (gathered.first_sequence, gathered.last_sequence) == sequences
            && gathered.subjects == self.subjects()
            && self.references().iter().filter(|reference| reference.rows > 0).eq(references)
            && payload_end == self.payload_start().saturating_add(self.payload_bytes());
        let buckets_fit = match self.time_buckets() {
            Ok(buckets) => buckets == gathered.buckets,
            Err(error) => return report(error),
        };
        if !fits || !buckets_fit {
            let offset = self.payload_start().saturating_add(self.payload_bytes());
            report(Error::corrupt(self.file.path(), offset, "a footer that agrees with the rows", "another"));
        }
        let groups = self.block_count().div_ceil(GROUP_BLOCKS) as usize;
        debug_assert_eq!(self.fences().len(), groups);
    }

    fn block_error(&self, block: u32, expected: &str, found: &str) -> Error {
        Error::corrupt(self.file.path(), Self::block_offset(block), expected, found)
    }
}
