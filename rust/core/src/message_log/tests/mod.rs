//! Tests of the whole log: crafted batches, and random histories with faults and crashes.

#[cfg(test)]
pub(super) mod crafted;
#[cfg(test)]
pub(super) mod fixture;
#[cfg(test)]
pub(super) mod histories;
