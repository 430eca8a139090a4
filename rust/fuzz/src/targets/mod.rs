//! Every target, by its name.

mod answers;
mod checkpoints;
mod foreign;
mod frames;
mod http;
mod log;
mod peers;
mod records;
mod requests;
mod runs;
mod staging;
mod stores;

use std::sync::LazyLock;

use delaymq_core::wire::extension::COMMANDS;
use delaymq_core::wire::qmq::ack::ACK;
use delaymq_core::wire::qmq::consume_manage::CONSUME_MANAGE;
use delaymq_core::wire::qmq::pull::PULL;
use delaymq_core::wire::qmq::register::CLIENT_REGISTER;
use delaymq_core::wire::qmq::send::SEND;

use crate::verdict::Judged;

pub use self::log::scanned;

/// The reader that gets the input.
#[derive(Clone, Copy, Debug)]
enum Reader {
    /// A reader of its own.
    Of(fn(&[u8]) -> Judged),
    /// The reader of the request with this command.
    Request(i16),
}

/// One target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, and that of the folder of its corpus.
    pub name: &'static str,
    /// The longest input, in bytes.
    pub length_max: usize,
    /// How many mutations of its corpus a run in CI tries.
    pub mutations: u64,
    reader: Reader,
}

impl Target {
    /// Runs an input.
    ///
    /// # Errors
    /// The promise that was broken.
    pub fn judge(&self, input: &[u8]) -> Judged {
        let input = input.get(..self.length_max).unwrap_or(input);
        match self.reader {
            Reader::Of(judge) => judge(input),
            Reader::Request(command) => requests::judge(command, input),
        }
    }
}

/// Inputs of a codec: a message, a few, a list.
const BODY_LENGTH_MAX: usize = 4 << 10;
/// Inputs that are files, or edits of files.
const FILE_LENGTH_MAX: usize = 64 << 10;
const MUTATIONS: u64 = 20_000;

const fn body(name: &'static str, judge: fn(&[u8]) -> Judged) -> Target {
    Target { name, length_max: BODY_LENGTH_MAX, mutations: MUTATIONS, reader: Reader::Of(judge) }
}

const fn request(name: &'static str, command: i16) -> Target {
    Target { name, length_max: BODY_LENGTH_MAX, mutations: MUTATIONS, reader: Reader::Request(command) }
}

const fn file(name: &'static str, mutations: u64, judge: fn(&[u8]) -> Judged) -> Target {
    Target { name, length_max: FILE_LENGTH_MAX, mutations, reader: Reader::Of(judge) }
}

/// All targets: the readers below, and the requests of delaymq's own commands.
pub static TARGETS: LazyLock<Vec<Target>> = LazyLock::new(|| {
    // The names live as long as the program, as those of the others do.
    let own = COMMANDS.iter().map(|(command, name)| request(format!("own_{name}").leak(), *command));
    OTHERS.iter().copied().chain(own).collect()
});

const OTHERS: &[Target] = &[
    file("batch_scanner", MUTATIONS, log::judge),
    file("foreign_batch", MUTATIONS, foreign::judge),
    file("run_reader", MUTATIONS, runs::judge),
    file("staged_run", MUTATIONS, staging::judge),
    file("checkpoint", MUTATIONS, checkpoints::judge),
    file("store_opener", 5_000, stores::judge),
    body("identity", stores::judge_identity),
    body("record", records::judge),
    body("record_bytes", records::judge_bytes),
    body("meta", records::judge_meta),
    body("receipt", records::judge_receipt),
    file("frame_decoder", MUTATIONS, frames::judge),
    file("peer_frames", MUTATIONS, peers::judge),
    body("http", http::judge),
    request("qmq_send", SEND),
    request("qmq_pull", PULL),
    request("qmq_ack", ACK),
    request("qmq_consume_manage", CONSUME_MANAGE),
    request("qmq_register", CLIENT_REGISTER),
    body("qmq_message", answers::judge_message),
    body("qmq_pulled", answers::judge_pulled),
    body("qmq_failures", answers::judge_failures),
    body("qmq_registered", answers::judge_registered),
    body("own_welcome_answer", answers::judge_welcome),
    body("own_receipts_answer", answers::judge_receipts),
    body("own_outcomes_answer", answers::judge_outcomes),
    body("own_moved_answer", answers::judge_moved),
    body("own_subscribed_answer", answers::judge_subscribed),
    body("own_deliver", answers::judge_deliver),
    body("own_status_answer", answers::judge_status),
    body("own_clock_answer", answers::judge_clock),
    body("own_fates_answer", answers::judge_fates),
    body("own_key_fate_answer", answers::judge_key_fate),
    body("own_pending_answer", answers::judge_pending),
    body("own_pending_counts_answer", answers::judge_pending_counts),
    body("own_forecast_answer", answers::judge_forecast),
    body("own_recurring_answer", answers::judge_recurring),
    body("own_load_answer", answers::judge_load),
    body("own_groups_answer", answers::judge_groups),
    body("own_subjects_answer", answers::judge_subjects),
    body("own_consumers_answer", answers::judge_consumers),
    body("own_dead_letters_answer", answers::judge_letters),
    body("own_number_answer", answers::judge_number),
    body("own_error_answer", answers::judge_error),
];

/// The target of this name.
pub fn named(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
