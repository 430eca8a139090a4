//! Access control: a listener with a token, and which peers may ask what, for how long, and how often.

#![cfg(test)]

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;

use crate::support::{Client, PATIENCE, Served, eventually, is_closed, metric, options, page, serve_with};
use delaymq_core::units::Millis;
use delaymq_core::wire::extension::errors::ErrorCode;
use delaymq_core::wire::extension::hello::{Hello, Welcome};
use delaymq_core::wire::extension::publish::{DueTime, PublishWriter};
use delaymq_core::wire::extension::{HELLO, PING, PUBLISH, STATUS};
use delaymq_core::wire::frame::{Header, answer, put_frame};
use delaymq_core::wire::qmq::message::{MessageParts, put_message};
use delaymq_core::wire::qmq::send::{SEND, put_sent, read_failures};
use delaymq_engine::{Durability, Store};
use delaymq_server::{AccessOptions, Network, Server, ServerOptions, TokenHash};
use socket2::{Domain, Socket, Type};

const TOKEN: &[u8] = b"the token";
const ADMIN: &str = "the administrator's token";

fn guarded(from: &[&str]) -> ServerOptions {
    let networks = from.iter().map(|text| Network::parse("server.qmq_clients_from", text).unwrap());
    let access = AccessOptions {
        token: Some(TokenHash::of(TOKEN)),
        admin_token: Some(TokenHash::of(ADMIN.as_bytes())),
        qmq_clients_from: networks.collect(),
    };
    ServerOptions { access, ..options() }
}

fn serve_guarded(from: &[&str]) -> Served {
    serve_with(guarded(from), Durability::Os)
}

/// A connection from another address of this machine.
fn connect_from(served: &Served, last: u8) -> Client {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((Ipv4Addr::new(127, 0, 0, last), 0)).into()).unwrap();
    socket.connect(&served.server.address().into()).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    Client::over(socket.into())
}

fn hello(token: &[u8]) -> impl FnOnce(&mut Vec<u8>) -> delaymq_core::error::Result<()> + '_ {
    move |out| Hello { version_min: 1, version_max: 1, client: "test", token }.put(out)
}

fn qmq_send() -> Vec<u8> {
    let mut message = Vec::new();
    let parts = MessageParts {
        created: Millis(1),
        due: None,
        subject: "order",
        message_id: "id",
        tags: &[],
        is_opaque: false,
        body: &[],
    };
    put_message(&mut message, &parts).unwrap();
    let mut body = Vec::new();
    put_sent(&mut body, &message);
    body
}

fn is_answered_as_qmq(client: &mut Client) {
    let (code, body) = client.ask(SEND, |out| {
        out.extend_from_slice(&qmq_send());
        Ok(())
    });
    assert_eq!((code, read_failures(&body).unwrap().len()), (answer::SUCCESS, 0));
}

fn is_turned_away(mut client: Client) {
    client.send(SEND, 0, |out| {
        out.extend_from_slice(&qmq_send());
        Ok(())
    });
    assert!(is_closed(&client.socket));
}

#[test]
fn a_stranger_says_hello_with_the_token_before_anything_else() {
    let served = serve_guarded(&[]);
    let mut client = served.connect();
    for command in [PING, STATUS, PUBLISH, 299] {
        client.refused(command, ErrorCode::Unauthorized, |_| Ok(()));
    }
    for wrong in [&b""[..], b"The token", ADMIN.as_bytes(), &[0; 1_024]] {
        client.refused(HELLO, ErrorCode::Unauthorized, hello(wrong));
        client.refused(PING, ErrorCode::Unauthorized, |_| Ok(()));
    }
    let welcome = Welcome::read(&client.done(HELLO, hello(TOKEN))).unwrap();
    assert_eq!(welcome.stream, served.store.stream());
    // From here on it has the room of everybody else.
    assert_eq!(client.publish("order", &[&vec![7; 100_000]], 3_600_000).len(), 1);
    is_answered_as_qmq(&mut client);
    assert_eq!(metric(&served, "wrong_tokens"), 4);
    assert_eq!(metric(&served, "unauthorized_requests"), 8);
    let (told, unlisted) = served.server.notices();
    let told: Vec<_> = told.iter().map(|one| (one.kind.word(), one.address, one.count)).collect();
    let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
    assert_eq!((told, unlisted), (vec![("unauthorized", here, 8), ("wrong_token", here, 4)], 0));
}

