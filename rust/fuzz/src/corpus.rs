//! The corpus: small texts, one file for each input, in a folder for each target.
//!
//! Lines of hex digits are bytes; `# words` describes the input; `* n` means n lines of zeros; `@ name from` means
//! the bytes of a golden file (`tests/golden/`) from this offset on.

use std::fs;
use std::path::{Path, PathBuf};

/// Bytes of a whole line.
const LINE_BYTES: usize = 32;

/// One input.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Input {
    /// The name of its file, without the ending.
    pub name: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// The folder of the whole corpus.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

fn golden(name: &str) -> Result<String, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(format!("{name}.hex"));
    fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
}

/// The inputs of a target, by name; an absent folder holds none.
///
/// # Errors
/// A file that cannot be read, by its path.
pub fn inputs(target: &str) -> Result<Vec<Input>, String> {
    let Ok(found) = fs::read_dir(folder().join(target)) else { return Ok(Vec::new()) };
    let mut paths: Vec<PathBuf> = found.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
    paths.sort_unstable();
    let read = |path: PathBuf| {
        let wrong = |what: String| format!("{}: {what}", path.display());
        let text = fs::read_to_string(&path).map_err(|error| wrong(error.to_string()))?;
        let name = path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        Ok(Input { name, bytes: parse(&text).map_err(wrong)? })
    };
    paths.into_iter().map(read).collect()
}

/// The bytes that a text describes.
///
/// # Errors
/// A line that is not in the format.
pub fn parse(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if let Some(count) = line.strip_prefix("* ") {
            let count: usize = count.parse().map_err(|_| format!("a count of lines, not {count:?}"))?;
            bytes.resize(bytes.len().saturating_add(count.saturating_mul(LINE_BYTES)), 0);
        } else if let Some(named) = line.strip_prefix("@ ") {
            let (name, from) = named.split_once(' ').unwrap_or((named, "0"));
            let from: usize = from.parse().map_err(|_| format!("an offset, not {from:?}"))?;
            bytes.extend_from_slice(parse(&golden(name)?)?.get(from..).unwrap_or_default());
        } else {
            bytes.extend(digits(line).ok_or_else(|| format!("hex digits, not {line:?}"))?);
        }
    }
    Ok(bytes)
}

/// The bytes of a row of hex digits.
pub fn digits(line: &str) -> Option<Vec<u8>> {
    let nibbles: Option<Vec<u8>> =
        line.chars().map(|digit| digit.to_digit(16).and_then(|digit| u8::try_from(digit).ok())).collect();
    let nibbles = nibbles.filter(|nibbles| nibbles.len().is_multiple_of(2))?;
    Some(nibbles.chunks_exact(2).map(|pair| pair.iter().fold(0, |byte, nibble| (byte << 4) | nibble)).collect())
}

/// Bytes as hex digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

/// Bytes as the text of a file, after their description.
pub fn text_of(words: &str, bytes: &[u8]) -> String {
    let mut text = format!("# {}\n", words.replace('\n', " "));
    let mut zeros = 0_usize;
    let told = |zeros: &mut usize| {
        let line = if *zeros > 0 { format!("* {zeros}\n") } else { String::new() };
        *zeros = 0;
        line
    };
    for line in bytes.chunks(LINE_BYTES) {
        if line.len() == LINE_BYTES && line.iter().all(|byte| *byte == 0) {
            zeros = zeros.saturating_add(1);
        } else {
            text += &told(&mut zeros);
            text.push_str(&hex(line));
            text.push('\n');
        }
    }
    text + &told(&mut zeros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_says_its_bytes_and_bytes_their_text() {
        let bytes = [vec![1; 40], vec![0; 100], vec![7]].concat();
        let text = text_of("two\nlines", &bytes);
        assert!(text.starts_with("# two lines\n") && text.contains("* 2\n"), "{text}");
        assert_eq!(parse(&text), Ok(bytes));
        assert_eq!(parse("# nothing\n"), Ok(Vec::new()));
    }

    #[test]
    fn a_golden_file_is_named_instead_of_copied() {
        let whole = parse("@ segment\n").unwrap_or_default();
        assert!(whole.starts_with(b"DMQSEGMT"));
        let behind = parse("01\n@ segment 4096\n").unwrap_or_default();
        assert_eq!(behind.get(..9), Some(&b"\x01DMQBATCH"[..]));
        for wrong in ["0", "xx", "* many", "@ segment far", "@ nothing"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
