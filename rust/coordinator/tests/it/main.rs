//! The coordinators, with real files and a real etcd. Tests that need etcd are ignored unless `make etcd` runs them, as `.ci/run` does.
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may")]

mod cluster;
mod etcd;
mod files;
mod ports;
mod samples;
mod values;
