//! A client over real sockets, and a server of a few lines.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;

use delaymq_core::units::Millis;
use delaymq_core::wire::connection::{Asked, Connection as ServerEnd};
use delaymq_core::wire::extension::errors::{Attribute, ErrorCode, RemoteError};
use delaymq_core::wire::extension::hello::Welcome;
use delaymq_core::wire::extension::{EXTENSION_VERSION, HELLO, STATUS};
use delaymq_core::wire::quota::connection_limits::ConnectionLimits;

use super::socket::prepared;
use super::*;
use crate::nodes::Address;
use crate::session::Request;

const NOW: Millis = Millis(1_000);
const LONG: Duration = Duration::from_secs(60);

/// Answers every request of one connection, until it has answered `count` of them.
fn serve(mut stream: TcpStream, count: usize, answer: impl Fn(&Asked) -> Result<Vec<u8>, RemoteError>) {
    let mut end = ServerEnd::new(ConnectionLimits::default(), true, NOW);
    let mut buffer = [0; 4_096];
    let mut answered = 0;
    while answered < count {
        let read = stream.read(&mut buffer).unwrap_or(0);
        if read == 0 {
            return;
        }
        end.receive(&buffer[..read], NOW);
        while let Some(asked) = end.next_request(NOW) {
            answered += 1;
            let welcome = Welcome {
                version: EXTENSION_VERSION,
                server: "test".to_owned(),
                stream: [7; 16],
                frame_bytes_max: 1 << 24,
                messages_max: 10_000,
                body_bytes_max: 1 << 22,
                in_flight_max: 1 << 16,
                now: NOW,
                delay_ms_max: 1 << 40,
            };
            let body = match answer(&asked) {
                Ok(body) => body,
                Err(error) => {
                    end.answer_error(asked.id, &error, NOW).unwrap();
                    continue;
                }
            };
            let fill = |out: &mut Vec<u8>| {
                if asked.frame.header.code == HELLO {
                    return welcome.put(out);
                }
                out.extend_from_slice(&body);
                Ok(())
            };
            end.answer(asked.id, 0, NOW, fill).unwrap();
        }
        let out: Vec<u8> = end.output().flatten().copied().collect();
        end.sent(out.len(), NOW);
        stream.write_all(&out).unwrap();
    }
}

/// A server that answers `counts` requests, hello included, on its connections, one after the other.
fn server(counts: &'static [usize]) -> Address {
    server_that(counts, |asked| Ok(asked.frame.body.to_vec()))
}

/// As [`server`], with other answers.
fn server_that(
    counts: &'static [usize],
    answer: impl Fn(&Asked) -> Result<Vec<u8>, RemoteError> + Send + 'static,
) -> Address {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for count in counts {
            serve(listener.accept().unwrap().0, *count, &answer);
        }
    });
    Address { host: "127.0.0.1".to_owned(), port, shown: "delaymq://server".to_owned() }
}

fn opened(address: Address, report: OnReport) -> Connection {
    opened_of(Nodes::new(address, Vec::new()), report)
}

fn opened_of(nodes: Nodes, report: OnReport) -> Connection {
    let slot = Slot::new();
    let waiter = Waiter::Thread(Arc::clone(&slot));
    let connection = Connection::open(nodes, ClientOptions::of_tests(), waiter, false, report).unwrap();
    assert_eq!(connection.wait(&slot, LONG), Waited::Ready);
    slot.take().unwrap().unwrap();
    connection
}

fn call(connection: &Connection, body: &[u8]) -> Outcome {
    let slot = Slot::new();
    let request = Request::new(STATUS, body.to_vec());
    let waiter = Waiter::Thread(Arc::clone(&slot));
    connection.with(|session, now_ms| session.ask(request, waiter, now_ms)).unwrap();
    assert_eq!(connection.wait(&slot, LONG), Waited::Ready);
    slot.take().unwrap()
}

#[test]
fn threads_that_share_a_client_get_their_own_answers() {
    let connection = opened(server(&[usize::MAX]), Box::new(|_| {}));
    thread::scope(|scope| {
        for number in 0..8_u32 {
            let connection = &connection;
            scope.spawn(move || {
                for turn in 0..200_u32 {
                    let body = (number * 1_000 + turn).to_be_bytes();
                    assert_eq!(call(connection, &body).unwrap().body, body.to_vec());
                }
            });
        }
    });
    connection.end();
}

#[test]
fn an_answer_that_another_thread_fills_wakes_the_thread_that_polls() {
    let connection = opened(server(&[usize::MAX]), Box::new(|_| {}));
    let slot = Slot::new();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| connection.wait(&slot, LONG));
        while connection.shared.lock().poll.is_none() {
            thread::yield_now();
        }
        let mut state = connection.shared.lock();
        state.watchers.insert(SubscriptionId(1), vec![Arc::clone(&slot)]);
        drop(state);
        connection.shared.lock().notify(SubscriptionId(1));
        assert_eq!(waiting.join().unwrap(), Waited::Ready);
    });
}

#[test]
fn a_connection_that_is_lost_is_made_again_and_reported() {
    let (told, reports) = mpsc::channel();
    let connection = opened(server(&[2, 2]), Box::new(move |report| told.send(report.clone()).unwrap()));
    call(&connection, b"first").unwrap();
    assert_eq!(reports.recv_timeout(LONG).unwrap().action, "connection_lost");
    assert_eq!(call(&connection, b"second").unwrap().body, b"second".to_vec());
    assert!(connection.lost_count() >= 1);
}

