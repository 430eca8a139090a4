//! Locks, signals, threads and monotonic time of the engine. They are the standard library's. With the feature `model`
//! they are those of a model checker, which decides which thread goes on, and where time passes only when none can.
//! Counters that decide nothing (`metrics`), and state of the process rather than of a store, stay outside.

#[cfg(feature = "model")]
pub mod modelled;

#[cfg(not(feature = "model"))]
mod real {
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize};
    pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
    pub(crate) use std::thread::{self, JoinHandle, Thread};
    pub(crate) use std::time::Instant;
}

#[cfg(feature = "model")]
mod real {
    pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize};
    pub(crate) use shuttle::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
    pub(crate) use shuttle::thread::JoinHandle;

    pub(crate) use super::modelled::thread::Thread;
    pub(crate) use super::modelled::{Condvar, Instant, thread};
}

pub(crate) use real::*;
