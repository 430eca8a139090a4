//! The hello of a node, and the refusal of another node's connection.
//!
//! A hello is:
//!
//! | bytes | field |
//! |---|---|
//! | 8 | `magic`: `DMQPEERS` |
//! | 2 | `version` of this protocol. In another version, the fields behind it are not read |
//! | 4 | `format_level`: the format that the node writes |
//! | 16 | `stream`: identifies the history of messages |
//! | 4 | `timeline` |
//! | 16 | `node`: from the identity file of its store |
//! | 8 | `nonce`: a random number of this run of the node |
//! | 4 | `segment_bytes`: the size of its segments |
//! | 4, then at most 259 | `client_address`: its length, and where clients connect to the node, as `host:port`; may be empty |
//! | 4, then at most 259 | `peer_address`: the same for other nodes |
//! | 4 | `others`: the number of other nodes that follow, at most 8 |
//! | 16 + 4, then at most 259, for each | the node, and the address at which the sender is connected to it |
//!
//! A refusal is one byte. For another version, the versions (2 bytes each) of the node that refuses and of the one that is
//! refused follow.

use bytes::BufMut;

use crate::error::Result;
use crate::replication::NodeId;
use crate::wire::fields::{put_blob, put_count};
use crate::wire::malformed::{Malformed, Read};
use crate::wire::reader::{Reader, utf8};

/// The version of this protocol.
pub const PEER_VERSION: u16 = 1;
/// The longest address in a hello, in bytes: a name of a host, a colon and a port.
pub const ADDRESS_BYTES_MAX: usize = 259;
/// The most other nodes that a hello names.
pub const OTHERS_MAX: usize = 8;
const CLIENT_ADDRESS: &str = "client_address";
const PEER_ADDRESS: &str = "peer_address";
const OTHERS: &str = "others";
/// The bytes of another node whose address is empty.
const OTHER_BYTES_MIN: usize = 16 + 4;
/// The first bytes of a hello.
const MAGIC: [u8; 8] = *b"DMQPEERS";

/// A node, as it presents itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hello {
    /// The format that it writes.
    pub format_level: u32,
    /// The stream of its store.
    pub stream: [u8; 16],
    /// Which of the histories that grew from the stream.
    pub timeline: u32,
    /// Its id.
    pub node: NodeId,
    /// A random number of this run of the node.
    pub nonce: u64,
    /// The size of its segments, which is fixed when a copy is made.
    pub segment_bytes: u32,
    /// Where clients connect to it, as `host:port`, which a node that is not the primary tells them. Empty if no client
    /// can.
    pub client_address: String,
    /// Where other nodes connect to it, as `host:port`. Empty if it does not say.
    pub peer_address: String,
    /// Other nodes that it is connected to, and at which address, so that nodes find each other whose settings do not name
    /// each other.
    pub others: Vec<(NodeId, String)>,
}

/// A hello in this version, or the other version.
pub(super) enum Greeted {
    Here(Hello),
    Other(u16),
}

impl Hello {
    /// Returns why this node refuses the node with that hello.
    ///
    /// # Errors
    /// The refusal.
    pub fn judge(&self, other: &Self) -> std::result::Result<(), Refusal> {
        if other.node == self.node {
            return Err(if other.nonce == self.nonce { Refusal::Itself } else { Refusal::CopiedFolder });
        }
        if other.stream != self.stream {
            return Err(Refusal::OtherStream);
        }
        if other.timeline != self.timeline {
            return Err(Refusal::OtherTimeline);
        }
        if other.segment_bytes != self.segment_bytes {
            return Err(Refusal::OtherSegmentBytes);
        }
        Ok(())
    }

    pub(super) fn put(&self, out: &mut Vec<u8>) -> Result<()> {
        Self::put_version(out, PEER_VERSION);
        out.put_u32(self.format_level);
        out.put_slice(&self.stream);
        out.put_u32(self.timeline);
        out.put_slice(&self.node.0);
        out.put_u64(self.nonce);
        out.put_u32(self.segment_bytes);
        put_blob(out, CLIENT_ADDRESS, ADDRESS_BYTES_MAX, self.client_address.as_bytes())?;
        put_blob(out, PEER_ADDRESS, ADDRESS_BYTES_MAX, self.peer_address.as_bytes())?;
        put_count(out, OTHERS, OTHERS_MAX, self.others.len())?;
        for (node, address) in &self.others {
            out.put_slice(&node.0);
            put_blob(out, OTHERS, ADDRESS_BYTES_MAX, address.as_bytes())?;
        }
        Ok(())
    }

