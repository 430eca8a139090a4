//! The registered clients (producers, delay producers and consumers), and the consumers that are switched off. It
//! answers `CLIENT_REGISTER` and `/meta/address`, in place of QMQ's metaserver: there is one broker group, and this
//! server is all of it, for messages due now and later.
//!
//! Clients repeat their registration every minute; without repetition it is forgotten. The caller saves the states
//! of consumers: see [`Registry::switched_off`].

use std::collections::{BTreeSet, HashMap};

use super::register::{Access, BrokerGroup, ClientType, REFUSED_TIMESTAMP, RegisterAnswer, RegisterRequest};
use crate::error::{Error, Result};
use crate::record::limits::{at_most, check_name, check_qmq_subject, group_subject};
use crate::units::Millis;

/// Means every client, or every subject and group of one client.
pub const EVERYBODY: &str = "*";

/// The options of a registry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RegistryOptions {
    /// The name of the group of brokers.
    pub broker_group: String,
    /// Where clients reach this server, as `host:port`.
    pub address: String,
    /// How long a registration lives without repetition, in milliseconds. Clients repeat it every minute.
    pub silent_ms_max: u64,
    /// The most registrations that are kept. Further clients are answered, but not recorded.
    pub clients_max: usize,
    /// The most consumers that may be switched off.
    pub switched_off_max: usize,
}

impl RegistryOptions {
    /// The usual limits.
    ///
    /// # Errors
    /// `InvalidArgument` naming `advertised_address`: clients split it at its only colon.
    pub fn new(address: &str) -> Result<Self> {
        let port = address.split_once(':').filter(|(host, _)| is_host(host)).map(|(_, port)| port);
        if port.and_then(|port| port.parse::<u16>().ok()).is_none_or(|port| port == 0) {
            let expected = "host:port, where the host has no colon".to_owned();
            let found = address.chars().take(200).collect();
            return Err(Error::InvalidArgument { argument: "advertised_address", expected, found });
        }
        Ok(Self {
            broker_group: "delaymq".to_owned(),
            address: address.to_owned(),
            silent_ms_max: 180_000,
            clients_max: 100_000,
            switched_off_max: 10_000,
        })
    }
}

fn is_host(host: &str) -> bool {
    !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_'))
}

/// The key of a registration.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct ClientKey {
    subject: String,
    client_type: ClientType,
    group: String,
    client_id: String,
}

#[derive(Clone, Debug)]
struct Client {
    app_code: String,
    room: String,
    seen: Millis,
}

/// A consumer of one subject and group, or many of them by [`EVERYBODY`].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ConsumerKey {
    /// The client.
    pub client_id: String,
    /// The subject, which is never a retry subject.
    pub subject: String,
    /// The group.
    pub group: String,
}

impl ConsumerKey {
    fn new(client_id: &str, subject: &str, group: &str) -> Self {
        Self { client_id: client_id.to_owned(), subject: subject.to_owned(), group: group.to_owned() }
    }
}

/// A registered client.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Registered<'a> {
    /// The group that it consumes for; empty for producers.
    pub group: &'a str,
    /// Its id.
    pub client_id: &'a str,
    /// Its application.
    pub app_code: &'a str,
    /// Its room, as the client registered it.
    pub room: &'a str,
}

/// The registry; see the module.
#[derive(Debug)]
pub struct Registry {
    options: RegistryOptions,
    clients: HashMap<ClientKey, Client>,
    switched_off: BTreeSet<ConsumerKey>,
    began: Millis,
    /// The latest time in an answer.
    told: Millis,
    unrecorded: u64,
}

impl Registry {
    /// An empty registry. `switched_off` is the saved state of an earlier one.
    pub fn new(options: RegistryOptions, switched_off: BTreeSet<ConsumerKey>, now: Millis) -> Self {
        Self { options, clients: HashMap::new(), switched_off, began: now, told: now, unrecorded: 0 }
    }

    /// The answer to `/meta/address`.
    pub fn address(&self) -> &str {
        &self.options.address
    }

    /// Records a registration or its repetition, and answers it. The time in the answers never goes back: a client
    /// that sees it go back ignores all later states.
    pub fn register(&mut self, request: &RegisterRequest<'_>, now: Millis) -> RegisterAnswer {
        self.told = self.told.max(now);
        let mut answer = RegisterAnswer {
            timestamp_ms: self.told.0.cast_signed(),
            subject: request.subject.to_owned(),
            group: request.group.to_owned(),
            is_online: true,
            client_type: request.client_type,
            groups: Vec::new(),
        };
        if !is_sound(request) {
            answer.timestamp_ms = REFUSED_TIMESTAMP;
            answer.is_online = false;
            return answer;
        }
        self.note(request, now);
        answer.is_online = !self.is_switched_off(request.client_id, real_subject(request.subject), request.group);
        answer.groups.push(BrokerGroup {
            name: self.options.broker_group.clone(),
            address: self.options.address.clone(),
            updated_ms: self.began.0.cast_signed(),
            access: Access::ReadWrite,
        });
        answer
    }

