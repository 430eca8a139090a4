//! Many messages at once, column by column.

use std::ptr;

use crate::rows::cells::Cells;
use crate::rows::content::Content;
use crate::rows::message_row::MessageRow;
use crate::rows::row_batches::{Row, Stretch};
use crate::schema::column::Column;

/// Of a key.
const KEY_BYTES: usize = 32;
/// A byte as JSON: the escape of one that is no UTF-8.
const ESCAPED_BYTES_MAX: usize = 6;
/// What JSON has around the items of a list or an object, and around a key with its value.
const BRACKET_BYTES: usize = 2;
const ITEM_BYTES: usize = 8;

impl Stretch for MessageRow<'_> {
    fn bytes_max(&self) -> usize {
        let content = self.content.as_ref().map_or(0, content_bytes_max);
        let texts = self.subject.map_or(0, str::len).saturating_add(self.file.len());
        texts.saturating_add(KEY_BYTES).saturating_add(content)
    }

    fn put(rows: &[Self], column: Column, cells: &mut Cells, written: &mut String) -> usize {
        match column {
            Column::Sequence => cells.put_numbers(rows, |row| Some(row.sequence.0)),
            Column::Due => cells.put_times(rows, |row| Some(row.due)),
            Column::Offset => cells.put_numbers(rows, |row| Some(u64::from(row.offset))),
            Column::PayloadCheck => cells.put_numbers(rows, |row| row.payload_check.map(u64::from)),
            Column::PublishedSequence => cells.put_numbers(rows, |row| Some(row.published_sequence.0)),
            Column::BodyBytes => cells.put_numbers(rows, |row| Some(row.content.as_ref()?.body.len() as u64)),
            Column::Body => return cells.put_bodies(rows, |row| Some(row.content.as_ref()?.body)),
            _ => return put_runs(rows, column, cells, written),
        }
        0
    }
}

