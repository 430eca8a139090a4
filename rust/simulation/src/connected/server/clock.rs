//! Requests of an operator about the clock.

use delaymq_core::error::Result;
use delaymq_core::wire::extension::clock::ClockTold;
use delaymq_core::wire::extension::errors::{ErrorCode, RemoteError};

use super::Server;
use super::steps::Asker;
use crate::node::Node;

impl Server {
    pub(super) fn report_clock(&mut self, node: &Node, asker: Asker) -> Result<()> {
        let told = ClockTold(node.clock());
        self.answer(asker, |out| {
            told.put(out);
            Ok(())
        })
    }

    pub(super) fn accept_clock(&mut self, node: &mut Node, asker: Asker, ahead_ms: u64) -> Result<()> {
        match node.accept_clock(ahead_ms) {
            Ok(by_ms) => {
                self.has_accepted = true;
                self.answer_bytes(asker, &by_ms.to_be_bytes())
            }
            Err(refused) => {
                let error = RemoteError::new(ErrorCode::InvalidArgument, &format!("{refused:?}"));
                self.refuse(asker, &error)
            }
        }
    }

    /// True if a step was accepted since the last call.
    pub(in super::super) fn take_accepted(&mut self) -> bool {
        std::mem::take(&mut self.has_accepted)
    }
}
