//! Consuming: ready messages on their way to consumers, and how their deliveries end.
//!
//! In: pulls and settlements of a caller. Out: deliveries with their payloads; acknowledgements and retries as proposals.
//! Read `subscription` (the handle of a caller) and `joining` (how it begins), then `member` (its state, shared with the
//! owner's threads), `queues` (those of its subjects) and `queue_turns` (how a pull asks them), `assigned_payloads` and
//! `delivery` (the result of a pull), `expiring` (messages that no consumer receives), `group_start` (where a group
//! begins), `ended_deliveries` and `retries` (how a delivery ends), `holding` (how long one may last), and `subscribers`
//! (which member a woken group belongs to). `named` has consumers that outlive a connection.

pub(crate) mod assigned_payloads;
pub(crate) mod delivery;
pub(crate) mod ended_deliveries;
pub(crate) mod expiring;
pub(crate) mod group_start;
pub(crate) mod holding;
pub(crate) mod joining;
pub(crate) mod member;
pub(crate) mod named;
pub(crate) mod offset_hasher;
pub(crate) mod queue_turns;
pub(crate) mod queues;
pub(crate) mod retries;
pub(crate) mod subscribers;
pub(crate) mod subscription;
