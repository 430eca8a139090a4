//! The administrator's token, which requests that change something have as a bearer.

use std::net::IpAddr;

use delaymq_core::units::Millis;
use delaymq_core::wire::http::HttpRequest;

use crate::access::control::{AccessControl, Verdict};

/// Why a client may not change anything: the status and the words; `None` for the administrator.
pub(super) fn refusal(
    access: &AccessControl,
    request: &HttpRequest<'_>,
    address: IpAddr,
    now: Millis,
) -> Option<(u16, &'static str)> {
    if !access.has_administrator() {
        return Some((403, "this server has no administrator's token, so nothing is changed here"));
    }
    let token = request.header("authorization").and_then(|value| value.split_once(' '));
    let token = token.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")).map(|(_, token)| token.trim());
    let Some(token) = token else {
        return Some((401, "the administrator's token is required, as a bearer"));
    };
    match access.administer(address, token.as_bytes(), now) {
        Verdict::Right => None,
        Verdict::Wrong => Some((401, "the token is wrong")),
        Verdict::Unheard => Some((429, "too many wrong tokens came from this address")),
    }
}
