//! A connection under splits, garbage, hostile lengths, slow peers and stopping.

use bytes::{BufMut, Bytes};
use proptest::prelude::*;

use super::{Asked, Connection, Ending, RequestId};
use crate::units::Millis;
use crate::wire::extension::errors::{ErrorCode, RemoteError};
use crate::wire::extension::{ACKNOWLEDGE, DELIVER, HELLO, PING, PUBLISH};
use crate::wire::frame::{FLAG_ANSWER, FLAG_ONE_WAY, FRAME_BYTES_MAX, Frame, HEAD_BYTES, Header, put_frame, read_head};
use crate::wire::qmq::ack::ACK;
use crate::wire::qmq::pull::PULL;
use crate::wire::qmq::send::SEND;
use crate::wire::quota::connection_limits::ConnectionLimits;

const NOW: Millis = Millis(1_000);

fn limits() -> ConnectionLimits {
    ConnectionLimits::default()
}

fn admitted() -> Connection {
    Connection::new(limits(), true, NOW)
}

/// A connection whose peer has sent a valid request before.
fn proven(limits: ConnectionLimits) -> Connection {
    let mut connection = Connection::new(limits, true, NOW);
    connection.prove();
    connection
}

fn framed(header: Header, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    put_frame(&mut out, header, |out| {
        out.put_slice(body);
        Ok(())
    })
    .unwrap();
    out
}

fn request(opaque: i32, body: &[u8]) -> Vec<u8> {
    framed(Header::request(SEND, 9, opaque), body)
}

fn taken(connection: &mut Connection) -> Vec<Asked> {
    std::iter::from_fn(|| connection.next_request(NOW)).collect()
}

/// All frames that wait to be written; marks them as written.
fn written(connection: &mut Connection) -> Vec<Frame> {
    let bytes = Bytes::from(connection.output().flatten().copied().collect::<Vec<u8>>());
    assert_eq!(bytes.len(), connection.output_bytes());
    connection.sent(bytes.len(), NOW);
    let mut at = 0;
    let mut frames = Vec::new();
    while at < bytes.len() {
        let head = read_head(&bytes[at..]).unwrap().unwrap();
        let body = bytes.slice(at + HEAD_BYTES..at + head.frame_bytes);
        frames.push(Frame { header: head.header, body });
        at += head.frame_bytes;
    }
    frames
}

fn answer(connection: &mut Connection, id: RequestId, body: &[u8]) -> bool {
    let put = |out: &mut Vec<u8>| {
        out.put_slice(body);
        Ok(())
    };
    connection.answer(id, 0, NOW, put).unwrap()
}

#[test]
fn answers_leave_in_any_order_and_each_once() {
    let mut connection = admitted();
    for opaque in [7, 8, 9] {
        connection.receive(&request(opaque, b""), NOW);
    }
    let asked = taken(&mut connection);
    assert_eq!(connection.open_count(), 3);
    for index in [2, 0, 1] {
        assert!(answer(&mut connection, asked[index].id, &[index as u8]));
        assert!(!answer(&mut connection, asked[index].id, b"again"));
    }
    let frames = written(&mut connection);
    let told: Vec<_> = frames.iter().map(|frame| (frame.header.opaque, frame.body[0])).collect();
    assert_eq!(told, [(9, 2), (7, 0), (8, 1)]);
    assert!(frames.iter().all(|frame| frame.header.flags == FLAG_ANSWER && frame.header.request_code == SEND));
    assert_eq!((connection.open_count(), connection.output_bytes()), (0, 0));
}

#[test]
fn an_answer_that_fails_leaves_the_request_to_be_answered() {
    let mut connection = admitted();
    connection.receive(&request(1, b""), NOW);
    let id = connection.next_request(NOW).unwrap().id;
    let large = connection.answer(id, 0, NOW, |out| {
        out.resize(out.len() + FRAME_BYTES_MAX, 0);
        Ok(())
    });
    assert!(large.is_err());
    assert_eq!((connection.output_bytes(), connection.open_count()), (0, 1));
    let busy = RemoteError::new(ErrorCode::Busy, "later");
    assert!(connection.answer_error(id, &busy, NOW).unwrap());
    let frame = written(&mut connection).remove(0);
    assert_eq!(RemoteError::read(frame.header.code, &frame.body), Ok(busy));
}

