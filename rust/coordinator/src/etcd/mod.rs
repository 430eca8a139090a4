//! A register that is one key of an etcd cluster, through the JSON gateway of etcd's HTTP port.
//!
//! Read `messages` (requests and answers of the gateway, from the definitions of etcd's API, version 3), then `gateway`
//! (endpoints and TLS). Only a transaction that compares the key's modification revision
//! changes it. The number of the coordinator is the cluster's id, which a cluster that was restored from a backup does not
//! share.

mod gateway;
mod messages;
mod options;

use std::time::Duration;

use delaymq_core::replication::{Reading, Register, SwapAnswer, Version};

use self::gateway::Gateway;
use self::messages::{KeyValue, RangeAnswer, TransactionAnswer, range, transaction, watch};
pub use self::options::{EtcdOptions, EtcdTls};
use crate::value::{decode, encode};
use crate::{Coordinator, CoordinatorError};

/// A register in etcd; see the module.
#[derive(Debug)]
pub struct EtcdCoordinator {
    gateway: Gateway,
    key: String,
}

impl EtcdCoordinator {
    /// Prepares the connection. Nothing is sent yet.
    ///
    /// # Errors
    /// `InvalidOption` if there is no endpoint, an endpoint is no address, or a certificate cannot be read.
    pub fn new(options: &EtcdOptions) -> Result<Self, CoordinatorError> {
        if options.key.is_empty() {
            return Err(CoordinatorError::InvalidOption { option: "key", message: "it is empty".to_owned() });
        }
        Ok(Self { gateway: Gateway::new(options)?, key: options.key.clone() })
    }

    fn reading(&self, coordinator: u64, stored: &KeyValue) -> Result<Reading, CoordinatorError> {
        let text = stored.text(&self.key)?;
        let value = decode(&self.key, &text)?;
        Ok(Reading { coordinator, version: Version(stored.mod_revision), value })
    }
}

impl Coordinator for EtcdCoordinator {
    fn read(&self) -> Result<Option<Reading>, CoordinatorError> {
        let answer: RangeAnswer = self.gateway.ask("/v3/kv/range", &range(&self.key))?;
        let stored = answer.kvs.first();
        stored.map(|stored| self.reading(answer.header.cluster_id, stored)).transpose()
    }

    fn swap(&self, expected: Version, value: &Register) -> Result<SwapAnswer, CoordinatorError> {
        let request = transaction(&self.key, expected, &encode(value));
        let answer: TransactionAnswer = self.gateway.ask("/v3/kv/txn", &request)?;
        let coordinator = answer.header.cluster_id;
        if answer.succeeded {
            return Ok(SwapAnswer::Won(coordinator, Version(answer.header.revision)));
        }
        let stored = answer.stored().ok_or_else(|| CoordinatorError::Missing { key: self.key.clone() })?;
        self.reading(coordinator, stored).map(SwapAnswer::Lost)
    }

    fn changed(&self, since: Version, at_most: Duration) -> Result<bool, CoordinatorError> {
        self.gateway.watch(&watch(&self.key, since), at_most)
    }
}
