//! Golden files: small hex texts in `tests/golden`, compared byte for byte.
//!
//! `DELAYMQ_WRITE_GOLDEN=1` writes them anew.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::{env, fs};

use delaymq_core::storage::{Storage, read_upto};

/// What a comparison that cannot be made failed with.
pub(crate) type Outcome = Result<(), Box<dyn std::error::Error>>;

/// Compares `bytes` with the golden file of this name. `facts` are `key: value` lines that a
/// reader of the file needs, such as the sequence of a record.
pub(crate) fn compare(name: &str, facts: &[(&str, String)], bytes: &[u8]) -> Outcome {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(format!("{name}.hex"));
    let text = as_text(facts, bytes)?;
    if env::var_os("DELAYMQ_WRITE_GOLDEN").is_some() {
        fs::write(&path, &text)?;
    }
    let golden = fs::read_to_string(&path).map_err(|error| format!("{name}: {error}"))?;
    assert_eq!(text, golden, "{name} differs from its golden file: a change of format");
    Ok(())
}

/// Compares a whole file of a store with a golden file.
pub(crate) fn compare_file(storage: &dyn Storage, path: &str, name: &str) -> Outcome {
    let file = storage.open(path)?;
    let length = usize::try_from(file.length()?)?;
    compare(name, &[("path", path.to_owned())], &read_upto(file.as_ref(), 0, length)?)
}

/// Comment lines with the facts, then 32 bytes a line; a line of zeros that repeats the one before
/// is written as `* count` with the number of further lines like it.
fn as_text(facts: &[(&str, String)], bytes: &[u8]) -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    for (key, value) in facts {
        writeln!(text, "# {key}: {value}")?;
    }
    let mut repeated = 0;
    let mut before: Option<&[u8]> = None;
    for chunk in bytes.chunks(32) {
        if before == Some(chunk) && chunk.iter().all(|byte| *byte == 0) {
            repeated += 1;
            continue;
        }
        if repeated > 0 {
            writeln!(text, "* {repeated}")?;
            repeated = 0;
        }
        for byte in chunk {
            write!(text, "{byte:02x}")?;
        }
        writeln!(text)?;
        before = Some(chunk);
    }
    if repeated > 0 {
        writeln!(text, "* {repeated}")?;
    }
    Ok(text)
}
