//! The outcomes of a client's requests, as its session gives them.

use delaymq_client::failure::{Failure, Kind};
use delaymq_client::session::Outcome;
use delaymq_core::wire::extension::errors::{ErrorCode, RemoteError};
use delaymq_core::wire::extension::moves::read_moved;
use delaymq_core::wire::extension::publish::{Cancelled, read_outcomes, read_receipts};
use delaymq_core::wire::reader::Reader;

use super::changes::not_before;
use super::{Asked, Call, Client, PING_BYTES, Repeats, is_passing};
use crate::connected::account::Account;
use crate::connected::users::Shared;

impl Call {
    /// Its command is one of [`super::ANSWERED`].
    pub(super) fn is_of_programs(&self) -> bool {
        !matches!(self, Self::Open(_) | Self::Subscribe | Self::Ready | Self::Flush(..) | Self::Close(..) | Self::Ping)
    }
}

impl Client {
    /// Handles what the session has for its program.
    pub(super) fn collect(&mut self, around: &mut Shared) {
        loop {
            let completed = self.session.take_completed();
            if completed.is_empty() {
                break;
            }
            for (token, outcome) in completed {
                match self.calls.remove(&token) {
                    Some(asked) => self.completed(around, asked, outcome),
                    None => around.account.blame(format!("{outcome:?} comes to a request that is over")),
                }
            }
        }
        let news = self.session.take_news();
        self.has_news |= self.subscription.is_some_and(|id| news.contains(&id));
        self.session.take_reports();
    }

    fn completed(&mut self, around: &mut Shared, asked: Asked, outcome: Outcome) {
        let is_counted = usize::from(asked.call.is_of_programs());
        match outcome {
            Ok(answer) => {
                self.heard += is_counted;
                self.answered(&mut around.account, asked.call, &answer.body);
            }
            Err(Failure::Remote(error)) => {
                self.heard += is_counted;
                self.refused(around, asked.call, &error);
            }
            Err(failure) => {
                // The server refused to repeat it.
                if matches!(failure, Failure::Local { cause: Some(_), .. }) {
                    self.heard += is_counted;
                }
                self.failed(around, asked, &failure);
            }
        }
    }

    fn answered(&mut self, account: &mut Account, call: Call, body: &[u8]) {
        match call {
            Call::Open(true) => self.is_open = true,
            Call::Open(false) => account.blame(format!("a stranger is served: {body:?}")),
            Call::Publish(messages) | Call::PublishOnce(messages) => match read_receipts(&mut Reader::new(body)) {
                Ok(receipts) if receipts.len() == messages.len() => {
                    for ((number, _), receipt) in messages.iter().zip(&receipts) {
                        account.published(*number, receipt.key.sequence, receipt.key.due);
                    }
                    self.receipts.extend(receipts);
                }
                other => account.blame(format!("{other:?} is the answer to {messages:?}")),
            },
            Call::Cancel(sequence) => match read_outcomes(body).as_deref() {
                Ok([outcome]) => account.cancel_told(sequence, *outcome == Cancelled::Done),
                other => account.blame(format!("{other:?} is the answer to a cancel of {sequence}")),
            },
            Call::Move(receipt, due) => match read_moved(body).as_deref() {
                Ok([moved]) => self.move_told(account, (receipt, due), moved),
                other => account.blame(format!("{other:?} is the answer to a move of {receipt:?}")),
            },
            Call::Flush(_, settled) => self.flushed(account, &settled),
            Call::Close(id, settled) => self.closed(account, id, &settled, true),
            Call::Recur(number) => self.series_told(account, number, body),
            Call::EndSeries => account.series_ended(&self.series),
            Call::Ping if body != PING_BYTES => account.blame(format!("a ping came back as {body:?}")),
            Call::Clock => self.clock_told(account, body),
            Call::Accept(asked_ms) => Self::clock_accepted(account, asked_ms, body),
            Call::Ping | Call::Subscribe | Call::Ready => {}
        }
    }

    /// The server refused it: the store has ended or is full, or the client's token is wrong.
    fn refused(&mut self, around: &mut Shared, call: Call, error: &RemoteError) {
        let account = &mut around.account;
        match (call, error.code) {
            (Call::Open(false), ErrorCode::Unauthorized) => self.begin_anew(),
            (Call::Open(_), _) if is_passing(error) => self.begin_anew(),
            (Call::Flush(id, settled), _) if is_passing(error) => {
                self.not_flushed(id, settled);
                self.told_refused();
            }
            (call, _) if is_passing(error) => self.not_answered(around, call),
            // A request of an earlier connection has ended the series, or the end of the history has.
            (Call::Recur(_), ErrorCode::InvalidArgument) => account.series_lost(&self.series),
            // Dispatch is not held, or another step holds it.
            (Call::Accept(_), ErrorCode::InvalidArgument) => {}
            (call, _) => account.blame(format!("{call:?} is refused: {error:?}")),
        }
    }

