//! The few plain HTTP/1.1 requests that a server answers in addition to its frames. Heads are read, bodies are
//! refused. Percent escapes are decoded when a part is read.

use std::borrow::Cow;

use bytes::BufMut;

/// The largest head, in bytes.
pub const HTTP_HEAD_BYTES_MAX: usize = 8 << 10;
/// The most header fields.
const HEADERS_MAX: usize = 64;

/// Why a request is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HttpFault {
    /// The bytes are not a request.
    BadRequest,
    /// It has a body, which no route takes.
    BodyRefused,
    /// Its head is over the limit.
    HeadTooLarge,
    /// It is of another version than 1.0 or 1.1.
    Version,
}

impl HttpFault {
    /// The status of the answer.
    pub const fn status(self) -> u16 {
        match self {
            Self::BadRequest => 400,
            Self::BodyRefused => 413,
            Self::HeadTooLarge => 431,
            Self::Version => 505,
        }
    }
}

/// A request, borrowed from what was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HttpRequest<'a> {
    /// `GET`, `POST`, …
    pub method: &'a str,
    /// The path before the question mark, not decoded.
    pub path: &'a str,
    /// The query after the question mark, not decoded.
    pub query: &'a str,
    /// True if more requests may follow on the connection.
    pub keeps_alive: bool,
    /// Bytes of the head.
    pub head_bytes: usize,
    headers: Vec<(&'a str, &'a str)>,
}

/// Reads the request at the front of `bytes`; `None` if its head is incomplete.
///
/// # Errors
/// The reason of the refusal; the caller closes the connection after the answer.
pub fn read_http(bytes: &[u8]) -> Result<Option<HttpRequest<'_>>, HttpFault> {
    const END: &[u8] = b"\r\n\r\n";
    let seen = bytes.get(..HTTP_HEAD_BYTES_MAX).unwrap_or(bytes);
    let Some(end) = seen.windows(END.len()).position(|window| window == END) else {
        let is_over = bytes.len() >= HTTP_HEAD_BYTES_MAX;
        return if is_over { Err(HttpFault::HeadTooLarge) } else { Ok(None) };
    };
    let head = std::str::from_utf8(seen.get(..end).unwrap_or_default()).map_err(|_| HttpFault::BadRequest)?;
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(target), Some(version), None) = (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(HttpFault::BadRequest);
    };
    if method.is_empty() || !method.bytes().all(|byte| byte.is_ascii_uppercase()) || !target.starts_with('/') {
        return Err(HttpFault::BadRequest);
    }
    let is_later = match version {
        "HTTP/1.1" => true,
        "HTTP/1.0" => false,
        _ => return Err(HttpFault::Version),
    };
    let headers = read_headers(lines)?;
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut request =
        HttpRequest { method, path, query, keeps_alive: is_later, head_bytes: end.saturating_add(END.len()), headers };
    let has_body = request.header("content-length").is_some_and(|length| length != "0");
    if has_body || request.header("transfer-encoding").is_some() {
        return Err(HttpFault::BodyRefused);
    }
    if let Some(connection) = request.header("connection") {
        request.keeps_alive = if is_later {
            !connection.eq_ignore_ascii_case("close")
        } else {
            connection.eq_ignore_ascii_case("keep-alive")
        };
    }
    Ok(Some(request))
}

fn read_headers<'a>(lines: std::str::Split<'a, &str>) -> Result<Vec<(&'a str, &'a str)>, HttpFault> {
    let mut headers = Vec::new();
    for line in lines {
        let (name, value) = line.split_once(':').ok_or(HttpFault::BadRequest)?;
        let is_name =
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
        let is_value = !value.bytes().any(|byte| byte.is_ascii_control() && byte != b'\t');
        if !is_name || !is_value {
            return Err(HttpFault::BadRequest);
        }
        if headers.len() >= HEADERS_MAX {
            return Err(HttpFault::HeadTooLarge);
        }
        headers.push((name, value.trim()));
    }
    Ok(headers)
}

impl<'a> HttpRequest<'a> {
    /// The value of the first field of this name, in any case of letters.
    pub fn header(&self, name: &str) -> Option<&'a str> {
        self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| *value)
    }

    /// The value of the first parameter of this name; `None` if there is none, or it is not UTF-8.
    pub fn parameter(&self, name: &str) -> Option<Cow<'a, str>> {
        let pairs = self.query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        let mut named = pairs.filter(|(key, _)| resolved(key).is_some_and(|key| key == name));
        named.next().and_then(|(_, value)| resolved(value))
    }
}

/// Text with its percent escapes and plus signs decoded.
fn resolved(part: &str) -> Option<Cow<'_, str>> {
    if !part.contains(['%', '+']) {
        return Some(Cow::Borrowed(part));
    }
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => (digit(rest.next()?)? << 4) | digit(rest.next()?)?,
            other => other,
        });
    }
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