#[test]
fn what_is_sent_behind_the_hello_is_served() {
    let served = serve_guarded(&[]);
    let mut client = served.connect();
    let mut writer = PublishWriter::default();
    writer.push("order", DueTime::After(3_600_000), &[], &vec![7; 1 << 20]).unwrap();
    client.send(HELLO, 0, hello(TOKEN));
    client.send(PUBLISH, 0, |out| writer.put(out, false));
    assert_eq!([client.answer().1, client.answer().1], [0, 0]);
}

#[test]
fn a_qmq_client_is_answered_where_one_is_expected() {
    let served = serve_guarded(&["127.0.0.2/31", "::1"]);
    is_turned_away(served.connect());
    is_turned_away(connect_from(&served, 4));
    for last in [2, 3] {
        let mut client = connect_from(&served, last);
        is_answered_as_qmq(&mut client);
        assert_eq!(client.ask(77, |_| Ok(())).0, 3, "nobody knows it");
        // delaymq's own commands need the token there, too.
        client.refused(PING, ErrorCode::Unauthorized, |_| Ok(()));
        client.done(HELLO, hello(TOKEN));
        client.done(PING, |_| Ok(()));
    }
    assert_eq!(metric(&served, "turned_away_qmq_clients"), 2);
    eventually("the word of it", || metric(&served, "cut_off_connections") == 2);
    let (told, _) = served.server.notices();
    assert!(told.iter().all(|one| one.kind.word() != "cut_off"), "it is told once: {told:?}");
}

#[test]
fn an_address_that_sends_wrong_tokens_is_not_listened_to_and_others_are() {
    let served = serve_guarded(&[]);
    let mut bad = connect_from(&served, 2);
    for _ in 0..10 {
        bad.refused(HELLO, ErrorCode::Unauthorized, hello(b"wrong"));
    }
    bad.refused(HELLO, ErrorCode::Busy, hello(TOKEN));
    connect_from(&served, 2).refused(HELLO, ErrorCode::Busy, hello(TOKEN));
    served.connect().done(HELLO, hello(TOKEN));
    assert_eq!((metric(&served, "wrong_tokens"), metric(&served, "unheard_tokens")), (10, 2));
}

#[test]
fn a_stranger_has_16_kib_a_frame() {
    let served = serve_guarded(&[]);
    let padded = |bytes: usize| {
        let mut frame = Vec::new();
        let fill = bytes - 24 - 2 - 2 - 2 - 4 - TOKEN.len();
        let client = "x".repeat(fill);
        let hello = Hello { version_min: 1, version_max: 1, client: &client, token: TOKEN };
        put_frame(&mut frame, Header::request(HELLO, 1, 5), |out| hello.put(out)).unwrap();
        assert_eq!(frame.len(), bytes);
        frame
    };
    let mut whole = served.connect();
    whole.socket.write_all(&padded(16 << 10)).unwrap();
    assert_eq!(whole.answer().1, 0);
    // One byte more is known by its first bytes, and nothing of it is waited for.
    let mut over = served.connect();
    over.socket.write_all(&padded((16 << 10) + 1)[..24]).unwrap();
    assert!(is_closed(&over.socket));
    eventually("the count of it", || metric(&served, "cut_off_connections") == 1);
}