#[test]
fn what_never_was_whole_is_told_once_the_input_has_ended() {
    let whole = request(1, b"whole");
    let drain = |connection: &mut Connection| connection.drain(NOW);
    for end in [Connection::peer_closed, drain, Connection::crowded] {
        let mut connection = admitted();
        connection.receive(&whole, NOW);
        connection.receive(&whole[..whole.len() - 1], NOW);
        assert_eq!((taken(&mut connection).len(), connection.unfinished_bytes()), (1, 0));
        end(&mut connection);
        end(&mut connection);
        assert_eq!((connection.unfinished_bytes(), connection.input_bytes()), (whole.len() - 1, 0));
    }
}

#[test]
fn held_pulls_hold_up_nobody() {
    let limits = ConnectionLimits { requests_max: 2, held_max: 3, ..limits() };
    let mut connection = Connection::new(limits, true, NOW);
    for opaque in 0..6 {
        connection.receive(&framed(Header::request(PULL, 9, opaque), b""), NOW);
    }
    let mut held = Vec::new();
    for _ in 0..3 {
        let asked = connection.next_request(NOW).unwrap();
        assert!(connection.hold(asked.id) && connection.hold(asked.id));
        held.push(asked.id);
    }
    let more = [connection.next_request(NOW).unwrap().id, connection.next_request(NOW).unwrap().id];
    assert!(!connection.hold(more[0]), "as many are held as may be");
    assert_eq!((connection.next_request(NOW), connection.wants_input()), (None, false));
    assert!(answer(&mut connection, more[1], b""));
    assert!(connection.wants_input());
    let last = connection.next_request(NOW).unwrap();
    assert_eq!(last.frame.header.opaque, 5);
    assert!(answer(&mut connection, held[1], b"found"));
    assert!(connection.hold(last.id), "there is room for one more");
    let mut now_held: Vec<_> = connection.held().collect();
    now_held.sort_unstable();
    assert_eq!(now_held, [held[0], held[2], last.id]);
}

#[test]
fn a_peer_that_does_not_read_is_given_no_more_and_then_cut_off() {
    let limits = ConnectionLimits { output_bytes_max: 1_000, ..limits() };
    let mut connection = proven(limits);
    for opaque in 0..10 {
        connection.receive(&request(opaque, b""), NOW);
    }
    let asked = connection.next_request(NOW).unwrap();
    assert_eq!(connection.answer_bytes_max(), 1_000);
    answer(&mut connection, asked.id, &[0; 1_200]);
    assert_eq!((connection.answer_bytes_max(), connection.wants_input()), (0, false));
    assert_eq!(connection.next_request(NOW), None);
    assert_eq!(connection.push(DELIVER, NOW, |_| Ok(())), Ok(false));
    connection.sent(300, NOW);
    assert!(connection.wants_input());
    assert_eq!(connection.push(DELIVER, NOW, |_| Ok(())), Ok(true));
    assert!(connection.next_request(NOW).is_some());

    let late = NOW.plus(limits.reader_ms_max);
    assert_eq!(connection.deadline(), Some(late));
    connection.tick(Millis(late.0 - 1));
    assert_eq!(connection.ending(), None);
    connection.tick(late);
    assert_eq!((connection.ending(), connection.is_finished()), (Some(&Ending::ReaderLate), true));
    assert_eq!((connection.output_bytes(), connection.input_bytes()), (0, 0));
    let open = connection.open_count();
    let id = RequestId(1);
    assert!(answer(&mut connection, id, b"to nobody"));
    assert_eq!((connection.open_count(), connection.output_bytes()), (open - 1, 0));
}

