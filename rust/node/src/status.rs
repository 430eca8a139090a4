//! The status of the group as a node knows it, its metrics, and its reports for a log.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::{Display, Write};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use delaymq_core::replication::{CopyKnown, NodeId, Reading, RoleName, Unfit};
use delaymq_core::units::{Epoch, Sequence};
use delaymq_peers::LinkStatus;
use serde_json::{Value, json};

use crate::group::register_shown;
use crate::held;
use crate::interface::NodeReport;

/// Reports that are kept until they are taken.
const REPORTS_MAX: usize = 1_024;

/// Reports, between the threads that make them and the owner of the node.
#[derive(Default)]
pub(crate) struct Reports {
    waiting: Mutex<VecDeque<NodeReport>>,
    arrived: Condvar,
}

impl Reports {
    /// Something that is as it should be.
    pub(crate) fn note(&self, line: String) {
        self.add(NodeReport { is_warning: false, line });
    }

    /// Something that somebody should look at.
    pub(crate) fn warn(&self, line: String) {
        self.add(NodeReport { is_warning: true, line });
    }

    fn add(&self, report: NodeReport) {
        let mut waiting = held(&self.waiting);
        if waiting.len() >= REPORTS_MAX {
            waiting.pop_front();
        }
        waiting.push_back(report);
        drop(waiting);
        self.arrived.notify_all();
    }

    /// The next report. Waits up to `wait` for one.
    pub(crate) fn next(&self, wait: Duration) -> Option<NodeReport> {
        let waiting = held(&self.waiting);
        let waited = self.arrived.wait_timeout_while(waiting, wait, |waiting| waiting.is_empty());
        waited.unwrap_or_else(PoisonError::into_inner).0.pop_front()
    }
}

/// An answer of the register that the node does not believe.
#[derive(Clone, Debug)]
pub(crate) struct Foreign {
    pub(crate) reading: Reading,
    /// True if it has a value of this group that was made for another coordinator, so that an operator may confirm it.
    pub(crate) is_restored: bool,
}

/// The state of a node at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) node: NodeId,
    pub(crate) stream: [u8; 16],
    pub(crate) timeline: u32,
    pub(crate) role: RoleName,
    pub(crate) epoch: Epoch,
    /// The epoch of the last batch of the log.
    pub(crate) log_epoch: Epoch,
    pub(crate) committed: Sequence,
    pub(crate) end: Sequence,
    pub(crate) durable: Sequence,
    pub(crate) leader: Option<NodeId>,
    pub(crate) accepts_publishes: bool,
    pub(crate) unfit: Vec<Unfit>,
    /// How far the wall clock is at least ahead of that of the group.
    pub(crate) clock_ahead_ms: Option<i64>,
    /// The last answer of the register, if the node does not believe it: it waits until an operator has confirmed it.
    pub(crate) foreign: Option<Foreign>,
    /// The coordinator whose register the node believes; 0 if it has seen none.
    pub(crate) coordinator: u64,
    pub(crate) reading: Option<Reading>,
    pub(crate) copies: Vec<CopyKnown>,
    pub(crate) links: Vec<LinkStatus>,
    /// The nodes that are connected, in either direction.
    pub(crate) connected: BTreeSet<NodeId>,
    /// Where clients of each node connect.
    pub(crate) client_addresses: BTreeMap<NodeId, String>,
    /// How often the role has changed.
    pub(crate) role_changes: u64,
    /// Damaged messages that other nodes have given back.
    pub(crate) messages_repaired: u64,
}

fn role_shown(role: RoleName) -> &'static str {
    match role {
        RoleName::Replica => "replica",
        RoleName::Promoting => "promoting",
        RoleName::Primary => "primary",
    }
}

fn unfit_shown(reason: Unfit) -> &'static str {
    match reason {
        Unfit::Disk => "disk",
        Unfit::Clock => "clock",
    }
}

impl Snapshot {
    pub(crate) fn address_of(&self, node: NodeId) -> Option<&str> {
        self.client_addresses.get(&node).map(String::as_str).filter(|address| !address.is_empty())
    }

