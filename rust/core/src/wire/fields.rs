//! Big-endian fields appended to a frame: the other half of [`super::reader`].

use bytes::BufMut;

use crate::error::Result;
use crate::record::limits::at_most;

/// The longest text after QMQ's signed 16-bit length.
pub const TEXT_BYTES_MAX: usize = 32_767;

/// Appends QMQ's `str`.
///
/// # Errors
/// `TooLarge` naming `field`.
pub fn put_text(out: &mut Vec<u8>, field: &'static str, text: &str) -> Result<()> {
    at_most(field, TEXT_BYTES_MAX, text.len())?;
    out.put_u16(text.len() as u16);
    out.put_slice(text.as_bytes());
    Ok(())
}

/// Appends bytes after an unsigned 32-bit length of at most `limit`.
///
/// # Errors
/// `TooLarge` naming `field`.
pub fn put_blob(out: &mut Vec<u8>, field: &'static str, limit: usize, bytes: &[u8]) -> Result<()> {
    at_most(field, limit.min(u32::MAX as usize), bytes.len())?;
    out.put_u32(bytes.len() as u32);
    out.put_slice(bytes);
    Ok(())
}

/// Appends a count of at most `limit`.
///
/// # Errors
/// `TooLarge` naming `field`.
pub fn put_count(out: &mut Vec<u8>, field: &'static str, limit: usize, count: usize) -> Result<()> {
    at_most(field, limit.min(u32::MAX as usize), count)?;
    out.put_u32(count as u32);
    Ok(())
}
