//! The heads of plain HTTP requests.

use delaymq_core::wire::http::{HTTP_HEAD_BYTES_MAX, HttpFault, put_http, read_http};

use crate::verdict::{Judged, Verdict, holds, same};

pub(super) fn judge(input: &[u8]) -> Judged {
    let request = match read_http(input) {
        Ok(Some(request)) => request,
        Ok(None) => {
            holds("no more is waited for than a head", input.len() < HTTP_HEAD_BYTES_MAX)?;
            return Ok(Verdict::Refused);
        }
        Err(fault) => return refused(fault),
    };
    let end = request.head_bytes;
    holds("a head within its limit", end <= HTTP_HEAD_BYTES_MAX && end <= input.len())?;
    let head = input.get(..end).unwrap_or_default();
    same("the head alone", &read_http(head), &Ok(Some(request.clone())))?;
    for cut in 0..end {
        same("a part of a head", &read_http(head.get(..cut).unwrap_or_default()), &Ok(None))?;
    }
    holds("a path", request.path.starts_with('/') && !request.path.contains(['?', ' ']))?;
    for pair in request.query.split('&').filter(|_| !request.query.contains(['%', '+'])) {
        let name = pair.split_once('=').map_or(pair, |(name, _)| name);
        holds("plain parameters are found", request.parameter(name).is_some())?;
    }
    let has_break = |text: &str| text.bytes().any(|byte| byte.is_ascii_control() && byte != b'\t');
    for name in ["host", "Authorization", "X-Api-Token", "connection", "content-length"] {
        holds("a value on one line", request.header(name).is_none_or(|value| !has_break(value)))?;
    }
    holds("no body", request.header("transfer-encoding").is_none())?;
    Ok(Verdict::Taken)
}

fn refused(fault: HttpFault) -> Judged {
    let mut out = Vec::new();
    put_http(&mut out, fault.status(), "text/plain", b"", false);
    holds("an answer", out.starts_with(b"HTTP/1.1 4") || out.starts_with(b"HTTP/1.1 505"))?;
    Ok(Verdict::Refused)
}
