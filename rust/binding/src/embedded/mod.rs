//! A store that is open in this process.
//!
//! In: calls of Python, with the interpreter held. Out: calls of the engine, with the interpreter released where they may
//! wait.
//! Read `store` and `options`, then `publishing`, `subscription` and `waits` (waits that a signal can end), `nonblocking`
//! (for event loops), and one module for each question: `pending`, `forecast`, `key_commands` and `by_key`, `moves`, `recurring`,
//! `status`. `clock` and `testing` are for tests.

pub(crate) mod by_key;
pub(crate) mod clock;
pub(crate) mod forecast;
pub(crate) mod key_commands;
pub(crate) mod moves;
pub(crate) mod nonblocking;
pub(crate) mod options;
pub(crate) mod pending;
pub(crate) mod publishing;
pub(crate) mod recurring;
pub(crate) mod status;
pub(crate) mod store;
pub(crate) mod subscription;
pub(crate) mod testing;
pub(crate) mod waits;
