//! A group of nodes on loopback.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use delaymq_core::replication::NodeId;
use delaymq_engine::Options;
use delaymq_node::{ClusterOptions, CoordinatorOptions, Node, NodeError, NodeOptions, create_group};
use delaymq_peers::PeerAddress;
use delaymq_server::ServerOptions;
use serde_json::Value;

use crate::ports::free_ports;

/// How long a group may take for something. A busy machine takes long; the wait ends as soon as it is so.
const WITHIN: Duration = Duration::from_secs(120);
pub(crate) const SEGMENT_BYTES: u32 = 1 << 20;

/// See the module.
pub(crate) struct Group {
    pub(crate) folder: tempfile::TempDir,
    addresses: Vec<SocketAddr>,
    nodes: Vec<Option<Node>>,
}

impl Group {
    /// A group of so many nodes, whose first copy is that of the first node. None runs yet.
    pub(crate) fn new(count: usize, min_copies: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let addresses = free_ports(count).into_iter().map(|port| (Ipv4Addr::LOCALHOST, port).into()).collect();
        let group = Self { folder, addresses, nodes: (0..count).map(|_| None).collect() };
        create_group(&group.path(0), SEGMENT_BYTES, &group.register(), min_copies).unwrap();
        group
    }

    pub(crate) fn path(&self, place: usize) -> PathBuf {
        self.folder.path().join(format!("node{place}"))
    }

    /// Where a node listens for others.
    pub(crate) fn address(&self, place: usize) -> String {
        self.addresses[place].to_string()
    }

    pub(crate) fn register(&self) -> CoordinatorOptions {
        CoordinatorOptions::File(self.folder.path().join("register"))
    }

    pub(crate) fn options(&self, place: usize) -> NodeOptions {
        let others = self.addresses.iter().enumerate().filter(|(other, _)| *other != place);
        let peers = others.map(|(_, address)| PeerAddress { address: address.to_string(), node: None }).collect();
        let server = ServerOptions { listen: "127.0.0.1:0".parse().unwrap(), http: None, ..ServerOptions::default() };
        let (listen, coordinator) = (self.addresses[place], self.register());
        let cluster = ClusterOptions { listen, advertised_address: None, peers, tls: None, coordinator };
        let store = Options { segment_bytes: SEGMENT_BYTES, ..Options::default() };
        NodeOptions { path: self.path(place), store, server, cluster }
    }

    pub(crate) fn start(&mut self, place: usize) {
        self.start_with(place, self.options(place));
    }

    pub(crate) fn start_with(&mut self, place: usize, options: NodeOptions) {
        self.nodes[place] = Some(Node::start(options, &mut |_| {}).unwrap());
    }

    pub(crate) fn start_all(&mut self) {
        (0..self.nodes.len()).for_each(|place| self.start(place));
    }

    pub(crate) fn node(&self, place: usize) -> &Node {
        self.nodes[place].as_ref().unwrap()
    }

    /// Stops a node, which must end without an error.
    pub(crate) fn stop(&mut self, place: usize) {
        let node = self.nodes[place].take().unwrap();
        node.stop(Duration::ZERO);
        match node.wait(WITHIN) {
            Some(Ok(_)) => {}
            other => panic!("node {place} ended with {other:?}"),
        }
    }

    /// Waits for a node that ends by itself, and returns why.
    pub(crate) fn ends(&mut self, place: usize) -> NodeError {
        let node = self.nodes[place].take().unwrap();
        match node.wait(WITHIN) {
            Some(Err(error)) => error,
            other => panic!("node {place} ended with {other:?}"),
        }
    }

    pub(crate) fn status(&self, place: usize) -> Value {
        serde_json::from_str(&self.node(place).status()).unwrap()
    }

    pub(crate) fn id(&self, place: usize) -> NodeId {
        let status = self.status(place);
        let digits = u128::from_str_radix(status["node"].as_str().unwrap(), 16).unwrap();
        NodeId(digits.to_be_bytes())
    }

    fn running(&self) -> Vec<usize> {
        (0..self.nodes.len()).filter(|place| self.nodes[*place].is_some()).collect()
    }

    /// Waits until it is so.
    pub(crate) fn wait(&self, until: &str, is_so: impl Fn(&Self) -> bool) {
        let end = Instant::now() + WITHIN;
        while !is_so(self) {
            for place in self.running() {
                if let Some(ended) = self.node(place).wait(Duration::ZERO) {
                    panic!("node {place} has ended: {ended:?}");
                }
            }
            let seen = || self.running().iter().map(|place| self.node(*place).status()).collect::<Vec<_>>().join("\n");
            assert!(Instant::now() < end, "not {until}:\n{}\n{}", seen(), self.reports());
            sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn reports(&self) -> String {
        let mut lines = Vec::new();
        for place in self.running() {
            while let Some(report) = self.node(place).next_report(Duration::ZERO) {
                lines.push(format!("{place}: {}", report.line));
            }
        }
        lines.join("\n")
    }

    /// The place of the node that serves, if one does.
    pub(crate) fn primary(&self) -> Option<usize> {
        self.running().into_iter().find(|place| self.status(*place)["role"] == "primary")
    }

    /// Waits for a primary whose set has so many nodes, and returns its place.
    pub(crate) fn serves_with(&self, copies: usize) -> usize {
        let has = |group: &Self| {
            group.primary().filter(|place| {
                let status = group.status(*place);
                status["register"]["sync"].as_array().is_some_and(|set| set.len() == copies)
                    && status["register"]["state"] == "serving"
            })
        };
        self.wait(&format!("served with {copies} copies"), |group| has(group).is_some());
        has(self).unwrap_or_else(|| self.serves_with(copies))
    }
}

/// The error of a node that does not start.
pub(crate) fn refusal(options: NodeOptions) -> NodeError {
    match Node::start(options, &mut |_| {}) {
        Ok(_) => panic!("the node has started"),
        Err(error) => error,
    }
}
