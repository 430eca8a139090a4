//! The coordinators, with real files and a real etcd. What needs etcd is ignored unless `make etcd` runs it.
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may")]

mod cluster;
mod etcd;
mod files;
mod samples;
mod values;
