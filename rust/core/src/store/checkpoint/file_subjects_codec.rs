//! The subjects of each file that a checkpoint names, as bytes; part 18 of its body, see [`super::snapshot`].

use super::codec::{FieldReader, FieldWriter};
use super::named_files::NamedFiles;
use crate::error::Result;
use crate::planted::{Planted, is_on};
use crate::store::state::SegmentStart;
use crate::store::state::file_subjects::FileSubjects;
use crate::store::state::segment_ready::SegmentReady;

/// Writes the subjects of these segments and what their facts made ready, and the subjects of the named runs.
pub(in crate::store) fn write_file_subjects<'a>(
    out: &mut FieldWriter,
    segments: impl Iterator<Item = &'a SegmentStart>,
    files: &NamedFiles,
) {
    segments.for_each(|start| {
        start.subjects.write(out);
        start.ready.write(out);
    });
    files.schedule_runs.iter().chain(&files.dispatch_runs).for_each(|named| named.subjects.write(out));
}

/// Reads what [`write_file_subjects`] has written.
pub(in crate::store) fn read_file_subjects(
    from: &mut FieldReader<'_>,
    segments: &mut [SegmentStart],
    files: &mut NamedFiles,
) -> Result<()> {
    for start in segments {
        start.subjects = FileSubjects::read(from)?;
        if is_on(Planted::FileSubjectsNotSaved) {
            start.subjects = FileSubjects::none();
        }
        start.ready = SegmentReady::read(from)?;
    }
    for named in files.schedule_runs.iter_mut().chain(&mut files.dispatch_runs) {
        named.subjects = FileSubjects::read(from)?;
    }
    Ok(())
}
