//! Random bytes of the system.

use std::io::Read;

use delaymq_core::error::{Error, Result, StorageFault};

pub(crate) fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    let read = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.map(|()| bytes).map_err(|error| Error::Storage {
        operation: "read",
        path: "/dev/urandom".to_owned(),
        fault: StorageFault::Io,
        message: error.to_string(),
    })
}

pub(crate) fn random_number() -> Result<u64> {
    random().map(u64::from_be_bytes)
}