    /// The session itself reports the failure. A request whose connection lives is ambiguous only if an earlier one
    /// was lost.
    fn failed(&mut self, around: &mut Shared, asked: Asked, failure: &Failure) {
        let is_refused = matches!(failure, Failure::Local { cause: Some(_), .. });
        let is_apart = self.link.is_none();
        let is_right = match (&asked.call, asked.repeats) {
            (Call::Open(_), _) => is_apart,
            (Call::Flush(..), _) => failure.is_ambiguous() && (is_apart || self.is_doubtful),
            (Call::Close(..) | Call::Ready, _) | (_, Repeats::Never) => failure.is_ambiguous() && is_apart,
            (_, Repeats::For(ms)) => {
                let is_late = self.now_ms.saturating_sub(asked.at_ms) > ms;
                failure.is_ambiguous() && !is_apart && asked.was_lost && (is_refused || is_late)
            }
            (_, Repeats::Reads) => false,
        };
        if !is_right {
            around.account.blame(format!("{asked:?} fails, without a connection {is_apart}: {failure:?}"));
        }
        match asked.call {
            Call::Open(_) => self.begin_anew(),
            Call::Flush(id, settled) => {
                self.not_flushed(id, settled);
                self.told_doubtful();
            }
            call => self.not_answered(around, call),
        }
    }

    /// The outcome of a request is not known. Sometimes it is asked for once more.
    fn not_answered(&mut self, around: &mut Shared, call: Call) {
        let again = around.chance.percent(70);
        let account = &mut around.account;
        match call {
            Call::Publish(messages) => {
                account.publish_lost(messages.iter().map(|(number, _)| *number));
                self.again.extend(messages.into_iter().filter(|_| again));
            }
            Call::PublishOnce(messages) => {
                account.publish_lost(messages.iter().map(|(number, _)| *number));
                self.once_again.extend(again.then_some(messages));
            }
            Call::Cancel(sequence) => account.cancel_lost(sequence),
            Call::Move(receipt, due) => self.moves_again.extend(again.then_some((receipt, due))),
            Call::Recur(_) | Call::EndSeries => account.series_lost(&self.series),
            Call::Subscribe => self.give_up_subscription(),
            Call::Flush(id, settled) => self.not_flushed(id, settled),
            Call::Close(id, settled) => self.closed(account, id, &settled, false),
            Call::Open(_) | Call::Ready | Call::Ping | Call::Clock | Call::Accept(_) => {}
        }
    }

    /// The program waits no longer for one of its requests.
    pub(super) fn give_up(&mut self, around: &mut Shared) -> &'static str {
        let may = |asked: &Asked| !matches!(asked.call, Call::Open(_) | Call::Close(..));
        let tokens: Vec<u64> = self.calls.iter().filter(|(_, asked)| may(asked)).map(|(token, _)| *token).collect();
        let Some(token) = around.chance.pick(&tokens) else { return "waits for nothing" };
        let withdrawn =
            self.calls.get(token).and_then(|asked| asked.ticket).map(|ticket| self.session.withdraw(ticket));
        if withdrawn == Some(None) {
            return "has an answer that it has not seen";
        }
        let Some(Asked { call, repeats, .. }) = self.calls.remove(token) else { return "waits for nothing" };
        self.given_up += usize::from(call.is_of_programs());
        let Some(failure) = withdrawn.flatten() else {
            self.not_answered(around, call);
            return "gives a subscription up";
        };
        match (call, repeats) {
            (call, Repeats::Reads) if !failure.is_ambiguous() => self.not_answered(around, call),
            (call, _) if failure.is_ambiguous() => self.not_answered(around, call),
            (Call::Publish(messages) | Call::PublishOnce(messages), _) if is_unasked(&failure) => {
                for (number, _) in messages {
                    around.account.publish_unasked(number);
                }
            }
            (call, _) if is_unasked(&failure) => self.not_answered(around, call),
            (call, _) => around.account.blame(format!("{call:?} is given up: {failure:?}")),
        }
        "gives a request up"
    }

    /// The session sends what waits, and repeats what it may. The server's clock may be behind by now.
    pub(super) fn told_once_more(&self, around: &mut Shared) {
        let now = around.now;
        for asked in self.calls.values() {
            match &asked.call {
                Call::Publish(messages) | Call::PublishOnce(messages) => {
                    for (number, due) in messages {
                        around.account.publish_repeated(*number, not_before(*due, now));
                    }
                }
                Call::Move(receipt, due) => {
                    around.account.move_repeated(receipt.key.sequence, *due, not_before(*due, now));
                }
                _ => {}
            }
        }
    }
}

/// The failure says that nothing was asked.
fn is_unasked(failure: &Failure) -> bool {
    matches!(failure, Failure::Local { kind: Kind::Unreachable | Kind::TimedOut, .. })
}