fn digit(letter: u8) -> Option<u8> {
    char::from(letter).to_digit(16).map(|digit| digit as u8)
}

/// Appends an answer.
pub fn put_http(out: &mut Vec<u8>, status: u16, content_type: &str, body: &[u8], keeps_alive: bool) {
    let connection = if keeps_alive { "keep-alive" } else { "close" };
    let head = format!(
        "HTTP/1.1 {status} {}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\nConnection: {connection}\r\n\r\n",
        reason_of(status),
        body.len()
    );
    out.put_slice(head.as_bytes());
    out.put_slice(body);
}

const fn reason_of(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        413 => "Content Too Large",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        503 => "Service Unavailable",
        505 => "HTTP Version Not Supported",
        _ => "Answer",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Result<Option<HttpRequest<'_>>, HttpFault> {
        read_http(text.as_bytes())
    }

    #[test]
    fn a_java_client_asks_for_the_address() {
        let text = "GET /meta/address HTTP/1.1\r\nHost: q:20880\r\nuser-agent: Java/17\r\n\r\nGET /next";
        let request = read(text).unwrap().unwrap();
        assert_eq!((request.method, request.path, request.query), ("GET", "/meta/address", ""));
        assert_eq!((request.header("User-Agent"), request.keeps_alive), (Some("Java/17"), true));
        assert_eq!(&text[request.head_bytes..], "GET /next");
        for cut in 0..request.head_bytes {
            assert_eq!(read(&text[..cut]), Ok(None), "{cut}");
        }
    }

    #[test]
    fn parameters_are_resolved_and_found_by_their_whole_name() {
        let text = "GET /onoffline?operation=query&clientId=h%40%40x&subject=a+b&empty&bad=%zz&cut=%4 HTTP/1.0\r\n\r\n";
        let request = read(text).unwrap().unwrap();
        let told = ["operation", "clientId", "subject", "empty", "bad", "cut", "client"]
            .map(|name| request.parameter(name).map(Cow::into_owned));
        let expected = [Some("query"), Some("h@@x"), Some("a b"), Some(""), None, None, None];
        assert_eq!(told, expected.map(|value| value.map(str::to_owned)));
        assert!(!request.keeps_alive);
    }

    #[test]
    fn what_is_no_request_is_refused_by_its_status() {
        for (text, status) in [
            ("GET / HTTP/2\r\n\r\n", 505),
            ("GET /\r\n\r\n", 400),
            ("GET  / HTTP/1.1\r\n\r\n", 400),
            (" / HTTP/1.1\r\n\r\n", 400),
            ("get / HTTP/1.1\r\n\r\n", 400),
            ("GET http HTTP/1.1\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nno colon\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\na b: c\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\n: c\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\na: b\u{1}\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello", 413),
            ("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 413),
        ] {
            assert_eq!(read(text).unwrap_err().status(), status, "{text}");
        }
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(HEADERS_MAX + 1));
        assert_eq!(read(&many), Err(HttpFault::HeadTooLarge));
        assert_eq!(read(&"x".repeat(HTTP_HEAD_BYTES_MAX)), Err(HttpFault::HeadTooLarge));
        assert_eq!(read_http(b"GET /\xff HTTP/1.1\r\n\r\n"), Err(HttpFault::BadRequest));
        let empty = "POST / HTTP/1.1\r\nContent-Length: 0\r\nConnection: Close\r\n\r\n";
        assert!(!read(empty).unwrap().unwrap().keeps_alive);
    }

    #[test]
    fn a_client_of_either_version_says_whether_it_goes_on() {
        for (version, connection, keeps_alive) in [
            ("1.1", "close", false),
            ("1.1", "keep-alive", true),
            ("1.0", "Keep-Alive", true),
            ("1.0", "close", false),
            ("1.0", "upgrade", false),
        ] {
            let text = format!("GET / HTTP/{version}\r\nConnection: {connection}\r\n\r\n");
            let request = read(&text).unwrap().unwrap();
            assert_eq!(request.keeps_alive, keeps_alive, "{version} {connection}");
            let mut out = Vec::new();
            put_http(&mut out, 404, "text/plain", b"", request.keeps_alive);
            let answered = String::from_utf8(out).unwrap();
            assert_eq!(answered.contains("Connection: keep-alive\r\n"), keeps_alive, "{answered}");
            assert_eq!(answered.contains("Connection: close\r\n"), !keeps_alive, "{answered}");
        }
    }

    #[test]
    fn an_answer_says_how_long_it_is() {
        let mut out = Vec::new();
        put_http(&mut out, 200, "text/plain", b"127.0.0.1:20801", false);
        let expected = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 15\r\nConnection: close\r\n\r\n\
                        127.0.0.1:20801";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), query in "[a-z%+=&0-9]{0,40}") {
            let _ = read_http(&bytes);
            let text = format!("GET /?{query} HTTP/1.1\r\n\r\n");
            let request = read(&text).unwrap().unwrap();
            let _ = request.parameter("a");
        }
    }
}