#[test]
fn a_peer_proves_itself_in_time_or_goes() {
    let late = NOW.plus(limits().first_request_ms_max);
    let mut silent = admitted();
    assert_eq!(silent.deadline(), Some(late));
    silent.receive(&request(1, b"x")[..20], NOW);
    silent.tick(Millis(late.0 - 1));
    assert!(!silent.is_finished());
    silent.tick(late);
    assert_eq!((silent.ending(), silent.is_finished()), (Some(&Ending::FirstRequestLate), true));

    let mut proven = admitted();
    proven.receive(&request(1, b"x"), NOW);
    let id = proven.next_request(NOW).unwrap().id;
    answer(&mut proven, id, b"");
    written(&mut proven);
    assert_eq!(proven.deadline(), Some(late), "what is whole may be no request");
    proven.prove();
    assert_eq!(proven.deadline(), None, "a connection may be silent for as long as it likes");
    proven.tick(Millis(u64::MAX));
    assert_eq!(proven.ending(), None);
}

#[test]
fn a_stranger_has_little_room_until_it_is_admitted() {
    let hello = framed(Header::request(HELLO, 1, 1), &[0; 100]);
    let mut stranger = Connection::new(limits(), false, NOW);
    stranger.receive(&hello, NOW);
    let asked = stranger.next_request(NOW).unwrap();
    assert!(!stranger.is_admitted());
    stranger.prove();
    assert!(stranger.deadline().is_some(), "asking is not enough");
    stranger.admit();
    answer(&mut stranger, asked.id, b"");
    written(&mut stranger);
    assert_eq!(stranger.deadline(), None);
    let large = request(2, &vec![0; 1 << 20]);
    assert_eq!(stranger.receive(&large, NOW), large.len());
    assert!(stranger.next_request(NOW).is_some());

    let mut other = Connection::new(limits(), false, NOW);
    let taken = other.receive(&large, NOW);
    assert_eq!(taken, limits().first_request_bytes_max);
    assert_eq!(other.next_request(NOW), None);
    assert!(matches!(other.ending(), Some(Ending::Malformed(_))));
    assert_eq!(other.input_bytes(), 0);
}

#[test]
fn who_is_turned_away_gets_no_answer_and_what_came_before_does() {
    let mut connection = admitted();
    let bytes = [request(1, b"good"), request(2, b"refused"), request(3, b"unread")].concat();
    connection.receive(&bytes, NOW);
    let (first, second) = (connection.next_request(NOW).unwrap(), connection.next_request(NOW).unwrap());
    assert!(connection.hold(second.id));
    connection.turn_away(second.id);
    assert_eq!((connection.open_count(), connection.held_count(), connection.input_bytes()), (1, 0, 0));
    assert_eq!(connection.ending().map(Ending::word), Some("turned_away"));
    assert!(connection.next_request(NOW).is_none() && !connection.wants_input() && !connection.is_finished());
    assert!(!answer(&mut connection, second.id, b""), "it is not under way");
    assert!(answer(&mut connection, first.id, b"done"));
    let opaques: Vec<_> = written(&mut connection).iter().map(|frame| frame.header.opaque).collect();
    assert_eq!((opaques, connection.is_finished()), (vec![1], true));
}

#[test]
fn an_answer_that_the_server_never_asked_for_is_dropped_and_proves_nothing() {
    let unasked = framed(Header::request(SEND, 9, 1).answered(0), b"of nothing");
    let mut connection = Connection::new(limits(), false, NOW);
    let bytes = [&unasked, &request(1, b"one"), &unasked, &request(2, b"two"), &unasked].map(Vec::as_slice).concat();
    bytes.chunks(7).for_each(|piece| assert_eq!(connection.receive(piece, NOW), piece.len()));
    let opaques: Vec<_> = taken(&mut connection).iter().map(|asked| asked.frame.header.opaque).collect();
    assert_eq!((opaques, connection.ending(), connection.input_bytes()), (vec![1, 2], None, 0));
    assert_eq!(connection.unfinished_bytes(), 3 * unasked.len(), "they count as read for nothing");
}

