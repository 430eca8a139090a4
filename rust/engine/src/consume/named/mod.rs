//! Named consumers: a client names them, and they outlive its connection, the process and an open of the store.
//!
//! In: the names of a subject, group and consumer. Out: a consumer, its deliveries, and facts that settle or remove it.
//! Read `consumer` (types), then `registry` (one consumer for each name) with `registration` (the fact that makes one),
//! `pull` (its deliveries), `judging` (its filters), `settlement` (how its deliveries end), `removal` (an operator ends
//! it) and `broadcast` (a consumer that has its group for itself).

pub(crate) mod broadcast;
pub(crate) mod consumer;
pub(crate) mod judging;
pub(crate) mod pull;
pub(crate) mod registration;
pub(crate) mod registry;
pub(crate) mod removal;
pub(crate) mod settlement;
