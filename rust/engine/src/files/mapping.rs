//! Memory that others may change: mapped segments of the log, the page that a fork wipes, and structures that the C
//! library and the kernel fill. All `unsafe` of the engine is in this file.
#![expect(unsafe_code, reason = "shared memory cannot be proven safe by the compiler; see each note")]

use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use delaymq_core::error::Result;
use memmap2::{Advice, Mmap, MmapMut, MmapOptions};
use rustix::fs::{Mode, OFlags};

use crate::files::system_errors::{retried, storage_error};

/// A file that is mapped whole, for reading.
pub(crate) struct Mapping {
    map: Mmap,
    /// A bit for each page that the disk has read.
    given: Box<[AtomicU64]>,
}

/// The unit in which pages are requested. If the machine has larger ones, some are requested twice.
const PAGE_BYTES: usize = 4096;

impl Mapping {
    /// Maps the file at `path`, which errors name as `name`.
    /// Fails with `Storage` if the file cannot be opened or mapped.
    pub(crate) fn open(path: &Path, name: &str) -> Result<Self> {
        // The standard library would repeat an interrupted call for ever.
        let file = retried(|| rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()))
            .map(File::from)
            .map_err(|errno| storage_error("open", name, &errno.into()))?;
        // SAFETY: the slice that the mapping gives out must stay readable and must not change while
        // it is looked at. Readable: a segment is prepared at its full length and no code of this
        // project truncates one; a retired segment is unlinked, which keeps its pages. Unchanged:
        // readers look only at records below the visible position, where the log never writes
        // again; repair writes another file and renames it over. The payload of a message that fails its check is written
        // again from another copy: nobody was given these bytes, and who compares them meanwhile reads the file next. A hole turns bytes to zeros that nothing
        // unfinished needs, and waits until no mapping that messages were handed over from is left of its
        // segment (`Payloads::is_unmapped`); who reads through a file's own view copies first and checks the
        // copy. That no other program writes into
        // the files of a store while it is open is what its lock asks for, and is assumed here as
        // it is by everybody who maps a file. The bytes are only ever read as bytes: no value that
        // some bit pattern would make invalid is built over them.
        let map = unsafe { MmapOptions::new().map(&file) }.map_err(|error| storage_error("map", name, &error))?;
        // Records are read in the order of their due times, which is not that of the file. A kernel that refuses the
        // advice reads ahead more than needed, nothing else.
        let _refused = map.advise(Advice::Random);
        let words = map.len().div_ceil(PAGE_BYTES).div_ceil(u64::BITS as usize);
        Ok(Self { map, given: (0..words).map(|_| AtomicU64::new(0)).collect() })
    }

    /// Bytes of the file. `None` if there are not so many, or if the disk fails. Touching a mapped page that cannot be
    /// read would end the process by a signal, so each page is first requested by a call that may fail. If the kernel
    /// later drops the page and cannot read it again, nothing helps.
    pub(crate) fn bytes_at(&self, offset: usize, length: usize) -> Option<&[u8]> {
        let end = offset.checked_add(length)?;
        let bytes = self.map.get(offset..end)?;
        let pages = offset / PAGE_BYTES..end.div_ceil(PAGE_BYTES);
        pages.clone().all(|page| self.is_given(page) || self.ask_for(page)).then_some(bytes)
    }

    fn word_of(&self, page: usize) -> Option<(&AtomicU64, u64)> {
        let bits = u64::BITS as usize;
        Some((self.given.get(page / bits)?, 1 << (page % bits)))
    }

    fn is_given(&self, page: usize) -> bool {
        self.word_of(page).is_some_and(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0)
    }

    /// Reads a page in. Returns false if the disk fails.
    fn ask_for(&self, page: usize) -> bool {
        let start = page.saturating_mul(PAGE_BYTES);
        let length = PAGE_BYTES.min(self.map.len().saturating_sub(start));
        if !can_be_read(&self.map, start, length) {
            return false;
        }
        if let Some((word, bit)) = self.word_of(page) {
            word.fetch_or(bit, Ordering::Relaxed);
        }
        true
    }

    /// The file's bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.map
    }
}