#[test]
fn a_frame_that_is_not_completed_ends_the_input_and_what_was_asked_is_answered() {
    let mut connection = proven(limits());
    let bytes = [request(1, b""), request(2, b"body")].concat();
    connection.receive(&bytes[..bytes.len() - 1], NOW);
    let id = connection.next_request(NOW).unwrap().id;
    assert_eq!(connection.next_request(NOW), None);
    let late = NOW.plus(limits().frame_ms_max);
    assert_eq!(connection.deadline(), Some(late));
    connection.tick(late);
    assert_eq!((connection.ending(), connection.is_finished()), (Some(&Ending::FrameLate), false));
    assert!(!connection.wants_input());
    assert_eq!(connection.receive(b"more", late), 0);
    answer(&mut connection, id, b"");
    assert!(!connection.is_finished(), "the answer is not written");
    written(&mut connection);
    assert!(connection.is_finished());
}

#[test]
fn no_frame_is_late_while_the_server_does_not_read() {
    let limits = ConnectionLimits { requests_max: 1, ..limits() };
    let mut connection = proven(limits);
    let bytes = [request(1, b""), request(2, b"body")].concat();
    connection.receive(&bytes[..bytes.len() - 1], NOW);
    let id = connection.next_request(NOW).unwrap().id;
    let later = NOW.plus(10 * limits.frame_ms_max);
    assert_eq!((connection.next_request(NOW), connection.deadline()), (None, None));
    connection.tick(later);
    assert_eq!(connection.ending(), None);
    answer(&mut connection, id, b"");
    connection.sent(connection.output_bytes(), later);
    connection.tick(later);
    assert_eq!((connection.ending(), connection.deadline()), (None, Some(later.plus(limits.frame_ms_max))));
    connection.receive(&bytes[bytes.len() - 1..], later);
    assert!(connection.next_request(later).is_some());
}

#[test]
fn a_server_that_stops_answers_what_it_took() {
    for end in [|connection: &mut Connection| connection.drain(NOW), Connection::peer_closed] {
        let mut connection = admitted();
        for opaque in 0..3 {
            connection.receive(&request(opaque, b""), NOW);
        }
        let (first, second) = (connection.next_request(NOW).unwrap().id, connection.next_request(NOW).unwrap().id);
        assert!(connection.hold(second));
        end(&mut connection);
        assert_eq!((connection.next_request(NOW), connection.wants_input()), (None, false));
        assert_eq!(connection.push(DELIVER, NOW, |_| Ok(())), Ok(false));
        assert_eq!(connection.held().collect::<Vec<_>>(), [second]);
        answer(&mut connection, first, b"");
        answer(&mut connection, second, b"");
        assert!(!connection.is_finished());
        assert_eq!(written(&mut connection).len(), 2);
        assert!(connection.is_finished());
    }
}

#[test]
fn a_server_that_stops_says_so_to_what_it_did_not_take() {
    let own = |command, opaque, flags| framed(Header { flags, ..Header::request(command, 1, opaque) }, b"any");
    let mut connection = admitted();
    for bytes in
        [own(PING, 1, 0), own(PUBLISH, 2, 0), request(3, b""), own(ACKNOWLEDGE, 4, FLAG_ONE_WAY), own(PING, 5, 0)]
    {
        connection.receive(&bytes, NOW);
    }
    connection.receive(&own(PUBLISH, 6, 0)[..25], NOW);
    let taken = connection.next_request(NOW).unwrap();
    connection.drain(NOW);
    assert!(!connection.is_finished(), "what it took is not answered");
    answer(&mut connection, taken.id, b"pong");
    let told: Vec<_> = written(&mut connection).into_iter().map(|one| (one.header.opaque, one.header.code)).collect();
    let stopping = ErrorCode::Stopping.number();
    assert_eq!(told, [(2, stopping), (5, stopping), (1, 0)], "neither QMQ nor an acknowledgement has use for it");
    assert!(connection.is_finished());
    assert_eq!(connection.ending(), Some(&Ending::Drained));

    // A peer that sent no hello gets no error, and neither does a request without room for the answer.
    let mut stranger = Connection::new(limits(), false, NOW);
    stranger.receive(&own(PUBLISH, 1, 0), NOW);
    stranger.drain(NOW);
    let mut full = Connection::new(ConnectionLimits { output_bytes_max: 1, ..limits() }, true, NOW);
    (0..9).for_each(|opaque| assert!(full.receive(&own(PUBLISH, opaque, 0), NOW) > 0));
    full.drain(NOW);
    assert_eq!((stranger.output_bytes(), written(&mut full).len()), (0, 1));
}

