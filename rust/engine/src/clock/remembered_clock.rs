//! The store's file `clock`: what an opening knew of the time, for the next opening before the machine restarts.
//!
//! It has one line: `delaymq clock 1`, the CRC-32 of the rest as eight hexadecimal digits, the trusted time in
//! milliseconds, the boot-time clock in nanoseconds, the kernel's name for this start of the machine, and the time
//! namespace, separated by spaces. The file is advice: it is never synced, since no restart of the machine leaves it
//! useful, and an unreadable one counts as absent.

use delaymq_core::clock::Remembered;
use delaymq_core::error::Result;
use delaymq_core::storage::{Storage, read_upto};
use delaymq_core::units::Millis;

use crate::clock::system_clock::Boot;

pub(crate) const FILE_NAME: &str = "clock";
const TEMPORARY_NAME: &str = "clock.tmp";
const HEAD: &str = "delaymq clock 1";
/// Longer than any line.
const LINE_BYTES_MAX: usize = 512;

/// What an earlier opening knew in this boot.
pub(crate) fn read(storage: &dyn Storage, boot: &Boot) -> Option<Remembered> {
    let file = storage.open(FILE_NAME).ok()?;
    let text = String::from_utf8(read_upto(file.as_ref(), 0, LINE_BYTES_MAX).ok()?).ok()?;
    let (check, rest) = text.strip_prefix(HEAD)?.strip_prefix(' ')?.split_once(' ')?;
    let rest = rest.strip_suffix('\n')?;
    if check != format!("{:08x}", crc32fast::hash(rest.as_bytes())) {
        return None;
    }
    let mut words = rest.splitn(4, ' ');
    let trusted = Millis(words.next()?.parse().ok()?);
    let boot_ns = words.next()?.parse().ok()?;
    let is_this = words.next()? == boot.id && words.next()? == boot.namespace;
    is_this.then_some(Remembered { trusted, boot_ns })
}

/// Writes what is known now.
/// Fails with `Storage`; then the next opening knows less, nothing else.
pub(crate) fn write(storage: &dyn Storage, boot: &Boot, known: Remembered) -> Result<()> {
    let Remembered { trusted, boot_ns } = known;
    let rest = format!("{} {boot_ns} {} {}", trusted.0, boot.id, boot.namespace);
    let text = format!("{HEAD} {:08x} {rest}\n", crc32fast::hash(rest.as_bytes()));
    match storage.remove(TEMPORARY_NAME) {
        Err(error) if !error.is_not_found() => return Err(error),
        _ => {}
    }
    storage.create(TEMPORARY_NAME)?.write_at(0, text.as_bytes())?;
    storage.rename(TEMPORARY_NAME, FILE_NAME)
}

#[cfg(test)]
mod tests {
    use delaymq_core::storage::MemoryStorage;

    use super::*;

    fn boot() -> Boot {
        Boot { id: "0d2f-77".to_owned(), namespace: "time:[4026531834]".to_owned() }
    }

    const KNOWN: Remembered = Remembered { trusted: Millis(1_700_000_000_123), boot_ns: 987_654_321 };

    fn bytes_of(storage: &dyn Storage) -> Vec<u8> {
        read_upto(storage.open(FILE_NAME).unwrap().as_ref(), 0, LINE_BYTES_MAX).unwrap()
    }

    fn replaced(bytes: &[u8]) -> MemoryStorage {
        let storage = MemoryStorage::default();
        storage.create(FILE_NAME).unwrap().write_at(0, bytes).unwrap();
        storage
    }

    #[test]
    fn what_is_kept_is_read_in_the_same_boot_and_in_no_other() {
        let storage = MemoryStorage::default();
        assert_eq!(read(&storage, &boot()), None);
        write(&storage, &boot(), KNOWN).unwrap();
        assert_eq!(read(&storage, &boot()), Some(KNOWN));
        assert_eq!(read(&storage, &Boot { id: "0d2f-78".to_owned(), ..boot() }), None);
        assert_eq!(read(&storage, &Boot { namespace: String::new(), ..boot() }), None);
    }

    #[test]
    fn what_a_stopped_process_left_half_written_is_replaced() {
        let storage = MemoryStorage::default();
        storage.create(TEMPORARY_NAME).unwrap().write_at(0, &[b'x'; LINE_BYTES_MAX]).unwrap();
        write(&storage, &boot(), KNOWN).unwrap();
        assert_eq!(read(&storage, &boot()), Some(KNOWN));
        write(&storage, &boot(), Remembered { boot_ns: 988_654_321, ..KNOWN }).unwrap();
        assert_eq!(read(&storage, &boot()), Some(Remembered { boot_ns: 988_654_321, ..KNOWN }));
    }

    #[test]
    fn what_is_damaged_or_cut_is_not_there() {
        let storage = MemoryStorage::default();
        write(&storage, &boot(), KNOWN).unwrap();
        let whole = bytes_of(&storage);
        assert_eq!(read(&replaced(&whole), &boot()), Some(KNOWN));
        for length in 0..whole.len() {
            assert_eq!(read(&replaced(&whole[..length]), &boot()), None, "the first {length} bytes");
        }
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 4;
            assert_eq!(read(&replaced(&damaged), &boot()), None, "byte {at}");
        }
    }
}
