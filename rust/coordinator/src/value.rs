//! The value of a register as JSON, so that an operator can read it with the tools of the coordinator.

use std::collections::BTreeSet;

use delaymq_core::replication::{GroupState, NodeId, Register};
use delaymq_core::units::Epoch;
use serde::{Deserialize, Serialize};

use crate::CoordinatorError;

/// The format of the value. Another number is that of a later version.
const FORMAT: u32 = 1;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Value {
    format: u32,
    stream: String,
    timeline: u32,
    epoch: u32,
    primary: String,
    sync: Vec<String>,
    complete: Vec<String>,
    state: State,
    min_copies: usize,
    made_for: u64,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Promoting,
    Serving,
}

/// The value as JSON text.
pub fn encode(register: &Register) -> String {
    let names = |nodes: &BTreeSet<NodeId>| nodes.iter().map(NodeId::to_string).collect();
    let value = Value {
        format: FORMAT,
        stream: NodeId(register.stream).to_string(),
        timeline: register.timeline,
        epoch: register.epoch.0,
        primary: register.primary.to_string(),
        sync: names(&register.sync),
        complete: names(&register.complete),
        state: match register.state {
            GroupState::Promoting => State::Promoting,
            GroupState::Serving => State::Serving,
        },
        min_copies: register.min_copies,
        made_for: register.made_for,
    };
    serde_json::to_string(&value).unwrap_or_default()
}

/// Reads the value. `place` is named in an error.
///
/// # Errors
/// `Malformed` if the text is another format, lacks a field, has one that is not known, or contradicts itself.
pub fn decode(place: &str, text: &str) -> Result<Register, CoordinatorError> {
    let malformed = |expected: &str, found: String| CoordinatorError::Malformed {
        place: place.to_owned(),
        expected: expected.to_owned(),
        found,
    };
    let value: Value = serde_json::from_str(text)
        .map_err(|error| malformed("the register of a group of copies", format!("{text:.200} ({error})")))?;
    if value.format != FORMAT {
        return Err(malformed("a register of format 1", format!("one of format {}", value.format)));
    }
    let node = |name: &str| {
        bytes_of(name).map(NodeId).ok_or_else(|| malformed("32 hexadecimal digits", format!("{name:.200}")))
    };
    let nodes = |names: &[String]| names.iter().map(|name| node(name)).collect::<Result<BTreeSet<_>, _>>();
    let register = Register {
        stream: node(&value.stream)?.0,
        timeline: value.timeline,
        epoch: Epoch(value.epoch),
        primary: node(&value.primary)?,
        sync: nodes(&value.sync)?,
        complete: nodes(&value.complete)?,
        state: match value.state {
            State::Promoting => GroupState::Promoting,
            State::Serving => GroupState::Serving,
        },
        min_copies: value.min_copies,
        made_for: value.made_for,
    };
    if !register.sync.contains(&register.primary) || !register.complete.is_superset(&register.sync) {
        return Err(malformed("a primary in the set, and a set of complete nodes", format!("{text:.400}")));
    }
    if register.min_copies == 0 {
        return Err(malformed("min_copies of at least 1", "0".to_owned()));
    }
    Ok(register)
}

fn bytes_of(digits: &str) -> Option<[u8; 16]> {
    let lower = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if digits.len() != 32 || !digits.bytes().all(lower) {
        return None;
    }
    u128::from_str_radix(digits, 16).ok().map(u128::to_be_bytes)
}