    fn note(&mut self, request: &RegisterRequest<'_>, now: Millis) {
        let key = ClientKey {
            subject: request.subject.to_owned(),
            client_type: request.client_type,
            group: request.group.to_owned(),
            client_id: request.client_id.to_owned(),
        };
        if self.clients.len() >= self.options.clients_max && !self.clients.contains_key(&key) {
            self.unrecorded = self.unrecorded.saturating_add(1);
            return;
        }
        let client = Client { app_code: request.app_code.to_owned(), room: request.room.to_owned(), seen: now };
        self.clients.insert(key, client);
    }

    /// Forgets clients that were silent for too long; returns their number.
    pub fn expire(&mut self, now: Millis) -> usize {
        let before = self.clients.len();
        let silent_ms_max = self.options.silent_ms_max;
        self.clients.retain(|_, client| now.since(client.seen) < silent_ms_max);
        before.saturating_sub(self.clients.len())
    }

    /// How many registrations there are.
    pub fn len(&self) -> usize {
        self.clients.len()
    }

    /// True if no client is registered.
    pub fn is_empty(&self) -> bool {
        self.clients.is_empty()
    }

    /// The number of registered clients of this type.
    pub fn count(&self, client_type: ClientType) -> usize {
        self.clients.keys().filter(|key| key.client_type == client_type).count()
    }

    /// The number of registrations that were answered but not kept, because the registry was full.
    pub fn unrecorded(&self) -> u64 {
        self.unrecorded
    }

    /// The consumers of a subject, by group.
    pub fn consumers(&self, subject: &str) -> Vec<Registered<'_>> {
        let consumers =
            self.clients.iter().filter(|(key, _)| key.client_type == ClientType::Consumer && key.subject == subject);
        let mut told: Vec<_> = consumers
            .map(|(key, client)| Registered {
                group: &key.group,
                client_id: &key.client_id,
                app_code: &client.app_code,
                room: &client.room,
            })
            .collect();
        told.sort_unstable();
        told
    }

    /// Switches a consumer on or off. The client [`EVERYBODY`] means each client of that subject and group; the
    /// subject and group [`EVERYBODY`] mean all consumers of that client. Returns true if that changed the state.
    ///
    /// # Errors
    /// `InvalidArgument` naming `clientId`, `subject` or `consumerGroup`; `TooLarge` naming `switched_off` if the
    /// maximum is switched off already.
    pub fn switch(&mut self, client_id: &str, subject: &str, group: &str, on: bool) -> Result<bool> {
        if client_id != EVERYBODY {
            check_name("clientId", client_id)?;
        }
        let is_whole_client = subject == EVERYBODY && group == EVERYBODY && client_id != EVERYBODY;
        if !is_whole_client {
            check_name("subject", subject)?;
            check_name("consumerGroup", group)?;
            refuse_everybody("subject", subject)?;
            refuse_everybody("consumerGroup", group)?;
        }
        let key = ConsumerKey::new(client_id, subject, group);
        if on {
            return Ok(self.switched_off.remove(&key));
        }
        if self.switched_off.contains(&key) {
            return Ok(false);
        }
        at_most("switched_off", self.options.switched_off_max, self.switched_off.len().saturating_add(1))?;
        Ok(self.switched_off.insert(key))
    }

    /// True if a consumer is switched off, by itself or together with others.
    pub fn is_switched_off(&self, client_id: &str, subject: &str, group: &str) -> bool {
        !self.switched_off.is_empty()
            && [(client_id, subject, group), (EVERYBODY, subject, group), (client_id, EVERYBODY, EVERYBODY)]
                .into_iter()
                .any(|(client_id, subject, group)| {
                    self.switched_off.contains(&ConsumerKey::new(client_id, subject, group))
                })
    }

    /// True if a consumer that pulls from this subject is switched off. The subject may be its group's retry
    /// subject.
    pub fn may_not_pull(&self, client_id: &str, subject: &str, group: &str) -> bool {
        self.is_switched_off(client_id, real_subject(subject), group)
    }

    /// The switched-off consumers, to be saved over a restart.
    pub fn switched_off(&self) -> &BTreeSet<ConsumerKey> {
        &self.switched_off
    }
}

fn refuse_everybody(argument: &'static str, name: &str) -> Result<()> {
    if name != EVERYBODY {
        return Ok(());
    }
    let expected = "a name, or \"*\" for subject and consumerGroup of one client".to_owned();
    Err(Error::InvalidArgument { argument, expected, found: format!("{name:?}") })
}

/// The subject of a retry subject: a consumer is on or off for both.
fn real_subject(subject: &str) -> &str {
    group_subject(subject).map_or(subject, |parts| parts.subject)
}

/// A client without an id or group may be answered; a client with a bad name may not.
fn is_sound(request: &RegisterRequest<'_>) -> bool {
    let is_name = |name: &str| name.is_empty() || check_name("name", name).is_ok();
    check_qmq_subject("subject", request.subject).is_ok()
        && is_name(request.group)
        && is_name(request.client_id)
        && request.app_code.len() <= 400
        && request.room.len() <= 400
}

#[cfg(test)]
#[path = "registry_tests.rs"]
mod tests;
