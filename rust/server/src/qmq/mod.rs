//! Consumers of QMQ: they pull, acknowledge, and live as long as their lease.
//!
//! In: PULL and ACK requests. Out: messages for a pull, settlements, and consumers that end with their lease.
//! Read `pull` and `acknowledgement` (the commands), then `consumers` and `session` (one consumer, whatever connection it
//! uses), `group_consumer` (what it pulls and settles), and `pull_queues` with `parked_pulls` (pulls that wait for a
//! message, and leases).

pub(crate) mod acknowledgement;
pub(crate) mod consumers;
pub(crate) mod group_consumer;
pub(crate) mod parked_pulls;
pub(crate) mod pull;
pub(crate) mod pull_queues;
pub(crate) mod session;