#[test]
fn who_must_not_be_silent_is_cut_off_when_it_is() {
    let limits = ConnectionLimits { requests_max: 1, ..limits() };
    let mut connection = Connection::new(limits, true, NOW);
    connection.receive(&request(1, b""), NOW);
    let id = connection.next_request(NOW).unwrap().id;
    connection.prove();
    answer(&mut connection, id, b"");
    written(&mut connection);
    let at = |ms: u64| NOW.plus(ms);
    let silence_ms = limits.silence_ms_max;
    connection.tick(at(10 * silence_ms));
    assert_eq!((connection.deadline(), connection.ending()), (None, None), "it may be silent");
    connection.must_speak(true, at(0));
    connection.must_speak(true, at(500));
    assert_eq!(connection.deadline(), Some(at(silence_ms)));
    // A part of a frame ends the silence.
    connection.receive(&request(2, b"")[..5], at(1_000));
    connection.tick(at(silence_ms));
    assert_eq!(
        (connection.deadline(), connection.ending()),
        (Some(at(1_000 + silence_ms.min(limits.frame_ms_max))), None)
    );
    connection.receive(&request(2, b"")[5..], at(2_000));
    let id = connection.next_request(at(2_000)).unwrap().id;
    // While the server does not read, no peer counts as silent.
    connection.tick(at(9 * silence_ms));
    assert_eq!((connection.deadline(), connection.ending()), (None, None));
    answer(&mut connection, id, b"not read");
    connection.sent(connection.output_bytes(), at(10 * silence_ms));
    connection.tick(at(11 * silence_ms - 1));
    assert_eq!(connection.ending(), None);
    connection.push(DELIVER, at(11 * silence_ms - 1), |_| Ok(())).unwrap();
    connection.tick(at(11 * silence_ms));
    assert_eq!((connection.ending(), connection.is_finished()), (Some(&Ending::Silent), true));
    assert_eq!((connection.output_bytes(), connection.deadline()), (0, None));
    // A peer without a subscription may be silent again.
    let mut other = Connection::new(limits, true, NOW);
    other.prove();
    other.must_speak(true, NOW);
    other.must_speak(false, NOW);
    assert_eq!(other.deadline(), None);
}

#[test]
fn one_way_requests_are_answered_only_as_qmq_answers_them() {
    let mut connection = admitted();
    for (command, code, answered) in [
        (SEND, 0, false),
        (SEND, 51, true),
        (PULL, 0, true),
        (ACK, 0, true),
        (HELLO, 0, false),
        (HELLO, ErrorCode::Busy.number(), true),
    ] {
        let header = Header { flags: FLAG_ONE_WAY, ..Header::request(command, 9, 5) };
        connection.receive(&framed(header, b""), NOW);
        let id = connection.next_request(NOW).unwrap().id;
        assert_eq!(connection.answer(id, code, NOW, |_| Ok(())), Ok(true));
        assert_eq!(written(&mut connection).len(), usize::from(answered), "{command} {code}");
    }
}

#[test]
fn a_silent_connection_keeps_no_buffers() {
    let mut connection = admitted();
    for opaque in 0..50 {
        connection.receive(&request(opaque, &vec![0; 100_000]), NOW);
        let asked = connection.next_request(NOW).unwrap();
        assert!(connection.memory_bytes() < 1_000);
        answer(&mut connection, asked.id, &[0; 10_000]);
        assert!(connection.memory_bytes() >= 10_000);
        written(&mut connection);
    }
    assert_eq!(connection.memory_bytes(), 0);
    // The bytes read of a large frame count, and not the length in its header.
    connection.receive(&request(0, &vec![0; 1 << 20])[..1_000], NOW);
    assert_eq!(connection.next_request(NOW), None);
    assert!(connection.memory_bytes() <= 8 << 10);
}

