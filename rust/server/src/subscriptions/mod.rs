//! Subscriptions of delaymq's own protocol: the server pushes messages as far as the client's credit goes.
//!
//! In: SUBSCRIBE, CREDIT and settlements. Out: DELIVER frames, and calls of the store's subscription.
//! Read `subscribe`, then `subscription_delivery` (sending), `settlement` (what clients settle) and `blocking_tasks`
//! (what may wait for the disk, on threads of the blocking pool).

pub(crate) mod blocking_tasks;
pub(crate) mod settlement;
pub(crate) mod subscribe;
pub(crate) mod subscription_delivery;
