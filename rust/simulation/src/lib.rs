//! The simulation: the real core over a disk and a clock that fail. One seed is one history.

pub mod chance;
pub mod checker;
pub mod clock;
pub mod connected;
pub mod copies;
mod counts;
pub mod disk;
pub mod ledger;
pub mod node;
pub mod options;
mod parallel;
pub mod planted;
pub mod replica;
mod rhythm;
pub mod seeds;
pub mod shrink;
pub mod small_worlds;
pub mod world;
