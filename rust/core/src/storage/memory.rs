//! Storage in memory, for tests (placeholder of the base commit).
/// How a crash treats what was not synced.
#[derive(Clone, Copy, Debug)]
pub struct Crash;
/// Files in memory.
#[derive(Clone, Copy, Debug)]
pub struct MemoryStorage;
