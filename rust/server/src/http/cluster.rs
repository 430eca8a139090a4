//! `/cluster`: the state of a group of copies, and the requests of an operator for it.

use std::net::IpAddr;
use std::str::FromStr;

use delaymq_core::units::Millis;
use delaymq_core::wire::http::HttpRequest;

use crate::access::control::AccessControl;
use crate::http::administrator;
use crate::http::page::{JSON, Page, text};

/// The hexadecimal digits of a node's id.
const NODE_DIGITS: usize = 32;

/// The pages of plain HTTP about a group of copies, and the requests of an operator there. Each is called on the server's
/// thread, and returns soon.
pub trait ClusterPages: Send + Sync {
    /// The state of the group as this node sees it, in JSON.
    fn status(&self) -> String;

    /// Metrics of the group in Prometheus' text format. They follow those of the server.
    fn metrics(&self) -> String;

    /// Begins to hand over from this node, which is the primary, to another one. `node` has the 32 lower-case hexadecimal digits of its id.
    ///
    /// # Errors
    /// The reason of the refusal, for the operator.
    fn switch_over(&self, node: &str) -> Result<(), String>;

    /// Begins to connect to another node, at an address that is in no settings.
    ///
    /// # Errors
    /// The reason of the refusal, for the operator.
    fn add(&self, address: &str) -> Result<(), String>;

    /// Begins to forget a node that is gone for good, at the primary. `node` is as above. `accepts_loss`: also if it is the
    /// only other node that has every message that was answered as stored.
    ///
    /// # Errors
    /// The reason of the refusal, for the operator.
    fn remove(&self, node: &str, accepts_loss: bool) -> Result<(), String>;

    /// Begins to demand so many copies of a publish, at the primary.
    ///
    /// # Errors
    /// The reason of the refusal, for the operator.
    fn set_min_copies(&self, min_copies: usize) -> Result<(), String>;

    /// Begins to lead with this node, whose id `node` is, after the set is gone for good.
    ///
    /// # Errors
    /// The reason of the refusal, for the operator.
    fn promote(&self, node: &str) -> Result<(), String>;

    /// Takes the number of another coordinator as that of the group's own.
    ///
    /// # Errors
    /// The reason of the refusal, for the operator.
    fn confirm(&self, coordinator: u64) -> Result<(), String>;
}

/// The method of a page of this module; `None` if there is no such page.
pub(super) fn method(path: &str) -> Option<&'static str> {
    match path {
        "/cluster" => Some("GET"),
        "/cluster/switchover"
        | "/cluster/confirm"
        | "/cluster/add"
        | "/cluster/remove"
        | "/cluster/promote"
        | "/cluster/min_copies" => Some("POST"),
        _ => None,
    }
}

/// The page of a request whose path and method were checked.
pub(super) fn page(
    cluster: &dyn ClusterPages,
    access: &AccessControl,
    request: &HttpRequest<'_>,
    address: IpAddr,
    now: Millis,
) -> Page {
    if request.path == "/cluster" {
        return Page { status: 200, kind: JSON, body: cluster.status() };
    }
    if let Some((status, words)) = administrator::refusal(access, request, address, now) {
        return text(status, format!("{words}\n"));
    }
    if request.path == "/cluster/confirm" {
        return confirm(cluster, request);
    }
    if request.path == "/cluster/min_copies" {
        let Some(copies) = number(request, "copies") else {
            return text(400, "copies must be a whole number\n");
        };
        return done(cluster.set_min_copies(copies), "the change has begun; see /cluster\n");
    }
    if request.path == "/cluster/add" {
        let Some(address) = request.parameter("address") else {
            return text(400, "address must be the address of a node, as host:port\n");
        };
        return done(cluster.add(&address), "the node connects there; see /cluster\n");
    }
    let Some(node) = request.parameter("node").filter(|node| is_node(node)) else {
        return text(400, "node must be the 32 hexadecimal digits of a node's id\n");
    };
    let node = node.to_ascii_lowercase();
    let accepts_loss = request.parameter("accept_loss");
    match (request.path, accepts_loss.as_deref()) {
        ("/cluster/switchover", None) => done(cluster.switch_over(&node), "the switchover has begun; see /cluster\n"),
        ("/cluster/promote", None) => done(cluster.promote(&node), "the promotion has begun; see /cluster\n"),
        ("/cluster/remove", None | Some("true")) => {
            done(cluster.remove(&node, accepts_loss.is_some()), "the removal has begun; see /cluster\n")
        }
        _ => text(400, "accept_loss may be true, for /cluster/remove\n"),
    }
}

fn confirm(cluster: &dyn ClusterPages, request: &HttpRequest<'_>) -> Page {
    let Some(coordinator) = number(request, "coordinator") else {
        return text(400, "coordinator must be the number of a coordinator\n");
    };
    done(cluster.confirm(coordinator), "the coordinator is confirmed\n")
}

fn done(outcome: Result<(), String>, words: &str) -> Page {
    match outcome {
        Ok(()) => text(200, words),
        Err(reason) => text(409, format!("{reason}\n")),
    }
}

fn is_node(node: &str) -> bool {
    node.len() == NODE_DIGITS && node.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The number that a parameter is. `parse` would also take a sign.
fn number<T: FromStr>(request: &HttpRequest<'_>, name: &str) -> Option<T> {
    let digits = request.parameter(name).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
    digits.parse().ok()
}
