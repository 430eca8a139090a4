//! Consumers of QMQ: they pull, acknowledge, and live as long as their lease.
//!
//! In: PULL and ACK requests. Out: messages for a pull, settlements, and consumers that end with their lease.
//! Read `pull` and `acknowledgement` (the commands), then `consumers` and `session` (one consumer, whatever connection it
//! uses), `shared_consumer` and `broadcast_consumer` (the two kinds), and `pull_queues` with `parked_pulls` (pulls that
//! wait for a message, and leases).

pub(crate) mod acknowledgement;
pub(crate) mod broadcast_consumer;
pub(crate) mod consumers;
pub(crate) mod parked_pulls;
pub(crate) mod pull;
pub(crate) mod pull_queues;
pub(crate) mod session;
pub(crate) mod shared_consumer;
