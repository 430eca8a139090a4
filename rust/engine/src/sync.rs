//! Locks, signals, threads and monotonic time, as everything here uses them. They are the standard
//! library's; in a build with the feature `model` they are a model checker's, which decides whose
//! turn it is, and time passes there only when nobody can go on. What is counted and decides
//! nothing (`metrics`), and what belongs to the process rather than to a store, stays outside.

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
