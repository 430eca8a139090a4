//! What the server and its store count, as Prometheus reads it.

use std::fmt::Write as _;

use delaymq_core::wire::register::ClientType;
use delaymq_engine::Status;

use crate::hub::Hub;

const COUNTER: &str = "counter";
const GAUGE: &str = "gauge";

/// All metrics.
pub(crate) fn text(hub: &Hub, status: &Status) -> String {
    let mut out = String::new();
    for (name, kind, what, value) in of_store(status).into_iter().chain(of_server(hub)).chain(of_consumers(hub)) {
        // Writing to a string does not fail.
        let _ = write!(out, "# HELP delaymq_{name} {what}\n# TYPE delaymq_{name} {kind}\ndelaymq_{name} {value}\n");
    }
    out
}

type Row = (&'static str, &'static str, &'static str, u64);

fn of_store(status: &Status) -> Vec<Row> {
    let metrics = &status.metrics;
    vec![
        ("pending_messages", GAUGE, "Messages that are not due.", status.pending),
        ("ready_messages", GAUGE, "Messages that are due and not finished by every group.", status.ready),
        ("accepted_facts", COUNTER, "Facts that the log has accepted.", status.accepted.0),
        ("visible_facts", COUNTER, "Facts that are as durable as the store promises.", status.visible.0),
        ("applied_facts", COUNTER, "Facts that are applied.", status.applied.0),
        ("published_messages", COUNTER, "Messages accepted since the store was opened.", metrics.published),
        ("pulled_messages", COUNTER, "Messages given to consumers since then.", metrics.delivered),
        ("commits", COUNTER, "Batches written to the log.", metrics.commits),
        ("committed_bytes", COUNTER, "Bytes written to the log.", metrics.committed_bytes),
        ("syncs", COUNTER, "Syncs of the log.", metrics.syncs),
        ("sync_microseconds", COUNTER, "Time spent in syncs of the log.", metrics.sync_us),
        ("prepared_segments", COUNTER, "Segments of the log prepared.", metrics.prepared_segments),
        ("checkpoints", COUNTER, "Checkpoints taken.", metrics.checkpoints),
        ("voided_messages", COUNTER, "Damaged messages given up.", status.voided),
        ("expired_messages", COUNTER, "Messages that an operator let expire.", status.expired),
        ("dispatch_held", GAUGE, "1 where dispatch waits because the clock is not trusted.", u64::from(status.held)),
        ("disk_full", GAUGE, "1 where publishes are refused for want of room.", u64::from(status.disk_full)),
        ("poisoned", GAUGE, "1 where the store must be opened again.", u64::from(status.poisoned.is_some())),
    ]
}

fn of_consumers(hub: &Hub) -> Vec<Row> {
    let counters = &hub.consumers.counters;
    let (known, held) = hub.consumers.counts();
    vec![
        ("qmq_consumers", GAUGE, "Consumers of QMQ that hold messages or lately asked.", known as u64),
        ("held_pulls", GAUGE, "Pulls that wait for a message.", held as u64),
        ("answered_messages", COUNTER, "Messages that pulls were answered with.", counters.answered.read()),
        ("filtered_messages", COUNTER, "Messages that no filter let pass.", counters.filtered.read()),
        ("passed_over_messages", COUNTER, "Messages retried because passed over.", counters.passed_over.read()),
        ("expired_consumers", COUNTER, "Consumers that were silent for a lease.", counters.expired.read()),
        ("fell_behind", COUNTER, "Times a broadcast consumer was behind what is kept.", counters.fell_behind.read()),
    ]
}

fn of_server(hub: &Hub) -> Vec<Row> {
    let counters = &hub.counters;
    let (promised, without_room) = hub.waiting_counts();
    let clients = |kind| hub.registry.borrow().count(kind) as u64;
    vec![
        ("connections", GAUGE, "Open connections.", hub.peers.borrow().len() as u64),
        ("accepted_connections", COUNTER, "Connections taken.", counters.accepted.read()),
        ("refused_connections", COUNTER, "Connections closed at once for want of room.", counters.refused.read()),
        ("cut_off_connections", COUNTER, "Connections closed for garbage or slowness.", counters.cut_off.read()),
        ("requests", COUNTER, "Requests.", counters.requests.read()),
        ("busy_answers", COUNTER, "Requests told that too much is under way.", counters.busy.read()),
        ("received_bytes", COUNTER, "Bytes read.", counters.bytes_in.read()),
        ("sent_bytes", COUNTER, "Bytes written.", counters.bytes_out.read()),
        ("sent_messages", COUNTER, "Messages sent to subscriptions.", counters.delivered.read()),
        ("waiting_for_log", GAUGE, "Requests that wait for the log to be durable.", promised as u64),
        ("waiting_for_room", GAUGE, "Publishes that wait for room in the log.", without_room as u64),
        ("waiting_for_threads", GAUGE, "Requests on threads or waiting for one.", hub.pool.waiting() as u64),
        ("registered_producers", GAUGE, "QMQ producers of what is due now.", clients(ClientType::Producer)),
        (
            "registered_delay_producers",
            GAUGE,
            "QMQ producers of what is due later.",
            clients(ClientType::DelayProducer),
        ),
        ("registered_consumers", GAUGE, "QMQ consumers.", clients(ClientType::Consumer)),
    ]
}
