//! Requests and answers of etcd's JSON gateway. Its bytes are base64, and its 64-bit numbers are strings; what is zero or
//! false is left out.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use delaymq_core::replication::Version;
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use crate::CoordinatorError;

/// The beginning of each answer.
#[derive(Deserialize)]
pub(super) struct Header {
    #[serde(deserialize_with = "number")]
    pub(super) cluster_id: u64,
    #[serde(default, deserialize_with = "number")]
    pub(super) revision: u64,
}

/// A key with its value.
#[derive(Deserialize)]
pub(super) struct KeyValue {
    #[serde(default)]
    value: String,
    #[serde(deserialize_with = "number")]
    pub(super) mod_revision: u64,
}

/// The answer to a read.
#[derive(Deserialize)]
pub(super) struct RangeAnswer {
    pub(super) header: Header,
    #[serde(default)]
    pub(super) kvs: Vec<KeyValue>,
}

/// The answer to a transaction.
#[derive(Deserialize)]
pub(super) struct TransactionAnswer {
    pub(super) header: Header,
    #[serde(default)]
    pub(super) succeeded: bool,
    #[serde(default)]
    responses: Vec<TransactionPart>,
}

#[derive(Deserialize)]
struct TransactionPart {
    response_range: Option<RangePart>,
}

#[derive(Deserialize)]
struct RangePart {
    #[serde(default)]
    kvs: Vec<KeyValue>,
}

/// A line of a watch.
#[derive(Deserialize)]
pub(super) struct WatchLine {
    #[serde(default)]
    pub(super) result: WatchResult,
}

/// The content of a line of a watch.
#[derive(Default, Deserialize)]
pub(super) struct WatchResult {
    #[serde(default)]
    pub(super) events: Vec<Value>,
    /// The server has ended the watch, for instance because the revision was compacted.
    #[serde(default)]
    pub(super) canceled: bool,
}

impl KeyValue {
    /// The value as text.
    pub(super) fn text(&self, key: &str) -> Result<String, CoordinatorError> {
        let bytes = STANDARD.decode(&self.value).ok();
        bytes.and_then(|bytes| String::from_utf8(bytes).ok()).ok_or_else(|| CoordinatorError::Malformed {
            place: key.to_owned(),
            expected: "text".to_owned(),
            found: "bytes that are none".to_owned(),
        })
    }
}

impl TransactionAnswer {
    /// The value that the key holds, where the comparison failed.
    pub(super) fn stored(&self) -> Option<&KeyValue> {
        self.responses.first()?.response_range.as_ref()?.kvs.first()
    }
}

fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::String(text) => text.parse().map_err(D::Error::custom),
        other => other.as_u64().ok_or_else(|| D::Error::custom(format!("{other} is no number"))),
    }
}

/// Reads one key. Linearizable, as etcd answers unless it is asked otherwise.
pub(super) fn range(key: &str) -> Value {
    json!({ "key": STANDARD.encode(key) })
}

/// Puts the value if the key was last changed in this revision (0: it does not exist); otherwise reads the key.
pub(super) fn transaction(key: &str, expected: Version, value: &str) -> Value {
    let key = STANDARD.encode(key);
    json!({
        "compare": [{ "key": key, "target": "MOD", "result": "EQUAL", "mod_revision": expected.0.to_string() }],
        "success": [{ "request_put": { "key": key, "value": STANDARD.encode(value) } }],
        "failure": [{ "request_range": { "key": key } }],
    })
}

/// Watches one key for changes after this revision.
pub(super) fn watch(key: &str, since: Version) -> Value {
    let start = since.0.saturating_add(1).to_string();
    json!({ "create_request": { "key": STANDARD.encode(key), "start_revision": start } })
}
