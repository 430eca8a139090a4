//! PULL: messages for a consumer of QMQ, at once or when there are some.

use std::rc::Rc;
use std::sync::Arc;

use delaymq_core::error::{Error, Result};
use delaymq_core::queues::answer_run::{AnswerRun, Candidate, choose};
use delaymq_core::queues::tags::Filter;
use delaymq_core::record::limits::{check_name, check_qmq_subject};
use delaymq_core::record::meta::MetaView;
use delaymq_core::units::{Millis, PullOffset};
use delaymq_core::wire::frame::answer;
use delaymq_core::wire::qmq::message::{FLAG_OPAQUE_BODY, TAGS_VERSION, WireMessage};
use delaymq_core::wire::qmq::plain_text::{Stored, put_opaque_as_text, put_plain_text};
use delaymq_core::wire::qmq::pull::{ConsumerName, PullRequest, put_pulled};
use delaymq_engine::{Delivered, Store};
use tokio::task::yield_now;

use crate::connection::quota::ConnectionSlot;
use crate::qmq::consumers::Name;
use crate::qmq::group_consumer::GroupConsumer;
use crate::qmq::pull_queues::PullQueue;
use crate::qmq::session::{Job, Session};
use crate::requests::responder::Responder;
use crate::server_state::ServerState;

/// Payloads of one answer, in bytes; or one message more.
const ANSWER_BYTES: usize = 4 << 20;
/// How often a pull is tried again because its consumer ended and was created again.
const LIVES_MAX: u32 = 3;

/// A pull that is not answered yet.
pub(crate) struct PendingPull {
    pub(crate) responder: Responder,
    /// The session of the consumer; `None` for a pull that can get nothing.
    pub(crate) session: Option<Rc<Session>>,
    /// While this lives, the consumer's lease does not end.
    waiting: Option<Waiting>,
    pub(crate) count: usize,
    pub(crate) received: Option<PullOffset>,
    is_broadcast: bool,
    pub(crate) filters: Arc<[Filter]>,
    version: i16,
    pub(crate) deadline: Millis,
    /// Its slot among the pulls that are parked apart.
    pub(crate) apart: Option<ConnectionSlot>,
}

/// Keeps a lease alive while it lives.
struct Waiting {
    state: Rc<ServerState>,
    number: u64,
}

impl Waiting {
    fn new(state: &Rc<ServerState>, session: &Session) -> Self {
        let number = session.number;
        state.consumers.leases.borrow_mut().begin_wait(number, state.now());
        state.consumers.hear(session, state.now());
        Self { state: Rc::clone(state), number }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.state.consumers.leases.borrow_mut().end_wait(self.number, self.state.now());
    }
}

/// The result of gathering messages.
pub(crate) enum Gathered {
    /// Messages with neighbouring offsets, the first of which is `first`; at least one.
    Run { first: PullOffset, messages: Vec<Delivered> },
    /// There is nothing now.
    Nothing,
    /// The pull ended before everything ready was judged: another pull may find something.
    GaveUp,
}

/// Takes a pull.
pub(crate) fn pull(responder: Responder, request: PullRequest<'_>, version: i16) {
    let state = Rc::clone(responder.state());
    let Some(count) = request.count_max() else { return responder.code(answer::NO_MESSAGE) };
    let now = state.now();
    // It may be parked for long, with its filters.
    responder.keep(request.filters.iter().map(Filter::memory_bytes).sum());
    let pending = PendingPull {
        responder,
        session: None,
        waiting: None,
        count: count as usize,
        received: request.received(),
        is_broadcast: request.is_broadcast,
        version,
        deadline: request.hold_ms().map_or(now, |hold_ms| now.plus(hold_ms)),
        filters: request.filters.into(),
        apart: None,
    };
    let name = Name::new(&request.name, request.is_broadcast);
    if check(&request.name).is_err() {
        return state.refuse(pending);
    }
    begin(&state, pending, name);
}

/// Checks the names of a consumer.
pub(crate) fn check(name: &ConsumerName<'_>) -> Result<()> {
    check_qmq_subject("subject", name.subject)?;
    check_name("group", name.group)?;
    check_name("consumer", name.consumer)
}

/// Hands a pull to its consumer's session.
pub(crate) fn begin(state: &Rc<ServerState>, mut request: PendingPull, name: Name) {
    let Some(session) = state.consumers.session(name, state.number(), false) else { return state.refuse(request) };
    if request.is_broadcast {
        session.become_broadcast();
    }
    request.waiting = Some(Waiting::new(state, &session));
    state.look_by(state.now().plus(state.options.lease_ms));
    request.session = Some(Rc::clone(&session));
    session.run(state, Job::Pull(request));
}

/// Answers a pull, or parks it.
pub(crate) async fn serve(state: &Rc<ServerState>, session: &Rc<Session>, request: PendingPull) {
    let Name { subject, group, consumer, .. } = &*session.name;
    let before = session.pull_queue();
    if state.registry.borrow().may_not_pull(consumer, subject, group) {
        return refuse(state, request, before);
    }
    let mut lives = 0;
    loop {
        let Ok(attached) = session.attach(state).await else { return refuse(state, request, before) };
        let pull_queue = Rc::clone(&attached.pull_queue);
        if request.responder.peer().has_left() {
            // The peer reads no more: the wake-up passes to the next pull.
            return state.wake_next(&pull_queue);
        }
        if !request.responder.peer().has_answer_room() {
            return park(state, request, &pull_queue);
        }
        let news = pull_queue.news();
        match attached.gather(state, session, &request).await {
            // Others took the room while this pull waited for a thread.
            Ok(Gathered::Run { .. }) if !request.responder.peer().has_answer_room() => {
                return park(state, request, &pull_queue);
            }
            Ok(Gathered::Run { first, messages }) => match send_messages(state, &request, first, &messages) {
                Ok(count) => return went(state, &attached, count),
                // The first message cannot be sent to any QMQ client, so it becomes a dead letter.
                Err(_) => {
                    if attached.put_away(state, session, first).await.is_err() {
                        session.detach();
                    }
                }
            },
            Ok(Gathered::Nothing) if pull_queue.news() == news || request.deadline <= state.now() => {
                return state.hold(request, &pull_queue);
            }
            Ok(Gathered::Nothing) => {}
            Ok(Gathered::GaveUp) => {
                state.hold(request, &pull_queue);
                return state.wake_next(&pull_queue);
            }
            Err(_) if attached.consumer.is_gone() && lives < LIVES_MAX => lives += 1,
            Err(_) => {
                session.detach();
                return refuse(state, request, Some(pull_queue));
            }
        }
        yield_now().await;
    }
}

