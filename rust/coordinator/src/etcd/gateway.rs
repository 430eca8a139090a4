//! HTTP requests to the members of an etcd cluster, one member after the other.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::Value;
use ureq::tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Body, Timeout};

use super::messages::WatchLine;
use super::options::{EtcdOptions, EtcdTls};
use crate::CoordinatorError;

/// The most bytes of an answer. A register is a few hundred.
const ANSWER_BYTES_MAX: u64 = 1 << 20;

/// See the module.
#[derive(Debug)]
pub(super) struct Gateway {
    agent: Agent,
    endpoints: Vec<String>,
    /// The endpoint that answered last. The next request begins with it.
    preferred: AtomicUsize,
    timeout: Duration,
}

impl Gateway {
    pub(super) fn new(options: &EtcdOptions) -> Result<Self, CoordinatorError> {
        let invalid =
            |message: &str| CoordinatorError::InvalidOption { option: "endpoints", message: message.to_owned() };
        if options.endpoints.is_empty() {
            return Err(invalid("there is none"));
        }
        let is_address = |endpoint: &&String| endpoint.starts_with("http://") || endpoint.starts_with("https://");
        if let Some(other) = options.endpoints.iter().find(|endpoint| !is_address(endpoint)) {
            return Err(invalid(&format!("{other} does not begin with http:// or https://")));
        }
        if options.tls.is_none() && options.endpoints.iter().any(|endpoint| endpoint.starts_with("https://")) {
            return Err(invalid("https:// needs the certificates of an authority"));
        }
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .timeout_connect(Some(options.timeout / 2));
        if let Some(tls) = &options.tls {
            config = config.tls_config(tls_config(tls)?);
        }
        let endpoints = options.endpoints.iter().map(|endpoint| endpoint.trim_end_matches('/').to_owned()).collect();
        let (agent, preferred) = (config.build().new_agent(), AtomicUsize::new(0));
        Ok(Self { agent, endpoints, preferred, timeout: options.timeout })
    }

    /// Asks one endpoint after the other until one does what it is asked. A transaction may so be sent twice. That does no harm:
    /// its second try finds its own value, under a later version.
    pub(super) fn ask<T: DeserializeOwned>(&self, path: &str, request: &Value) -> Result<T, CoordinatorError> {
        self.try_each(|endpoint| self.post(endpoint, path, request))
    }

    /// Waits for an event of a watch. False if none came in time, or the watch has ended.
    pub(super) fn watch(&self, request: &Value, at_most: Duration) -> Result<bool, CoordinatorError> {
        self.try_each(|endpoint| self.wait_for_event(endpoint, request, at_most))
    }

    fn try_each<T>(&self, ask: impl Fn(&str) -> Result<T, Failure>) -> Result<T, CoordinatorError> {
        let (mut reasons, mut refusal) = (Vec::new(), None);
        let (first, count) = (self.preferred.load(Ordering::Relaxed), self.endpoints.len());
        for place in (0..count).map(|offset| first.wrapping_add(offset) % count) {
            let Some(endpoint) = self.endpoints.get(place) else { continue };
            match ask(endpoint) {
                Ok(answer) => {
                    self.preferred.store(place, Ordering::Relaxed);
                    return Ok(answer);
                }
                Err(Failure::Answered(error)) => refusal = Some(error),
                Err(Failure::Transport(error)) => reasons.push(format!("{endpoint}: {error}")),
            }
        }
        Err(refusal.unwrap_or(CoordinatorError::Unreachable { reasons }))
    }

    fn post<T: DeserializeOwned>(&self, endpoint: &str, path: &str, request: &Value) -> Result<T, Failure> {
        let mut body = self.send(endpoint, path, request, self.timeout)?;
        let text = body.with_config().limit(ANSWER_BYTES_MAX).read_to_string().map_err(Failure::Transport)?;
        serde_json::from_str(&text).map_err(|error| {
            Failure::Answered(CoordinatorError::Malformed {
                place: format!("{endpoint}{path}"),
                expected: "an answer of etcd's JSON gateway".to_owned(),
                found: format!("{text:.200} ({error})"),
            })
        })
    }

    fn send(&self, endpoint: &str, path: &str, request: &Value, timeout: Duration) -> Result<Body, Failure> {
        let call = self.agent.post(format!("{endpoint}{path}")).config().timeout_global(Some(timeout)).build();
        let response = call.send(request.to_string()).map_err(Failure::Transport)?;
        let (parts, mut body) = response.into_parts();
        if parts.status.is_success() {
            return Ok(body);
        }
        let message = body.with_config().limit(ANSWER_BYTES_MAX).read_to_string().unwrap_or_default();
        let (endpoint, status) = (endpoint.to_owned(), parts.status.as_u16());
        Err(Failure::Answered(CoordinatorError::Refused { endpoint, status, message: format!("{message:.300}") }))
    }

    fn wait_for_event(&self, endpoint: &str, request: &Value, at_most: Duration) -> Result<bool, Failure> {
        let body = match self.send(endpoint, "/v3/watch", request, at_most) {
            Err(Failure::Transport(ureq::Error::Timeout(Timeout::Global))) => return Ok(false),
            other => other?,
        };
        for line in BufReader::new(body.into_reader()).lines() {
            let Ok(line) = line else { return Ok(false) };
            match serde_json::from_str::<WatchLine>(&line) {
                Ok(line) if !line.result.events.is_empty() => return Ok(true),
                Ok(line) if line.result.canceled => return Ok(true),
                _ => {}
            }
        }
        Ok(false)
    }
}

enum Failure {
    /// The endpoint has answered, but not with what was asked for.
    Answered(CoordinatorError),
    Transport(ureq::Error),
}

fn tls_config(tls: &EtcdTls) -> Result<TlsConfig, CoordinatorError> {
    let authorities = certificates("authorities", &tls.authorities)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = TlsConfig::builder()
        .unversioned_rustls_crypto_provider(provider)
        .root_certs(RootCerts::new_with_certs(&authorities));
    let Some((certificate, key)) = &tls.client else { return Ok(config.build()) };
    let chain = certificates("client", certificate)?;
    let text = read("client", key)?;
    let key = PrivateKey::from_pem(&text).map_err(|error| CoordinatorError::InvalidOption {
        option: "client",
        message: format!("{}: {error}", key.display()),
    })?;
    Ok(config.client_cert(Some(ClientCert::new_with_certs(&chain, key))).build())
}

fn read(option: &'static str, path: &Path) -> Result<Vec<u8>, CoordinatorError> {
    std::fs::read(path)
        .map_err(|error| CoordinatorError::InvalidOption { option, message: format!("{}: {error}", path.display()) })
}

fn certificates(option: &'static str, path: &Path) -> Result<Vec<Certificate<'static>>, CoordinatorError> {
    let text = read(option, path)?;
    let found: Vec<Certificate<'static>> = parse_pem(&text)
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        })
        .collect();
    if found.is_empty() {
        let message = format!("{} has no certificate in PEM", path.display());
        return Err(CoordinatorError::InvalidOption { option, message });
    }
    Ok(found)
}
