//! The commands of QMQ: SEND, PULL, ACK, `CONSUME_MANAGE` and `CLIENT_REGISTER`.

use delaymq_core::error::{Error, Result};
use delaymq_core::planted::{self, Planted};
use delaymq_core::store::Outcome;
use delaymq_core::units::{GroupNumber, Sequence};
use delaymq_core::wire::frame::answer;
use delaymq_core::wire::qmq::ack::AckRequest;
use delaymq_core::wire::qmq::consume_manage::ConsumeManage;
use delaymq_core::wire::qmq::message::{TAGS_VERSION, WireMessage};
use delaymq_core::wire::qmq::pull::{ConsumerName, PullRequest};
use delaymq_core::wire::qmq::register::{RegisterRequest, put_registered};
use delaymq_core::wire::qmq::send::{Failure, SEND, Sent, put_failures};
use delaymq_core::wire::request::{failed_answer, send_code};

use super::Server;
use super::qmq_consumers::{Job, Name, Pulling};
use super::steps::{Asker, ConsumeNames, Told, Waiting};
use crate::node::{Node, QmqMessage};

impl Server {
    pub(super) fn told_when_visible(&mut self, told: Told) {
        self.qmq.told.push(told);
    }

    pub(super) fn send(&mut self, asker: Asker, sent: &[Sent<'_>]) {
        let (mut waiting, mut refused) = (Vec::new(), Vec::new());
        for one in sent {
            match one.judge() {
                Ok(()) => waiting.push(Waiting {
                    subject: one.message.subject.to_owned(),
                    due: one.message.due(),
                    whole: one.message.whole.to_vec(),
                    id: one.message.message_id.to_owned(),
                }),
                Err(failure) => refused.push(failure),
            }
        }
        self.qmq.sends.push((asker, waiting, refused));
    }

    pub(super) fn pull(&mut self, asker: Asker, version: i16, request: PullRequest<'_>) -> Result<()> {
        let now = self.now;
        let Some(count) = request.count_max() else { return self.code(asker, answer::NO_MESSAGE) };
        let pulling = Pulling {
            asker,
            count: count as usize,
            received: request.received(),
            version,
            deadline: request.hold_ms().map_or(now, |hold_ms| now.plus(hold_ms)),
            filters: request.filters,
            judged: Vec::new(),
            hastened: None,
            is_refused: false,
        };
        let number = self.lasting.session(name_of(&request.name, request.is_broadcast), false);
        if request.is_broadcast {
            self.lasting.become_broadcast(number);
        }
        self.lasting.leases.begin_wait(number, now);
        self.lasting.hear(number, now);
        self.push_job(number, Job::Pull(pulling));
        Ok(())
    }

    pub(super) fn acknowledge_offsets(&mut self, asker: Asker, request: &AckRequest<'_>) -> Result<()> {
        let known = self.lasting.known(&name_of(&request.name, request.is_broadcast));
        if let Some(number) = known {
            self.lasting.hear(number, self.now);
        }
        match (known, request.offsets) {
            (Some(number), Some(offsets)) => {
                self.push_job(number, Job::Acknowledge { asker, offsets });
                Ok(())
            }
            _ => self.code(asker, answer::SUCCESS),
        }
    }

    pub(super) fn manage(&mut self, asker: Asker, request: &ConsumeManage<'_>) -> Result<()> {
        let Some(start) = request.start else { return self.code(asker, answer::SUCCESS) };
        let names = (request.subject.to_owned(), request.group.to_owned(), start);
        self.qmq.managing.push((asker, names, None));
        Ok(())
    }

    pub(super) fn register(&mut self, asker: Asker, request: &RegisterRequest<'_>) -> Result<()> {
        let told = self.registry.register(request, self.now);
        self.answer(asker, |out| put_registered(out, &told))
    }

    /// Stores what has room, goes on with resets, and sends the answers whose facts are visible.
    pub(super) fn keep_qmq_promises(&mut self, node: &mut Node) -> Result<()> {
        for (asker, waiting, refused) in std::mem::take(&mut self.qmq.sends) {
            self.store(node, asker, waiting, refused)?;
        }
        for managing in std::mem::take(&mut self.qmq.managing) {
            self.go_on_managing(node, managing)?;
        }
        let visible = node.commits().visible().sequence;
        for told in std::mem::take(&mut self.qmq.told) {
            if told.end > visible && !planted::is_on(Planted::AnswerBeforeVisible) {
                self.qmq.told.push(told);
            } else {
                self.answer_bytes(told.asker, &told.body)?;
            }
        }
        Ok(())
    }

    fn store(&mut self, node: &mut Node, asker: Asker, waiting: Vec<Waiting>, refused: Vec<Failure>) -> Result<()> {
        let messages: Vec<QmqMessage<'_>> =
            waiting.iter().map(|one| QmqMessage { subject: &one.subject, due: one.due, whole: &one.whole }).collect();
        let end = if messages.is_empty() { Ok(Some(Sequence(0))) } else { node.publish_qmq(&messages) };
        match end {
            Ok(None) => self.qmq.sends.push((asker, waiting, refused)),
            Ok(Some(end)) => {
                let (mut body, mut instead) = (Vec::new(), Vec::new());
                put_failures(&mut body, &refused)?;
                put_failures(&mut instead, &not_stored(waiting, refused, &Error::Closed))?;
                self.qmq.told.push(Told { asker, end, body, instead: Some(instead) });
            }
            Err(error) => {
                self.answer(asker, |out| put_failures(out, &not_stored(waiting, refused, &error)))?;
            }
        }
        Ok(())
    }

    fn go_on_managing(
        &mut self,
        node: &mut Node,
        (asker, names, fact): (Asker, ConsumeNames, Option<Sequence>),
    ) -> Result<()> {
        let fact = match fact.map(|fact| (fact, node.take_outcome(fact))) {
            Some((fact, None)) => Some(fact),
            Some((_, Some(Outcome::Group(_)))) => {
                self.lasting.begin_again(&names.0, &names.1);
                return self.code(asker, answer::SUCCESS);
            }
            // For the first time, or again if a consumer began meanwhile or another reset came before.
            Some((_, Some(_))) | None => {
                let Some(group) = group_of(node, &names) else { return self.code(asker, answer::PARAM_ERROR) };
                match node.reset_live_group(group, names.2) {
                    Err(Error::DiskFull) => None,
                    asked => asked?,
                }
            }
        };
        self.qmq.managing.push((asker, names, fact));
        Ok(())
    }

    /// Answers without a body.
    pub(super) fn code(&mut self, asker: Asker, code: i16) -> Result<()> {
        let Some(peer) = self.peers.get_mut(&asker.link) else { return Ok(()) };
        peer.connection.answer(asker.id, code, self.now, |_| Ok(())).map(drop)
    }

    /// The store has ended: all requests of QMQ's clients fail.
    pub(super) fn break_qmq_promises(&mut self, error: &Error) -> Result<()> {
        for (asker, waiting, refused) in std::mem::take(&mut self.qmq.sends) {
            self.answer(asker, |out| put_failures(out, &not_stored(waiting, refused, error)))?;
        }
        for told in std::mem::take(&mut self.qmq.told) {
            match told.instead {
                Some(body) => self.answer_bytes(told.asker, &body)?,
                None => self.code(told.asker, failed_answer(SEND, error))?,
            }
        }
        for (asker, ..) in std::mem::take(&mut self.qmq.managing) {
            self.code(asker, failed_answer(SEND, error))?;
        }
        Ok(())
    }
}

fn group_of(node: &Node, names: &ConsumeNames) -> Option<GroupNumber> {
    let state = node.owner().state();
    state.subjects.number(&names.0).and_then(|subject| state.group_named(subject, &names.1))
}

fn not_stored(waiting: Vec<Waiting>, mut refused: Vec<Failure>, error: &Error) -> Vec<Failure> {
    let failure =
        |one: Waiting| Failure { message_id: one.id, code: send_code(error), remark: "not stored".to_owned() };
    refused.extend(waiting.into_iter().map(failure));
    refused
}

/// The group of a broadcast consumer is its own, and has its name.
fn name_of(name: &ConsumerName<'_>, is_broadcast: bool) -> Name {
    let group = if is_broadcast { name.consumer } else { name.group };
    Name { subject: name.subject.to_owned(), group: group.to_owned(), consumer: name.consumer.to_owned() }
}

/// Appends a message as a client of this version reads it.
pub(super) fn put_for(out: &mut Vec<u8>, whole: &[u8], version: i16) -> Result<()> {
    if version >= TAGS_VERSION {
        out.extend_from_slice(whole);
        return Ok(());
    }
    let message = WireMessage::read_whole(whole)
        .map_err(|malformed| Error::corrupt("", 0, "a message of QMQ", malformed.to_string()))?;
    message.put_for(out, version);
    Ok(())
}