#[test]
fn after_garbage_nothing_is_believed() {
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0; 24], &[0xff; 3], &request(1, b"")[1..]] {
        let mut connection = admitted();
        connection.receive(garbage, NOW);
        connection.receive(&request(2, b"valid"), NOW);
        assert_eq!(connection.next_request(NOW), None);
        assert!(matches!(connection.ending(), Some(Ending::Malformed(_))), "{garbage:?}");
        assert!(connection.is_finished());
    }
}

#[test]
fn many_small_answers_share_pieces_and_leave_by_any_portions() {
    let mut connection = admitted();
    let mut expected = Vec::new();
    for opaque in 0..3_000 {
        connection.receive(&request(opaque, b""), NOW);
        let id = connection.next_request(NOW).unwrap().id;
        answer(&mut connection, id, &[7; 100]);
        expected.extend(framed(Header::request(SEND, 9, opaque).answered(0), &[7; 100]));
    }
    assert!(connection.output().count() < 10);
    let mut found = Vec::new();
    for portion in (1..).map(|step| step * 7) {
        let Some(first) = connection.output().next() else { break };
        let part = first[..portion.min(first.len())].to_vec();
        connection.sent(part.len(), NOW);
        found.extend(part);
    }
    assert!(found == expected);
}

#[test]
fn requests_are_taken_while_what_they_keep_has_room() {
    let limits = ConnectionLimits { kept_bytes_max: 10_000, ..limits() };
    let mut connection = Connection::new(limits, true, NOW);
    let bytes: Vec<u8> = (0..9).flat_map(|opaque| request(opaque, &[7; 4_000])).collect();
    connection.receive(&bytes, NOW);
    let asked = taken(&mut connection);
    assert_eq!((asked.len(), connection.is_paused(), connection.wants_input()), (3, true, false));
    let kept = connection.kept_bytes();
    assert!((9 * 4_000..9 * 4_000 + 5_000).contains(&kept), "{kept}");
    // Held requests count as well: each is answered later.
    assert!(connection.hold(asked[0].id) && connection.next_request(NOW).is_none());
    answer(&mut connection, asked[1].id, b"");
    connection.keep(asked[2].id, 9_000);
    assert!(connection.next_request(NOW).is_none(), "what it keeps beside its frame counts");
    answer(&mut connection, asked[2].id, b"");
    assert_eq!(taken(&mut connection).len(), 2);
    assert!(connection.held().eq([asked[0].id]));
}

#[test]
fn what_stays_has_a_bound_of_its_own_and_stops_no_request() {
    let limits = ConnectionLimits { kept_bytes_max: 1_000, ..limits() };
    let mut connection = Connection::new(limits, true, NOW);
    assert!(connection.keep_on(1_000) && !connection.keep_on(1) && connection.keep_on(0));
    assert_eq!(connection.kept_bytes(), 1_000);
    connection.receive(&request(1, b""), NOW);
    assert_eq!(taken(&mut connection).len(), 1);
    connection.let_go(400);
    assert!(connection.keep_on(400));
}

#[test]
fn who_is_not_heard_keeps_what_it_sent_for_the_time_of_a_frame() {
    let mut connection = proven(limits());
    connection.receive(&request(1, b""), NOW);
    connection.hear(false, NOW);
    assert_eq!((connection.next_request(NOW), connection.wants_input(), connection.is_paused()), (None, false, true));
    connection.hear(true, NOW);
    assert_eq!((taken(&mut connection).len(), connection.wants_input()), (1, true));
    connection.receive(&request(2, b"half")[..26], NOW);
    connection.hear(false, NOW);
    connection.tick(NOW.plus(limits().frame_ms_max));
    assert_eq!(connection.ending(), Some(&Ending::FrameLate));
}

