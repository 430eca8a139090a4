//! `CLIENT_REGISTER` (35): a client registers, and receives the addresses of the brokers.
//!
//! The request is `count i16 | (str key | str value)*`. The answer:
//!
//! | bytes | field |
//! |---|---|
//! | 8 | `timestamp_ms`: never goes back; -2 if the request was refused |
//! | str each | `subject`, `group`: as in the request |
//! | 1 | `state`: 0 online, 1 offline |
//! | 1 | `client_type`: as in the request |
//! | 2, then each | `str name | str address | updated_ms i64 | access i8` |

use bytes::BufMut;

use crate::error::Result;
use crate::record::limits::at_most;
use crate::wire::fields::put_text;
use crate::wire::malformed::{Malformed, Read};
use crate::wire::reader::Reader;

/// The command.
pub const CLIENT_REGISTER: i16 = 35;
/// The timestamp in the answer to a refused request.
pub const REFUSED_TIMESTAMP: i64 = -2;
/// The most pairs of a request; a client sends six or seven.
const PAIRS_MAX: i16 = 64;
/// The most broker groups of an answer.
const GROUPS_MAX: usize = 1_024;

/// The type of a client.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ClientType {
    /// It sends messages that are due now.
    Producer,
    /// It consumes.
    Consumer,
    /// Something else.
    Other,
    /// It sends messages that are due later.
    DelayProducer,
}

const CLIENT_TYPES: [(ClientType, u8); 4] =
    [(ClientType::Producer, 1), (ClientType::Consumer, 2), (ClientType::Other, 3), (ClientType::DelayProducer, 4)];

impl ClientType {
    /// The number on the wire.
    pub fn number(self) -> u8 {
        CLIENT_TYPES.iter().find(|(kind, _)| *kind == self).map_or(3, |(_, number)| *number)
    }

    /// The type of a number.
    pub fn of(number: u8) -> Option<Self> {
        CLIENT_TYPES.iter().find(|(_, known)| *known == number).map(|(kind, _)| *kind)
    }
}

/// A registration; texts that are not in the request are empty.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegisterRequest<'a> {
    /// The subject that it sends to or consumes.
    pub subject: &'a str,
    /// Its type.
    pub client_type: ClientType,
    /// Its application.
    pub app_code: &'a str,
    /// Its id.
    pub client_id: &'a str,
    /// The group that it consumes for; empty for producers.
    pub group: &'a str,
    /// True for the first request, false for a repetition.
    pub is_new: bool,
    /// Its room, as the client registered it.
    pub room: &'a str,
}

/// Reads a request. Unknown keys are ignored; if a key is repeated, the last value counts.
///
/// # Errors
/// `Malformed`, naming the field.
pub fn read_register(body: &[u8]) -> Read<RegisterRequest<'_>> {
    let mut reader = Reader::new(body);
    let count = reader.i16("pairs")?;
    if !(0..=PAIRS_MAX).contains(&count) {
        return Err(Malformed::Value { field: "pairs", expected: "a count from 0 to 64", found: i64::from(count) });
    }
    let mut request = RegisterRequest {
        subject: "",
        client_type: ClientType::Other,
        app_code: "",
        client_id: "",
        group: "",
        is_new: true,
        room: "",
    };
    let (mut client_type, mut request_type) = (None, None);
    for _ in 0..count {
        let (key, value) = (reader.text("pairs")?, reader.text("pairs")?);
        match key {
            "subject" => request.subject = value,
            "appCode" => request.app_code = value,
            "clientId" => request.client_id = value,
            "consumerGroup" => request.group = value,
            "clientLDC" => request.room = value,
            "clientTypeCode" => client_type = Some(value),
            "requestType" => request_type = Some(value),
            _ => {}
        }
    }
    if let Some(value) = client_type {
        request.client_type = client_type_of(value)?;
    }
    if let Some(value) = request_type {
        request.is_new = number_of("requestType", value)? != 2;
    }
    reader.finish("register").map(|()| request)
}

fn number_of(field: &'static str, value: &str) -> Read<i64> {
    value.parse().map_err(|_| Malformed::Value { field, expected: "a number in text", found: -1 })
}

fn client_type_of(value: &str) -> Read<ClientType> {
    let field = "clientTypeCode";
    let number = number_of(field, value)?;
    let known = u8::try_from(number).ok().and_then(ClientType::of);
    known.ok_or(Malformed::Value { field, expected: "1, 2, 3 or 4", found: number })
}