/// Neighbours that have the same in a column have it together.
fn put_runs(rows: &[MessageRow<'_>], column: Column, cells: &mut Cells, written: &mut String) -> usize {
    let mut bytes = 0_usize;
    for run in rows.chunk_by(|one, other| is_same(one, other, column)) {
        let Some(first) = run.first() else { continue };
        written.clear();
        let cell = first.cell(column, written);
        bytes = bytes.saturating_add(cells.put_repeated(cell, run.len(), written));
    }
    bytes
}

/// Whether it is seen at once that both have the same in a column.
fn is_same(one: &MessageRow<'_>, other: &MessageRow<'_>, column: Column) -> bool {
    let is_of_both = |is: fn(&Content<'_>) -> bool| match (&one.content, &other.content) {
        (Some(one), Some(other)) => is(one) && is(other),
        (one, other) => one.is_none() && other.is_none(),
    };
    match column {
        Column::Epoch => one.epoch == other.epoch,
        Column::Published => one.published == other.published,
        Column::Segment => ptr::eq(one.file, other.file),
        Column::Subject => match (one.subject, other.subject) {
            (Some(one), Some(other)) => ptr::eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        },
        Column::Key => one.key.is_none() && other.key.is_none(),
        Column::MessageId => is_of_both(|content| content.message_id.is_empty()),
        Column::Tags => is_of_both(|content| content.tags.is_empty()),
        Column::Attributes => is_of_both(|content| content.attributes.is_empty()),
        Column::Expires | Column::OnExpiry => is_of_both(|content| content.expiry.is_none()),
        _ => false,
    }
}

fn content_bytes_max(content: &Content<'_>) -> usize {
    let escaped = |bytes: usize| bytes.saturating_mul(ESCAPED_BYTES_MAX).saturating_add(ITEM_BYTES);
    let tags = content.tags.iter().map(|tag| escaped(tag.len()));
    let attributes = content.attributes.iter().map(|(key, value)| escaped(key.len().saturating_add(value.len())));
    let texts = tags.chain(attributes).fold(BRACKET_BYTES * 2, usize::saturating_add);
    texts.saturating_add(content.message_id.len()).saturating_add(content.body.len())
}

#[cfg(test)]
mod tests {
    use arrow_array::RecordBatch;
    use delaymq_core::record::expire::{Expiry, OnExpiry};
    use delaymq_core::record::terms::NameHash;
    use delaymq_core::units::{Epoch, Millis, Sequence};
    use proptest::prelude::*;

    use super::*;
    use crate::rows::row_batches::Gathered;
    use crate::schema::choice::Choice;
    use crate::schema::table::Table;

    const FILES: [&str; 2] = ["log/0000000001.segment", "loads/a"];
    const SUBJECTS: [Option<&str>; 3] = [None, Some("orders"), Some("ß")];
    const TEXTS: [&str; 4] = ["", "a", "\"\\\n\u{1}ß", "a longer text"];
    const VALUES: [&[u8]; 3] = [b"", b"v", b"\xff\x01\"v"];
    static BODY: [u8; 3 << 20] = [7; 3 << 20];

    prop_compose! {
        fn content()(id in 0..4_usize, tags in 0..4_usize, attributes in 0..4_usize, body in 0..20_usize)
            -> Content<'static> {
            let length = if body == 0 { BODY.len() } else { body * 10 };
            Content {
                message_id: TEXTS[id],
                tags: TEXTS[4 - tags..].to_vec(),
                attributes: TEXTS.into_iter().zip(VALUES).take(attributes).collect(),
                body: &BODY[..length],
                expiry: (id > 2).then_some(Expiry { at: Millis(length as u64), then: OnExpiry::DeadLetter }),
            }
        }
    }

    prop_compose! {
        fn row()(
            content in content(), sequence in any::<u64>(), due in any::<u64>(), of in 0..1_000_usize, key in 0..9_u64
        ) -> MessageRow<'static> {
            MessageRow {
                sequence: Sequence(sequence),
                epoch: (of % 100 > 0).then_some(Epoch(of as u32 / 500)),
                subject: SUBJECTS[of / 334],
                key: (key == 0).then_some(NameHash { low: sequence, high: due }),
                content: (of % 9 > 0).then_some(content),
                published: (of % 100 > 0).then_some(Millis(of as u64 / 100)),
                due: Millis(due),
                file: FILES[of / 501],
                offset: of as u32,
                payload_check: (of % 50 > 0).then_some(of as u32),
                published_sequence: Sequence(due),
            }
        }
    }

    /// What is handed out where rows are given in stretches of so many, or each alone.
    fn gathered(rows: &[MessageRow<'_>], together: Option<usize>) -> Vec<RecordBatch> {
        let table = Table::Pending;
        let mut gathered = Gathered::new(table, &Choice::all(table));
        match together {
            Some(count) => rows.chunks(count).for_each(|rows| gathered.stretch(rows)),
            None => rows.iter().for_each(|row| gathered.row(row)),
        }
        let full: Vec<_> = std::iter::from_fn(|| gathered.next_full()).collect();
        full.into_iter().chain(gathered.rest()).map(Result::unwrap).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(8))]
        #[test]
        fn rows_that_are_given_together_are_those_that_are_given_alone(
            kinds in prop::collection::vec(row(), 1..40), runs in prop::collection::vec((0..40_usize, 1..80_usize), 600)
        ) {
            let run = |(kind, count): &(usize, usize)| vec![kinds[kind % kinds.len()].clone(); *count];
            let mut rows: Vec<_> = runs.iter().flat_map(run).collect();
            for (row, sequence) in rows.iter_mut().zip(1..) {
                row.sequence = Sequence(sequence);
                row.content = row.content.take().filter(|content| content.body.len() < 1_000 || sequence % 64 == 0);
            }
            let alone = gathered(&rows, None);
            prop_assert!(alone.len() > 1);
            for together in [1, 7, 64, 1_000, rows.len()] {
                prop_assert!(gathered(&rows, Some(together)) == alone, "{together} together");
            }
        }
    }
}