fn not_primary(address: &str) -> RemoteError {
    RemoteError::new(ErrorCode::NotPrimary, "not here").with(Attribute::Address, address).with(Attribute::Epoch, 3)
}

#[test]
fn the_primary_that_a_node_names_gets_the_request_that_the_node_refused() {
    let primary = server(&[usize::MAX]);
    let named = format!("127.0.0.1:{}", primary.port);
    let other = server_that(&[usize::MAX], move |asked| {
        if asked.frame.header.code == HELLO { Ok(Vec::new()) } else { Err(not_primary(&named)) }
    });
    let connection = opened(other, Box::new(|_| {}));
    thread::scope(|scope| {
        for number in 0..8_u32 {
            let connection = &connection;
            scope.spawn(move || {
                let body = number.to_be_bytes();
                assert_eq!(call(connection, &body).unwrap().body, body.to_vec());
            });
        }
    });
    assert_eq!(connection.lost_count(), 1, "a client moves once");
    connection.end();
}

#[test]
fn a_client_whose_node_is_lost_goes_on_with_another() {
    let (told, reports) = mpsc::channel();
    let [first, second] = [server(&[2]), server(&[usize::MAX])];
    let nodes = Nodes::new(nobody(), vec![first, second]);
    let connection = opened_of(nodes, Box::new(move |report| told.send(report.clone()).unwrap()));
    assert_eq!(call(&connection, b"first").unwrap().body, b"first".to_vec());
    assert_eq!(reports.recv_timeout(LONG).unwrap().action, "connection_lost");
    assert_eq!(call(&connection, b"second").unwrap().body, b"second".to_vec());
    connection.end();
}

#[test]
fn where_no_node_is_primary_a_client_is_not_opened_and_is_told_so() {
    let other = || server_that(&[usize::MAX; 1_000], |_| Err(not_primary("")));
    let slot = Slot::new();
    let waiter = Waiter::Thread(Arc::clone(&slot));
    let nodes = Nodes::new(other(), vec![nobody(), other()]);
    // A primary is awaited for as long.
    let options = ClientOptions { hello_ms: 1_000, ..ClientOptions::of_tests() };
    let connection = Connection::open(nodes, options, waiter, false, Box::new(|_| {})).unwrap();
    assert_eq!(connection.wait(&slot, LONG), Waited::Ready);
    assert_eq!(slot.take().unwrap(), Err(not_primary("").into()));
}

/// Nobody foresaw it, so nothing else would ever answer them.
#[test]
fn a_fault_of_the_client_s_own_ends_the_waits_of_all() {
    let connection = opened(server(&[2]), Box::new(|_| panic!("nobody foresaw this")));
    call(&connection, b"first").unwrap();
    let slot = Slot::new();
    let waiter = Waiter::Thread(Arc::clone(&slot));
    let request = Request { retry: true, ..Request::new(STATUS, Vec::new()) };
    let asked = connection.with(|session, now_ms| session.ask(request, waiter, now_ms));
    let failure = asked.map_or_else(
        |failure| failure,
        |_| {
            assert_eq!(connection.wait(&slot, LONG), Waited::Ready);
            slot.take().unwrap().unwrap_err()
        },
    );
    assert!(failure.words().contains("nobody foresaw this"), "{failure:?}");
}

/// A socket that is connected to itself.
fn met() -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&"127.0.0.1:0".parse::<std::net::SocketAddr>().unwrap().into()).unwrap();
    socket.connect(&socket.local_addr().unwrap()).unwrap();
    socket.into()
}

#[test]
fn a_connection_that_came_back_to_itself_is_none_and_frees_its_port_at_once() {
    let connected = met();
    let address = connected.local_addr().unwrap();
    assert!(prepared(connected).unwrap().is_none());
    TcpListener::bind(address).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    assert!(prepared(TcpStream::connect(listener.local_addr().unwrap()).unwrap()).unwrap().is_some());
}

/// An address at which nobody listens.
fn nobody() -> Address {
    let port = met().local_addr().unwrap().port();
    Address { host: "127.0.0.1".to_owned(), port, shown: "delaymq://nobody".to_owned() }
}

#[test]
fn where_nobody_listens_it_is_said_at_once() {
    let slot = Slot::new();
    let waiter = Waiter::Thread(Arc::clone(&slot));
    let nodes = Nodes::new(nobody(), Vec::new());
    let connection = Connection::open(nodes, ClientOptions::of_tests(), waiter, false, Box::new(|_| {})).unwrap();
    assert_eq!(connection.wait(&slot, LONG), Waited::Ready);
    let failure = slot.take().unwrap().unwrap_err();
    assert_eq!(failure.words(), "no server answers at delaymq://nobody: [Errno 111] Connection refused");
}

#[test]
fn a_caller_that_panics_while_it_reads_ends_the_waits_of_all() {
    let connection = opened(server(&[usize::MAX]), Box::new(|_| {}));
    let shared = Arc::clone(&connection.shared);
    thread::spawn(move || {
        let _leading = Leading(&shared);
        panic!("nobody foresaw this");
    })
    .join()
    .unwrap_err();
    let failure = connection.with(|session, _| session.check()).unwrap_err();
    assert!(failure.words().contains("a thread that read its connection failed"), "{failure:?}");
    connection.end();
}