/// Reads a part of a mapping into memory. Returns false if that fails. On kernels without this request (Linux before
/// 5.14) the page is read when it is touched.
#[cfg(target_os = "linux")]
fn can_be_read(map: &Mmap, start: usize, length: usize) -> bool {
    match map.advise_range(Advice::PopulateRead, start, length) {
        Ok(()) => true,
        Err(error) => {
            matches!(error.kind(), std::io::ErrorKind::InvalidInput | std::io::ErrorKind::Unsupported)
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn can_be_read(_map: &Mmap, _start: usize, _length: usize) -> bool {
    true
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
unsafe extern "C" {
    /// From the C library: returns free memory at the end and within its heaps to the kernel.
    fn malloc_trim(pad: usize) -> i32;
}

/// Returns freed memory to the operating system if the allocator kept it, after a checkpoint has moved entries to the
/// disk. Takes about a millisecond.
pub(crate) fn give_back_freed_memory() {
    // SAFETY: takes a number, touches nothing but the allocator's own state under its own locks,
    // and may be called from any thread at any time.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    let _whether_any = unsafe { malloc_trim(0) };
}

/// What `adjtimex(2)` fills in: `struct timex`, which has 208 bytes on 64-bit machines and fewer on others.
#[cfg(target_os = "linux")]
#[repr(C, align(16))]
struct TimeStatus([u64; 64]);

#[cfg(target_os = "linux")]
unsafe extern "C" {
    /// The kernel's state of the wall clock. Changes nothing if the first word, `modes`, is 0.
    fn adjtimex(status: *mut TimeStatus) -> i32;
}

/// True if the kernel reports that a time service keeps the wall clock right.
#[cfg(target_os = "linux")]
pub(crate) fn kernel_keeps_time() -> bool {
    /// `TIME_ERROR`: not synchronised. All states below it (a leap second may be near) are.
    const TIME_ERROR: i32 = 5;
    let mut status = TimeStatus([0; 64]);
    // SAFETY: the kernel writes one `struct timex` to where this points; the room here is larger than it
    // on every machine, aligned for it, ours alone, and any bytes in it are valid. `modes` is 0.
    let state = unsafe { adjtimex(&raw mut status) };
    (0..TIME_ERROR).contains(&state)
}

/// Other systems are not asked.
#[cfg(not(target_os = "linux"))]
pub(crate) fn kernel_keeps_time() -> bool {
    false
}

impl std::fmt::Debug for Mapping {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Mapping").field("length", &self.map.len()).finish_non_exhaustive()
    }
}

/// A page that the kernel wipes in a forked child. Reading it costs a memory access, while asking for the process id
/// costs a system call.
#[derive(Debug)]
pub(crate) struct ForkMark {
    page: MmapMut,
}

impl ForkMark {
    const MARKED: u8 = 1;

    /// Marks this process; `None` if the kernel does not wipe pages.
    #[cfg(target_os = "linux")]
    pub(crate) fn new() -> Option<Self> {
        let mut page = MmapMut::map_anon(1).ok()?;
        let address = page.as_mut_ptr().cast();
        // SAFETY: the range is the anonymous mapping that was just made, which nobody else knows.
        // The advice changes what a child finds there and nothing in this process.
        unsafe { rustix::mm::madvise(address, page.len(), rustix::mm::Advice::LinuxWipeOnFork) }.ok()?;
        let mark = Self { page };
        mark.byte().store(Self::MARKED, Ordering::Relaxed);
        Some(mark)
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn new() -> Option<Self> {
        None
    }

    /// True in the process that made the mark.
    pub(crate) fn is_here(&self) -> bool {
        self.byte().load(Ordering::Relaxed) == Self::MARKED
    }

    /// Makes this process look like a forked child.
    #[cfg(test)]
    pub(crate) fn wipe(&self) {
        self.byte().store(0, Ordering::Relaxed);
    }

    fn byte(&self) -> &AtomicU8 {
        // SAFETY: the page is writable, aligned, lives as long as `self`, and is only ever looked at
        // through this atomic; the kernel wipes it before the child's first instruction.
        unsafe { AtomicU8::from_ptr(self.page.as_ptr().cast_mut()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_the_disk_does_not_give_is_no_signal() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("segment");
        std::fs::write(&path, vec![7; 3 * PAGE_BYTES + 100]).unwrap();
        let mapping = Mapping::open(&path, "segment").unwrap();
        assert_eq!(mapping.bytes_at(PAGE_BYTES - 1, 2), Some(&[7, 7][..]));
        assert_eq!(mapping.bytes_at(3 * PAGE_BYTES, 100).map(<[u8]>::len), Some(100));
        assert_eq!(mapping.bytes_at(3 * PAGE_BYTES, 101), None);
        // Reading behind the end of a file fails in the same way as a disk that cannot read.
        std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(PAGE_BYTES as u64).unwrap();
        assert_eq!(mapping.bytes_at(2 * PAGE_BYTES, 10), None);
        assert_eq!(mapping.bytes_at(0, PAGE_BYTES).map(<[u8]>::len), Some(PAGE_BYTES));
    }
}