    pub(super) fn put_version(out: &mut Vec<u8>, version: u16) {
        out.put_slice(&MAGIC);
        out.put_u16(version);
    }
}

/// Reads a hello.
///
/// # Errors
/// `Malformed`, naming the field.
pub(super) fn read_hello(reader: &mut Reader<'_>) -> Read<Greeted> {
    let magic: [u8; 8] = reader.array("magic")?;
    if magic != MAGIC {
        let found = i64::from_be_bytes(magic);
        return Err(Malformed::Value { field: "magic", expected: "DMQPEERS", found });
    }
    let version = reader.u16("version")?;
    if version != PEER_VERSION {
        return Ok(Greeted::Other(version));
    }
    let address =
        |reader: &mut Reader<'_>, field| utf8(field, reader.blob(field, ADDRESS_BYTES_MAX)?).map(ToOwned::to_owned);
    Ok(Greeted::Here(Hello {
        format_level: reader.u32("format_level")?,
        stream: reader.array("stream")?,
        timeline: reader.u32("timeline")?,
        node: NodeId(reader.array("node")?),
        nonce: reader.u64("nonce")?,
        segment_bytes: reader.u32("segment_bytes")?,
        client_address: address(reader, CLIENT_ADDRESS)?,
        peer_address: address(reader, PEER_ADDRESS)?,
        others: {
            let count = reader.count(OTHERS, OTHERS_MAX, OTHER_BYTES_MIN)?;
            let other = |_| Ok((NodeId(reader.array(OTHERS)?), address(reader, OTHERS)?));
            (0..count).map(other).collect::<Read<_>>()?
        },
    }))
}

/// Why a node refuses a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    /// The nodes have copies of different stores.
    #[error("the other node has a copy of another stream")]
    OtherStream,
    /// The copies grew from one stream, but one of them was made from a backup.
    #[error("the other node has another timeline of the stream")]
    OtherTimeline,
    /// Both nodes have one id, because the folder of a store was copied.
    #[error("the other node has the same id, so the folder of one of them is a copy of the other's")]
    CopiedFolder,
    /// A node has connected to itself.
    #[error("the address is that of the node itself")]
    Itself,
    /// The nodes speak different versions of this protocol.
    #[error(
        "the refusing node speaks version {refusing} of the protocol, the other one version {refused}: use one release on both"
    )]
    OtherVersion {
        /// The version of the node that refuses.
        refusing: u16,
        /// The version of the other one.
        refused: u16,
    },
    /// Another node than the one that is configured answers at an address.
    #[error("another node answers at the address than the configured one")]
    OtherNode,
    /// The node that connects already has a connection to a node of this id, at another address.
    #[error("a node of the same id answers at another address")]
    TwoAddresses,
    /// The segments of the nodes differ in size, so one node cannot keep the log of the other.
    #[error(
        "the segments of the other node have another size; `segment_bytes` is fixed when a copy is made, so make the copy again whose size is not that of the group, with the group's size"
    )]
    OtherSegmentBytes,
}

impl Refusal {
    const fn number(self) -> u8 {
        match self {
            Self::OtherStream => 1,
            Self::OtherTimeline => 2,
            Self::CopiedFolder => 3,
            Self::Itself => 4,
            Self::OtherVersion { .. } => 5,
            Self::OtherNode => 6,
            Self::TwoAddresses => 7,
            Self::OtherSegmentBytes => 8,
        }
    }

    pub(super) fn put(self, out: &mut Vec<u8>) {
        out.put_u8(self.number());
        if let Self::OtherVersion { refusing, refused } = self {
            out.put_u16(refusing);
            out.put_u16(refused);
        }
    }

    /// Reads a refusal.
    ///
    /// # Errors
    /// `Malformed`, naming the field.
    pub(super) fn read(reader: &mut Reader<'_>) -> Read<Self> {
        Ok(match reader.u8("refusal")? {
            1 => Self::OtherStream,
            2 => Self::OtherTimeline,
            3 => Self::CopiedFolder,
            4 => Self::Itself,
            5 => Self::OtherVersion { refusing: reader.u16("refusing")?, refused: reader.u16("refused")? },
            6 => Self::OtherNode,
            7 => Self::TwoAddresses,
            8 => Self::OtherSegmentBytes,
            found => {
                return Err(Malformed::Value { field: "refusal", expected: "1 to 8", found: i64::from(found) });
            }
        })
    }
}