proptest! {
    #[test]
    fn requests_come_out_whole_however_their_bytes_are_split(
        bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..90), 0..8),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
        garbage in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let mut bytes = Vec::new();
        for (opaque, body) in (0..).zip(&bodies) {
            bytes.extend(request(opaque, body));
        }
        // A length that no frame has is refused, whatever follows.
        bytes.extend([0xff, 0xff]);
        bytes.extend(&garbage);
        bytes.extend([0; 4]);
        let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len())).collect();
        ends.push(bytes.len());
        ends.sort_unstable();
        let mut connection = admitted();
        let mut asked = Vec::new();
        let mut from = 0;
        for end in ends {
            connection.receive(&bytes[from..end], NOW);
            from = end;
            asked.extend(taken(&mut connection));
        }
        prop_assert_eq!(asked.len(), bodies.len());
        for (opaque, (one, body)) in (0..).zip(asked.iter().zip(&bodies)) {
            prop_assert_eq!((one.frame.header.opaque, &one.frame.body[..]), (opaque, &body[..]));
        }
        prop_assert!(matches!(connection.ending(), Some(Ending::Malformed(_))));
        for one in &asked {
            prop_assert!(answer(&mut connection, one.id, b""));
        }
        prop_assert_eq!(written(&mut connection).len(), bodies.len());
        prop_assert!(connection.is_finished());
    }

    #[test]
    fn memory_is_bounded_whatever_comes(
        admit in any::<bool>(),
        steps in prop::collection::vec((0_u8..8, prop::collection::vec(any::<u8>(), 0..200), 0_u64..9_000), 1..60),
    ) {
        const MESSAGE_BYTES: usize = 2_000;
        let limits =
            ConnectionLimits { output_bytes_max: 500, requests_max: 3, held_max: 2, kept_bytes_max: 2_000, ..limits() };
        let mut connection = Connection::new(limits, admit, NOW);
        let mut now = NOW;
        let mut open = Vec::new();
        for (what, bytes, later) in steps {
            now = now.plus(later);
            match what {
                0 => { connection.receive(&bytes, now); }
                1 | 2 => { connection.receive(&request(1, &bytes), now); }
                3 => {
                    // A frame with the largest allowed length.
                    connection.receive(&((FRAME_BYTES_MAX - 4) as u32).to_be_bytes(), now);
                }
                4 => open.extend(connection.next_request(now).map(|asked| asked.id)),
                5 => {
                    if let Some(id) = open.pop() {
                        let room = connection.answer_bytes_max().min(bytes.len());
                        let put = |out: &mut Vec<u8>| { out.put_slice(&bytes[..room]); Ok(()) };
                        prop_assert_eq!(connection.answer(id, 0, now, put), Ok(true));
                    }
                }
                6 => {
                    // One message above the limit, as an answer may have if there is any room.
                    if connection.has_answer_room() && let Some(id) = open.pop() {
                        let put = |out: &mut Vec<u8>| { out.put_slice(&[7; MESSAGE_BYTES]); Ok(()) };
                        prop_assert_eq!(connection.answer(id, 0, now, put), Ok(true));
                    }
                }
                _ => {
                    if let Some(id) = open.last() {
                        connection.hold(*id);
                    }
                    connection.sent(bytes.len(), now);
                    connection.tick(now);
                }
            }
            let input_max = if admit { FRAME_BYTES_MAX } else { limits.first_request_bytes_max };
            prop_assert!(connection.input_bytes() <= input_max);
            prop_assert!(connection.open_count() <= limits.requests_max + limits.held_max);
            let answers_max = (limits.requests_max + limits.held_max) * HEAD_BYTES;
            prop_assert!(connection.output_bytes() < limits.output_bytes_max + MESSAGE_BYTES + answers_max);
            let asked = connection.kept_bytes() - connection.input_bytes() - connection.output_bytes();
            prop_assert!(asked < limits.kept_bytes_max + 1_000);
        }
    }
}