#[test]
fn a_stranger_that_gives_no_token_in_time_is_closed_whatever_it_sends() {
    let mut limited = guarded(&["127.0.0.2"]);
    limited.connection.first_request_ms_max = 300;
    let served = serve_with(limited, Durability::Os);
    let mut known = served.connect();
    known.done(HELLO, hello(TOKEN));
    let (silent, mut busy, mut halting) = (served.connect(), served.connect(), served.connect());
    let frame = {
        let mut frame = Vec::new();
        put_frame(&mut frame, Header::request(PING, 1, 5), |_| Ok(())).unwrap();
        frame
    };
    halting.socket.write_all(&frame[..9]).unwrap();
    let answered = (0..100_000).take_while(|_| busy.is_answered()).count();
    assert!(answered < 100_000, "it is answered for as long as it asks");
    assert!(is_closed(&silent.socket) && is_closed(&halting.socket));
    let silent = connect_from(&served, 2);
    assert!(is_closed(&silent.socket), "so is a QMQ client that says nothing");
    known.done(PING, |_| Ok(()));
}

#[test]
fn strangers_do_not_take_the_places_of_those_who_are_known() {
    let limited = ServerOptions { strangers_max: 3, strangers_per_address_max: 2, ..guarded(&["127.0.0.9"]) };
    let served = serve_with(limited, Durability::Os);
    let strangers: Vec<Client> = (0..2).map(|_| served.connect()).collect();
    eventually("both", || metric(&served, "stranger_connections") == 2);
    assert!(is_closed(&served.connect().socket), "a third of this address");
    let mut third = connect_from(&served, 2);
    eventually("the third", || metric(&served, "stranger_connections") == 3);
    assert!(is_closed(&connect_from(&served, 3).socket), "a fourth of all");
    is_answered_as_qmq(&mut connect_from(&served, 9));
    // Who has given the token makes room, and so does who has gone.
    third.done(HELLO, hello(TOKEN));
    assert_eq!(metric(&served, "stranger_connections"), 2);
    connect_from(&served, 3).done(HELLO, hello(TOKEN));
    drop(strangers);
    eventually("room again", || metric(&served, "stranger_connections") == 0);
    assert_eq!(metric(&served, "refused_connections"), 2);
}

#[test]
fn a_server_for_others_listens_where_they_are() {
    let all = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let open = ServerOptions {
        listen: all,
        http: Some(all),
        advertised_address: Some("queue.example:20801".to_owned()),
        ..guarded(&[])
    };
    let served = serve_with(open, Durability::Os);
    let here = |address: SocketAddr| SocketAddr::from((Ipv4Addr::LOCALHOST, address.port()));
    let mut client = Client::over(TcpStream::connect(here(served.server.address())).unwrap());
    client.refused(PING, ErrorCode::Unauthorized, |_| Ok(()));
    client.done(HELLO, hello(TOKEN));
    let http = here(served.server.http_address().unwrap());
    assert_eq!(page(http, "GET /meta/address"), (200, "queue.example:20801".to_owned()));
}

#[test]
fn a_server_on_ipv6_knows_its_networks() {
    let here = SocketAddr::from((Ipv6Addr::LOCALHOST, 0));
    if std::net::TcpListener::bind(here).is_err() {
        // The machine has no IPv6.
        return;
    }
    let advertised_address = Some("localhost:20801".to_owned());
    for (from, is_expected) in [("::1", true), ("::/127", true), ("2001:db8::/32", false), ("127.0.0.0/8", false)] {
        let open = ServerOptions { listen: here, advertised_address: advertised_address.clone(), ..guarded(&[from]) };
        let served = serve_with(open, Durability::Os);
        let mut client = served.connect();
        if is_expected {
            is_answered_as_qmq(&mut client);
        } else {
            is_turned_away(client);
        }
        let mut known = served.connect();
        known.done(HELLO, hello(TOKEN));
    }
    // No client of QMQ could split its address at the only colon.
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), crate::support::store_options(Durability::Os), &mut |_| {}).unwrap();
    let refused = Server::start(store, ServerOptions { listen: here, ..guarded(&[]) }).err().unwrap().to_string();
    assert!(refused.contains("advertised_address"), "{refused}");
}

const CONSUMER: &str = "clientId=host%40%401&subject=order&consumerGroup=g";

