//! tests.

#[cfg(test)]
pub(super) mod crafted;
#[cfg(test)]
pub(super) mod fixture;
#[cfg(test)]
pub(super) mod histories;
