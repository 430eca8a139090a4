//! The pages of a group of copies, on servers and standbys.

#![cfg(test)]

use std::net::SocketAddr;
use std::sync::Arc;

use delaymq_engine::{Durability, Store};
use delaymq_server::{AccessOptions, Server, ServerOptions, Standby, TokenHash};

use crate::prometheus::must_be_metrics;
use crate::support::group::{Group, listening, primary_at, standby_with};
use crate::support::{options, page, page_with, serve, store_options};

const ADMIN: &str = "the administrator's token";
const NODE: &str = "000102030405060708090a0b0c0d0e0f";

fn administered() -> ServerOptions {
    let access = AccessOptions { admin_token: Some(TokenHash::of(ADMIN.as_bytes())), ..AccessOptions::default() };
    ServerOptions { access, ..options() }
}

fn post(http: SocketAddr, target: &str, token: &str) -> (u16, String) {
    let field = if token.is_empty() { String::new() } else { format!("\r\nAuthorization: Bearer {token}") };
    page_with(http, &format!("POST {target}"), &field)
}

/// Requests without what they need, or with something else.
const MALFORMED: [&str; 25] = [
    "add",
    "add?node=000102030405060708090a0b0c0d0e0f",
    "remove",
    "remove?node=00",
    "remove?node=000102030405060708090a0b0c0d0e0f&accept_loss=yes",
    "promote?node=000102030405060708090a0b0c0d0e0f&accept_loss=true",
    "promote",
    "switchover",
    "switchover?node=",
    "switchover?node=00",
    "switchover?node=g00102030405060708090a0b0c0d0e0f",
    "switchover?coordinator=1",
    "confirm",
    "confirm?coordinator=",
    "confirm?coordinator=-1",
    "confirm?coordinator=+1",
    "confirm?coordinator=%2B1",
    "confirm?coordinator=18446744073709551616",
    "confirm?coordinator=0x1",
    "min_copies",
    "min_copies?copies=",
    "min_copies?copies=+1",
    "min_copies?copies=-1",
    "min_copies?copies=two",
    "min_copies?copies=18446744073709551616",
];

fn must_serve(http: SocketAddr, group: &Group) {
    assert_eq!(page(http, "GET /cluster"), (200, group_status()));
    for (request, allowed) in [
        ("POST /cluster", "GET"),
        ("POST /metrics", "GET"),
        ("GET /cluster/switchover", "POST"),
        ("GET /cluster/confirm?coordinator=1", "POST"),
        ("GET /cluster/add?address=h:1", "POST"),
        ("GET /cluster/remove", "POST"),
        ("GET /cluster/promote", "POST"),
        ("GET /cluster/min_copies?copies=1", "POST"),
    ] {
        assert_eq!(page(http, request), (405, format!("only {allowed} is answered\n")), "{request}");
    }
    assert_eq!(page(http, "GET /cluster/none").0, 404);
    let switchover = format!("/cluster/switchover?node={NODE}");
    for (token, status) in [("", 401), ("wrong", 401), (ADMIN, 200)] {
        assert_eq!(post(http, &switchover, token).0, status, "{token:?}");
        assert_eq!(post(http, "/cluster/confirm?coordinator=18446744073709551615", token).0, status, "{token:?}");
    }
    let upper = format!("/cluster/switchover?node={}", NODE.to_uppercase());
    assert_eq!(post(http, &upper, ADMIN).0, 200);
    let expected =
        [format!("switch over to {NODE}"), "confirm 18446744073709551615".to_owned(), format!("switch over to {NODE}")];
    assert_eq!(std::mem::take(&mut *group.asked.lock().unwrap()), expected);
    for (asked, noted) in [
        (format!("remove?node={NODE}"), format!("remove, false, {NODE}")),
        (format!("remove?node={NODE}&accept_loss=true"), format!("remove, true, {NODE}")),
        ("add?address=%5B::1%5D:20811".to_owned(), "add [::1]:20811".to_owned()),
        (format!("promote?node={NODE}"), format!("promote {NODE}")),
        ("min_copies?copies=2".to_owned(), "min_copies 2".to_owned()),
    ] {
        assert_eq!(post(http, &format!("/cluster/{asked}"), "").0, 401, "{asked}");
        assert_eq!(post(http, &format!("/cluster/{asked}"), ADMIN).0, 200, "{asked}");
        assert_eq!(std::mem::take(&mut *group.asked.lock().unwrap()), [noted]);
    }
    for malformed in MALFORMED {
        assert_eq!(post(http, &format!("/cluster/{malformed}"), ADMIN).0, 400, "{malformed}");
    }
    assert_eq!(*group.asked.lock().unwrap(), Vec::<String>::new());
    let refused = (409, "the copy is behind\n".to_owned());
    assert_eq!(post(http, "/cluster/confirm?coordinator=99", ADMIN), refused);
    assert_eq!(post(http, "/cluster/min_copies?copies=99", ADMIN), refused);
    assert_eq!(post(http, &format!("/cluster/switchover?node={}ff", &NODE[2..]), ADMIN), refused);
    let (status, metrics) = page(http, "GET /metrics");
    assert!(status == 200 && metrics.ends_with("\ndelaymq_copies 3\n"), "{metrics}");
    must_be_metrics(&metrics);
    for _ in 0..8 {
        assert_eq!(post(http, &switchover, "guess").0, 401);
    }
    assert_eq!(post(http, &switchover, ADMIN).0, 429);
}