fn switch(served: &Served, parameters: &str, authorization: &str) -> (u16, String) {
    let http = served.server.http_address().unwrap();
    let field = if authorization.is_empty() { String::new() } else { format!("\r\nAuthorization: {authorization}") };
    crate::support::page_with(http, &format!("GET /onoffline?operation={parameters}"), &field)
}

fn told(message: &str) -> (u16, String) {
    (200, format!("{{\"status\":0,\"message\":\"{message}\",\"data\":null}}"))
}

#[test]
fn consumers_are_switched_by_the_administrator_alone() {
    let served = serve_guarded(&[]);
    let query = || switch(&served, &format!("query&{CONSUMER}"), "");
    let off = format!("update&{CONSUMER}&state=1");
    assert_eq!(query(), told("ON"));
    for refused in ["", "Bearer", "Basic dXNlcjpwYXNz", "Bearer wrong", "Bearer the token"] {
        assert_eq!(switch(&served, &off, refused).0, 401, "{refused}");
    }
    assert_eq!((query(), metric(&served, "wrong_tokens")), (told("ON"), 2));
    let admin = format!("bearer  {ADMIN}");
    assert_eq!(switch(&served, &off, &admin), told("OFF"));
    assert_eq!((query(), metric(&served, "switched_off_consumers")), (told("OFF"), 1));
    assert_eq!(switch(&served, &off, &admin), told("OFF"), "it is so already");
    for bad in [
        format!("update&{CONSUMER}"),
        format!("update&{CONSUMER}&state=2"),
        "update&clientId=x&subject=order&state=1".to_owned(),
        "update&clientId=a%22%0A&subject=order&consumerGroup=g&state=1".to_owned(),
        "delete".to_owned(),
    ] {
        let (status, body) = switch(&served, &bad, &admin);
        assert!(
            status == 400 && body.starts_with("{\"status\":-1,") && !body.contains(['\n', '\u{1}']),
            "{bad}: {body}"
        );
    }
    assert_eq!(switch(&served, &format!("update&{CONSUMER}&state=0"), &admin), told("ON"));
    assert_eq!(query(), told("ON"));
    let (notices, _) = served.server.notices();
    let switched: Vec<_> = notices.iter().filter(|one| one.kind.word() == "consumer_switched").collect();
    assert_eq!(
        switched.iter().map(|one| one.detail.as_str()).collect::<Vec<_>>(),
        ["OFF host@@1 order g", "ON host@@1 order g"]
    );
    for _ in 0..10 {
        switch(&served, &off, "Bearer guess");
    }
    assert_eq!(switch(&served, &off, &admin).0, 429, "nobody there is listened to");
    assert_eq!(query(), told("ON"), "who only asks is answered");
}

#[test]
fn nobody_is_an_administrator_without_a_token_for_it() {
    let served = crate::support::serve();
    assert_eq!(switch(&served, &format!("update&{CONSUMER}&state=1"), "Bearer x").0, 403);
}

#[test]
fn what_is_switched_off_stays_so_over_a_restart_or_is_not_switched() {
    let kept = |path: &Path| ServerOptions { switched_off: Some(path.to_owned()), ..guarded(&[]) };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("switched_off");
    let off = format!("update&{CONSUMER}&state=1");
    let admin = format!("Bearer {ADMIN}");
    let first = serve_with(kept(&path), Durability::Os);
    assert_eq!(switch(&first, &off, &admin), told("OFF"));
    drop(first);
    let second = serve_with(kept(&path), Durability::Os);
    assert_eq!(switch(&second, &format!("query&{CONSUMER}"), ""), told("OFF"));
    // Where it cannot be kept, it is not done.
    let third = serve_with(kept(&folder.path().join("none/switched_off")), Durability::Os);
    let (status, body) = switch(&third, &off, &admin);
    assert!(status == 503 && body.contains("none/switched_off"), "{body}");
    assert_eq!(switch(&third, &format!("query&{CONSUMER}"), ""), told("ON"));
    std::fs::write(&path, "damaged").unwrap();
    let refused = Server::start(Arc::clone(&third.store), kept(&path)).err().unwrap().to_string();
    assert!(refused.contains("switched_off is damaged"), "{refused}");
}