    /// The status as JSON.
    pub(crate) fn shown(&self) -> Value {
        let primary =
            self.leader.map(|leader| json!({ "node": leader.to_string(), "address": self.address_of(leader) }));
        json!({
            "node": self.node.to_string(),
            "role": role_shown(self.role),
            "epoch": self.epoch.0,
            "log_epoch": self.log_epoch.0,
            "stream": NodeId(self.stream).to_string(),
            "timeline": self.timeline,
            "committed": self.committed.0,
            "end": self.end.0,
            "durable": self.durable.0,
            "primary": primary,
            "accepts_publishes": self.accepts_publishes,
            "is_fit": self.unfit.is_empty(),
            "unfit_reasons": self.unfit.iter().map(|reason| unfit_shown(*reason)).collect::<Vec<_>>(),
            "clock_ahead_ms": self.clock_ahead_ms,
            "awaits_confirmation": self.foreign.is_some(),
            "register": self.reading.as_ref().map(register_shown),
            "nodes": self.links.iter().map(|link| self.link_shown(link)).collect::<Vec<_>>(),
            "copies": self.copies.iter().map(copy_shown).collect::<Vec<_>>(),
        })
    }

    fn link_shown(&self, link: &LinkStatus) -> Value {
        json!({
            "address": link.address.address,
            "node": link.node.map(|node| node.to_string()),
            "client_address": link.node.and_then(|node| self.address_of(node)),
            "is_connected": link.node.is_some(),
            "queued_bytes": link.queued_bytes,
            "dropped": link.dropped,
            "fault": link.fault.as_ref().map(|fault| &fault.words),
            "is_refused": link.fault.as_ref().is_some_and(|fault| fault.is_refusal),
        })
    }

    /// Metrics in the text format of Prometheus.
    pub(crate) fn metrics(&self) -> String {
        let mut text = String::new();
        let mut gauge = |name: &str, help: &str, value: u64| put_gauge(&mut text, name, help, &[("", value)]);
        let set = self.reading.as_ref().map_or(0, |reading| reading.value.sync.len());
        let least = self.copies.iter().filter_map(|copy| copy.durable).min();
        gauge("is_primary", "1 on the primary.", u64::from(self.role == RoleName::Primary));
        gauge("epoch", "The epoch that the node has promised.", u64::from(self.epoch.0));
        gauge("role_changes", "Changes of the role since the node started.", self.role_changes);
        let help = "Damaged messages that another node has given back since the node started.";
        gauge("messages_repaired", help, self.messages_repaired);
        gauge("committed_sequence", "The sequence after the last committed fact.", self.committed.0);
        gauge("log_end_sequence", "The sequence after the last fact of the log.", self.end.0);
        gauge("durable_sequence", "The sequence after the last durable fact.", self.durable.0);
        gauge("copies", "Nodes of the set that must have each fact.", set as u64);
        gauge("accepts_publishes", "1 on a primary with enough copies.", u64::from(self.accepts_publishes));
        let connected = self.links.iter().filter(|link| link.node.is_some()).count();
        gauge("connected_nodes", "Other nodes that this node is connected to.", connected as u64);
        if self.role != RoleName::Replica {
            let lag = least.map_or(0, |least| self.end.0.saturating_sub(least.0));
            gauge("copy_lag", "Facts that the copy that is least far lacks.", lag);
        }
        let is_fit = u64::from(self.unfit.is_empty());
        gauge("is_fit", "1 if the node may become the primary by itself.", is_fit);
        let help = "How far the wall clock is at least ahead of that of the group, in milliseconds.";
        let ahead: Vec<(&str, i64)> = self.clock_ahead_ms.map(|ahead_ms| ("", ahead_ms)).into_iter().collect();
        put_gauge(&mut text, "clock_ahead_ms", help, &ahead);
        let label =
            |copy: &CopyKnown| copy.clock_offset_ms.map(|offset| (format!("{{node=\"{}\"}}", copy.node), offset));
        let offsets: Vec<(String, i64)> = self.copies.iter().filter_map(label).collect();
        let help = "How far the wall clock of a copy is ahead of that of the primary, in milliseconds.";
        put_gauge(&mut text, "clock_offset_ms", help, &offsets);
        text
    }
}

/// A gauge in the text format of Prometheus. Writing to a string does not fail.
fn put_gauge<L: Display, N: Display>(text: &mut String, name: &str, help: &str, values: &[(L, N)]) {
    if !values.is_empty() {
        let _written = writeln!(text, "# HELP delaymq_cluster_{name} {help}\n# TYPE delaymq_cluster_{name} gauge");
    }
    for (label, value) in values {
        let _written = writeln!(text, "delaymq_cluster_{name}{label} {value}");
    }
}

fn copy_shown(copy: &CopyKnown) -> Value {
    json!({
        "node": copy.node.to_string(),
        "durable": copy.durable.map(|durable| durable.0),
        "is_following": copy.is_matched,
        "has_diverged": copy.has_diverged,
        "clock_offset_ms": copy.clock_offset_ms,
        "is_clock_apart": copy.is_clock_apart,
    })
}