fn group_status() -> String {
    delaymq_server::ClusterPages::status(&Group::default())
}

#[test]
fn a_server_of_a_group_shows_it_and_passes_on_what_the_administrator_asks_for() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), store_options(Durability::Os), &mut |_| {}).unwrap();
    let group = Arc::new(Group::default());
    let pages: Arc<dyn delaymq_server::ClusterPages> = Arc::<Group>::clone(&group);
    let server = Server::start_on(&listening(administered()), store, Some(pages)).unwrap();
    must_serve(server.http_address().unwrap(), &group);
}

#[test]
fn a_standby_shows_its_group_and_passes_on_what_the_administrator_asks_for() {
    let group = Arc::new(Group::default());
    let pages: Arc<dyn delaymq_server::ClusterPages> = Arc::<Group>::clone(&group);
    let standby = Standby::start(&listening(administered()), pages).unwrap();
    must_serve(standby.http_address().unwrap(), &group);
}

#[test]
fn a_server_alone_has_no_group() {
    let served = serve();
    let http = served.server.http_address().unwrap();
    for request in ["GET /cluster", "POST /cluster/switchover", "GET /cluster/confirm"] {
        assert_eq!(page(http, request), (404, "there is nothing here\n".to_owned()), "{request}");
    }
}

#[test]
fn a_group_is_changed_by_nobody_without_a_token_for_it() {
    let standby = standby_with(options());
    let http = standby.http_address().unwrap();
    assert_eq!(post(http, &format!("/cluster/switchover?node={NODE}"), ADMIN).0, 403);
    assert_eq!(page(http, "GET /cluster").0, 200);
}

#[test]
fn a_standby_is_alive_and_not_ready_and_names_the_primary() {
    let standby = standby_with(options());
    let http = standby.http_address().unwrap();
    assert_eq!(page(http, "GET /health"), (200, "the server runs\n".to_owned()));
    assert_eq!(page(http, "GET /meta/address"), (200, standby.address().to_string()));
    let (status, words) = page(http, "GET /ready");
    assert!(status == 503 && words.contains("none is known"), "{words}");
    standby.set_primary(Some(primary_at("192.0.2.1:20801".parse().unwrap())));
    assert_eq!(page(http, "GET /meta/address"), (200, "192.0.2.1:20801".to_owned()));
    for request in ["GET /ready", "GET /onoffline?operation=query"] {
        let (status, words) = page(http, request);
        assert!(status == 503 && words.contains("192.0.2.1:20801"), "{words}");
    }
    let mut nameless = primary_at(standby.address());
    nameless.address = String::new();
    standby.set_primary(Some(nameless));
    assert_eq!(page(http, "GET /meta/address"), (200, standby.address().to_string()));
    let advertised = ServerOptions { advertised_address: Some("two.example:20801".to_owned()), ..options() };
    let standby = standby_with(advertised);
    assert_eq!(page(standby.http_address().unwrap(), "GET /meta/address"), (200, "two.example:20801".to_owned()));
}