/// The pull can get nothing: the wake-up passes to the next pull.
fn refuse(state: &Rc<ServerState>, request: PendingPull, pull_queue: Option<Rc<PullQueue>>) {
    state.refuse(request);
    if let Some(pull_queue) = pull_queue {
        state.wake_next(&pull_queue);
    }
}

/// Its peer does not read: its messages go to the next pull meanwhile.
fn park(state: &Rc<ServerState>, request: PendingPull, pull_queue: &PullQueue) {
    let peer = Rc::clone(request.responder.peer());
    peer.park(request);
    state.wake_next(pull_queue);
}

/// Answers with as many of these messages as fit. Returns how many.
///
/// # Errors
/// The first of them cannot be sent in QMQ's format.
fn send_messages(
    state: &ServerState,
    request: &PendingPull,
    first: PullOffset,
    messages: &[Delivered],
) -> Result<usize> {
    let mut count = messages.len();
    loop {
        let filled = request.responder.try_answer_with(|out| {
            put_pulled(out, first);
            messages.iter().take(count).try_for_each(|message| put(out, &state.store, message, request.version))
        });
        match filled {
            Ok(()) => {
                state.note_lateness(messages.iter().take(count));
                return Ok(count);
            }
            Err(error) if count <= 1 => return Err(error),
            Err(_) => count /= 2,
        }
    }
}

fn went(state: &Rc<ServerState>, attached: &GroupConsumer, count: usize) {
    state.consumers.counters.answered.add(count as u64);
    // The group may have more, for another consumer.
    state.wake_next(&attached.pull_queue);
}

/// The bytes of payloads that an answer may have now.
pub(crate) fn bytes_max(request: &PendingPull) -> usize {
    ANSWER_BYTES.min(request.responder.peer().answer_bytes_max())
}

/// Chooses the messages of an answer; the first offset is `first`. Also returns the messages that the filters keep
/// back. `None` if none passes.
pub(crate) fn choose_of(
    request: &PendingPull,
    first: PullOffset,
    messages: Vec<Delivered>,
) -> (Option<Gathered>, Vec<PullOffset>) {
    let candidate = |(offset, message): (u64, &Delivered)| Candidate {
        offset: PullOffset(offset),
        passes: message.payload.may_pass(&request.filters),
        bytes: message.payload.all().len(),
    };
    let candidates: Vec<Candidate> = (first.0..).zip(&messages).map(candidate).collect();
    let AnswerRun { answered, filtered } = choose(&candidates, bytes_max(request));
    let first = first.plus(answered.start as u64);
    let messages: Vec<Delivered> = messages.into_iter().skip(answered.start).take(answered.len()).collect();
    let found = (!messages.is_empty()).then_some(Gathered::Run { first, messages });
    (found, filtered)
}

/// Appends a message in the format of a QMQ client of this version.
fn put(out: &mut Vec<u8>, store: &Store, message: &Delivered, version: i16) -> Result<()> {
    let payload = &message.payload;
    let is_told_whole = version >= TAGS_VERSION;
    let is_opaque = payload.all().first().is_some_and(|flags| flags & FLAG_OPAQUE_BODY != 0);
    if !payload.is_opaque() && !is_opaque {
        if is_told_whole {
            out.extend_from_slice(payload.all());
            return Ok(());
        }
        read(payload.all())?.put_for(out, version);
        return Ok(());
    }
    if is_told_whole {
        return put_as_text(out, store, message);
    }
    let mut text = Vec::new();
    put_as_text(&mut text, store, message)?;
    read(&text)?.put_for(out, version);
    Ok(())
}

fn read(bytes: &[u8]) -> Result<WireMessage<'_>> {
    WireMessage::read_whole(bytes).map_err(|malformed| Error::InvalidArgument {
        argument: "message",
        expected: "a message of QMQ".to_owned(),
        found: malformed.to_string(),
    })
}

/// Appends a message that no QMQ producer sent, in QMQ's format.
fn put_as_text(out: &mut Vec<u8>, store: &Store, message: &Delivered) -> Result<()> {
    let payload = &message.payload;
    let stored = Stored {
        subject: &message.subject,
        receipt: "",
        published: message.published,
        due: message.first_due,
        attempt: message.attempt,
    };
    if !payload.is_opaque() {
        return put_opaque_as_text(out, &stored, &read(payload.all())?);
    }
    let meta = MetaView::read(payload.meta()).unwrap_or_default();
    if !meta.message_id().is_empty() {
        return put_plain_text(out, &stored, &meta, payload.body());
    }
    let receipt = store.receipt(message)?.to_text();
    put_plain_text(out, &Stored { receipt: &receipt, ..stored }, &meta, payload.body())
}
