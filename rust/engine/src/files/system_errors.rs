//! Errors of system calls, as the core's errors.

use std::io;

use delaymq_core::error::{Error, StorageFault};
use rustix::io::Errno;

/// How often a call is repeated that signals interrupt.
const INTERRUPTIONS_MAX: u32 = 1000;

/// Repeats a call that a signal interrupted. A call that is interrupted again and again has failed: some file systems
/// answer so, and no thread should wait for them without end.
pub(super) fn retried<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    for _ in 1..INTERRUPTIONS_MAX {
        match call() {
            Err(Errno::INTR) => {}
            answer => return answer,
        }
    }
    call()
}

pub(super) fn failed(operation: &'static str, path: &str, errno: Errno) -> Error {
    let fault = match errno {
        Errno::NOSPC | Errno::DQUOT | Errno::FBIG => StorageFault::NoSpace,
        Errno::NOENT => StorageFault::NotFound,
        Errno::EXIST => StorageFault::AlreadyExists,
        Errno::ACCESS | Errno::PERM | Errno::ROFS => StorageFault::PermissionDenied,
        _ => StorageFault::Io,
    };
    Error::Storage { operation, path: path.to_owned(), fault, message: errno.to_string() }
}

/// The core's error for an error of the standard library.
pub(crate) fn storage_error(operation: &'static str, path: &str, error: &io::Error) -> Error {
    match error.raw_os_error() {
        Some(number) => failed(operation, path, Errno::from_raw_os_error(number)),
        None => {
            Error::Storage { operation, path: path.to_owned(), fault: StorageFault::Io, message: error.to_string() }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_is_interrupted_for_ever_fails_and_one_that_is_not_does_not() {
        let mut calls = 0;
        let answer: rustix::io::Result<()> = retried(|| {
            calls += 1;
            Err(Errno::INTR)
        });
        assert_eq!((answer, calls), (Err(Errno::INTR), INTERRUPTIONS_MAX));
        let mut left = 3;
        let answer = retried(|| {
            left -= 1;
            if left > 0 { Err(Errno::INTR) } else { Ok(7) }
        });
        assert_eq!(answer, Ok(7));
    }
}