/// Appends a request.
///
/// # Errors
/// `TooLarge` naming `pairs`.
pub fn put_register(out: &mut Vec<u8>, request: &RegisterRequest<'_>) -> Result<()> {
    let kind = request.client_type.number().to_string();
    let mut pairs = vec![
        ("subject", request.subject),
        ("clientTypeCode", kind.as_str()),
        ("clientId", request.client_id),
        ("consumerGroup", request.group),
        ("appCode", request.app_code),
        ("requestType", if request.is_new { "1" } else { "2" }),
    ];
    if !request.room.is_empty() {
        pairs.push(("clientLDC", request.room));
    }
    out.put_u16(pairs.len() as u16);
    pairs.iter().try_for_each(|(key, value)| put_text(out, "pairs", key).and_then(|()| put_text(out, "pairs", value)))
}

/// What a client may do at an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Send and pull.
    ReadWrite,
    /// Pull.
    Read,
    /// Send.
    Write,
    /// Nothing.
    Nothing,
}

const ACCESSES: [(Access, i8); 4] =
    [(Access::ReadWrite, 1), (Access::Read, 2), (Access::Write, 3), (Access::Nothing, 4)];

impl Access {
    /// The number on the wire.
    pub fn number(self) -> i8 {
        ACCESSES.iter().find(|(access, _)| *access == self).map_or(4, |(_, number)| *number)
    }

    /// The access of a number.
    pub fn of(number: i8) -> Option<Self> {
        ACCESSES.iter().find(|(_, known)| *known == number).map(|(access, _)| *access)
    }
}

/// A broker group: its name, and the address of its server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BrokerGroup {
    /// Its name.
    pub name: String,
    /// `host:port`.
    pub address: String,
    /// When it was last updated.
    pub updated_ms: i64,
    /// What clients may do there.
    pub access: Access,
}

/// The answer to a registration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RegisterAnswer {
    /// The time of the decision; [`REFUSED_TIMESTAMP`] if the request was refused.
    pub timestamp_ms: i64,
    /// As in the request.
    pub subject: String,
    /// As in the request.
    pub group: String,
    /// False switches a consumer off.
    pub is_online: bool,
    /// As in the request.
    pub client_type: ClientType,
    /// The broker groups to connect to.
    pub groups: Vec<BrokerGroup>,
}

/// Appends the body of an answer.
///
/// # Errors
/// `TooLarge` naming the field.
pub fn put_registered(out: &mut Vec<u8>, answer: &RegisterAnswer) -> Result<()> {
    at_most("groups", GROUPS_MAX, answer.groups.len())?;
    out.put_i64(answer.timestamp_ms);
    put_text(out, "subject", &answer.subject)?;
    put_text(out, "group", &answer.group)?;
    out.put_u8(u8::from(!answer.is_online));
    out.put_u8(answer.client_type.number());
    out.put_u16(answer.groups.len() as u16);
    for group in &answer.groups {
        put_text(out, "groups", &group.name)?;
        put_text(out, "address", &group.address)?;
        out.put_i64(group.updated_ms);
        out.put_i8(group.access.number());
    }
    Ok(())
}

/// Reads the body of an answer.
///
/// # Errors
/// `Malformed`, naming the field.
pub fn read_registered(body: &[u8]) -> Read<RegisterAnswer> {
    let mut reader = Reader::new(body);
    let timestamp_ms = reader.i64("timestamp_ms")?;
    let (subject, group) = (reader.text("subject")?.to_owned(), reader.text("group")?.to_owned());
    let is_online = !reader.flag("state")?;
    let kind = reader.u8("client_type")?;
    let unknown = Malformed::Value { field: "client_type", expected: "1, 2, 3 or 4", found: i64::from(kind) };
    let client_type = ClientType::of(kind).ok_or(unknown)?;
    let count = usize::from(reader.u16("groups")?);
    if count > GROUPS_MAX {
        return Err(Malformed::TooLarge { field: "groups", limit: GROUPS_MAX as u64, found: count as u64 });
    }
    let mut groups = Vec::new();
    for _ in 0..count {
        let (name, address) = (reader.text("groups")?.to_owned(), reader.text("address")?.to_owned());
        let (updated_ms, number) = (reader.i64("updated_ms")?, reader.i8("access")?);
        let unknown = Malformed::Value { field: "access", expected: "1, 2, 3 or 4", found: i64::from(number) };
        groups.push(BrokerGroup { name, address, updated_ms, access: Access::of(number).ok_or(unknown)? });
    }
    reader.finish("registered")?;
    Ok(RegisterAnswer { timestamp_ms, subject, group, is_online, client_type, groups })
}
