//! The metrics of the server and its store, in Prometheus' text format. Names end in their unit, and those of counters
//! in `_total`.

use std::fmt::{Display, Write as _};

use delaymq_core::wire::qmq::register::ClientType;
use delaymq_engine::{Durability, Status};

use crate::access::entrance::Entrance;
use crate::http::cluster::ClusterPages;
use crate::http::page::Page;
use crate::server_state::ServerState;

/// The type of Prometheus' text.
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";
const COUNTER: &str = "counter";
const GAUGE: &str = "gauge";

/// All metrics.
pub(crate) fn text(state: &ServerState, status: &Status) -> String {
    let mut page = Text(String::new());
    put_store(&mut page, status);
    put_engine(&mut page, status);
    put_entrance(&mut page, &state.entrance);
    put_memory(&mut page, state);
    put_requests(&mut page, state);
    put_deliveries(&mut page, state);
    put_consumers(&mut page, state);
    put_clients(&mut page, state);
    page.0
}

/// The metrics of a standby.
pub(crate) fn of_standby(entrance: &Entrance, relays: usize, relayed: u64, failed: u64) -> String {
    let mut page = Text(String::new());
    put_entrance(&mut page, entrance);
    put_answers(&mut page, entrance);
    page.gauge("relayed_connections", "Connections of QMQ clients that are relayed to the primary.", relays);
    page.counter("relays", "Connections of QMQ clients that were relayed.", relayed);
    page.counter("failed_relays", "Those that were closed instead, because no primary was reached.", failed);
    page.0
}

/// The page of these metrics, with those of the group of copies behind them.
pub(crate) fn page(mut text: String, cluster: Option<&dyn ClusterPages>) -> Page {
    text.extend(cluster.map(ClusterPages::metrics));
    Page { status: 200, kind: METRICS, body: text }
}

/// The text so far.
struct Text(String);

impl Text {
    /// Begins a family; its samples follow.
    fn family(&mut self, name: &str, kind: &str, what: &str) {
        // Writing to a string does not fail.
        let _ = writeln!(self.0, "# HELP delaymq_{name} {what}\n# TYPE delaymq_{name} {kind}");
    }

    fn sample(&mut self, name: &str, value: impl Display) {
        let _ = writeln!(self.0, "delaymq_{name} {value}");
    }

    fn labelled(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let _ = write!(self.0, "delaymq_{name}{{");
        for (place, (label, text)) in labels.iter().enumerate() {
            let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.0, "{}{label}=\"{text}\"", if place == 0 { "" } else { "," });
        }
        let _ = writeln!(self.0, "}} {value}");
    }

    /// A family of one sample.
    fn one(&mut self, name: &str, kind: &str, what: &str, value: impl Display) {
        self.family(name, kind, what);
        self.sample(name, value);
    }

    fn counter(&mut self, name: &str, what: &str, value: u64) {
        self.one(&format!("{name}_total"), COUNTER, what, value);
    }

    fn gauge(&mut self, name: &str, what: &str, value: impl Display) {
        self.one(name, GAUGE, what, value);
    }

    /// A family with one sample for each value of a label.
    fn counters<T: Display>(&mut self, name: &str, what: &str, label: &str, rows: impl IntoIterator<Item = (T, u64)>) {
        let name = format!("{name}_total");
        self.family(&name, COUNTER, what);
        for (text, count) in rows {
            self.labelled(&name, &[(label, &text.to_string())], count);
        }
    }
}

/// Seconds, exactly, from a count of parts: thousandths have three digits.
fn seconds(count: u64, digits: u32) -> String {
    let in_one = 10_u64.saturating_pow(digits);
    let (whole, part) = (count / in_one, count % in_one);
    if part == 0 {
        return whole.to_string();
    }
    format!("{whole}.{part:0width$}", width = digits as usize).trim_end_matches('0').to_owned()
}

fn put_store(page: &mut Text, status: &Status) {
    page.family("info", GAUGE, "What runs; always 1.");
    let durability = match status.durability {
        Durability::Disk => "disk",
        Durability::Os => "os",
    };
    page.labelled("info", &[("version", env!("CARGO_PKG_VERSION")), ("durability", durability)], 1);
    page.gauge("pending_messages", "Messages that are not due.", status.pending);
    page.gauge("hot_minutes", "Minutes in which more messages are due than are allowed for.", status.hot_minutes);
    page.gauge("ready_messages", "Messages that are due and not finished by every group.", status.ready);
    page.counter("accepted_facts", "Facts that the log has accepted.", status.accepted.0);
    page.counter("written_facts", "Facts that are written.", status.written.0);
    page.counter("synced_facts", "Facts that are on disk.", status.synced.0);
    page.counter("visible_facts", "Facts that are as durable as the store promises.", status.visible.0);
    page.counter("applied_facts", "Facts that are applied.", status.applied.0);
    page.counter("voided_messages", "Damaged messages given up.", status.voided);
    page.counter(
        "expired_messages",
        "Messages that have expired, by their own time or by an operator.",
        status.expired,
    );
    let recovered = seconds(u64::try_from(status.recovered_in.as_millis()).unwrap_or(u64::MAX), 3);
    page.gauge("recovery_seconds", "How long the open took.", recovered);
    page.gauge("recovered_facts", "Facts that the open applied.", status.recovered_facts);
    page.gauge("epoch", "How often the store was opened.", status.epoch);
    page.gauge("trusted_time_seconds", "The clock by which messages are due.", seconds(status.now.0, 3));
    let flag = u8::from;
    page.gauge("dispatch_held", "1 where dispatch waits because the clock is not trusted.", flag(status.held));
    page.counter("clock_steps", "Steps of the wall clock of a second and more.", status.clock_steps);
    let what = "Steps of the wall clock that were accepted while dispatch was held, by an operator or by the setting.";
    page.counter("clock_accepts", what, status.clock_accepts);
    page.gauge("disk_full", "1 where publishes are refused for want of room.", flag(status.disk_full));
    page.gauge("room_low", "1 where less of the disk is free than warn_free_bytes.", flag(status.room_low));
    if let Some(free_bytes) = status.free_bytes {
        page.gauge("free_bytes", "What is free on the disk, where a mark is set.", free_bytes);
    }
    page.gauge("poisoned", "1 where the store must be opened again.", flag(status.poisoned.is_some()));
}

fn put_engine(page: &mut Text, status: &Status) {
    let metrics = &status.metrics;
    page.counter("published_messages", "Messages accepted since the store was opened.", metrics.published);
    page.counter("pulled_messages", "Messages given to consumers since then.", metrics.delivered);
    page.counter("redriven_messages", "Dead letters brought back.", metrics.redriven);
    page.counter("commits", "Batches written to the log.", metrics.commits);
    page.counter("led_commits", "Those of them that a publisher wrote on its own thread.", metrics.led_commits);
    page.counter("committed_bytes", "Bytes written to the log.", metrics.committed_bytes);
    page.counter("syncs", "Syncs of the log.", metrics.syncs);
    page.one("sync_seconds_total", COUNTER, "Time spent in syncs of the log.", seconds(metrics.sync_us, 6));
    page.counter("steps", "Steps of the owner.", metrics.steps);
    page.counter("checkpoints", "Checkpoints taken.", metrics.checkpoints);
    page.counter(
        "merged_windows",
        "Parts of the schedule that became one with their neighbours.",
        metrics.merged_windows,
    );
    page.counter("prepared_segments", "Segments prepared.", metrics.prepared_segments);
    page.counter("retired_files", "Files retired.", metrics.retired_files);
    page.counter("punched_bytes", "Bytes of segments and runs given back as holes.", metrics.punched_bytes);
}

fn put_entrance(page: &mut Text, entrance: &Entrance) {
    let Entrance { access, counters, connections, strangers, http_connections } = entrance;
    page.gauge("connections", "Open connections.", connections.taken());
    page.gauge("stranger_connections", "Those of them whose peers have not given the token.", strangers.taken());
    page.gauge("http_connections", "Open connections of plain HTTP.", http_connections.taken());
    page.counter("accepted_connections", "Connections taken.", counters.accepted.read());
    let what = "Connections closed at once, by which limit was reached.";
    page.counters("refused_connections", what, "limit", counters.refused.read());
    let what = "Connections ended for what their peers sent, or for slowness.";
    page.counters("cut_off_connections", what, "reason", counters.cut_off.read());
    page.counter("received_bytes", "Bytes read.", counters.bytes_in.read());
    page.counter("sent_bytes", "Bytes written.", counters.bytes_out.read());
    page.counter("wrong_tokens", "Tokens that were wrong.", access.wrong_tokens.read());
    let what = "Tokens not looked at, for too many wrong ones came from their addresses.";
    page.counter("unheard_tokens", what, access.unheard_tokens.read());
    let what = "Requests of peers that had not given the token.";
    page.counter("unauthorized_requests", what, access.unauthorized.read());
    let what = "QMQ clients from where none is expected.";
    page.counter("turned_away_qmq_clients", what, access.turned_away.read());
}

fn put_memory(page: &mut Text, state: &ServerState) {
    page.gauge("input_bytes", "Bytes read of requests that are not there whole.", state.input_bytes.get());
    page.gauge("kept_bytes", "Bytes that all connections make the server keep.", state.scales.borrow().bytes());
}

fn put_answers(page: &mut Text, entrance: &Entrance) {
    let counters = &entrance.counters;
    page.counters("requests", "Requests, by command.", "command", counters.requests.read());
    page.counters("failed_answers", "Answers with another code than 0.", "code", counters.failed.read());
}

fn put_requests(page: &mut Text, state: &ServerState) {
    put_answers(page, &state.entrance);
    let busy = state.entrance.counters.busy.read();
    page.counter("busy_answers", "Requests told that too much is under way.", busy);
    let (mut open, mut held) = (0_usize, 0_usize);
    for peer in state.peers.borrow().values() {
        let under_way = peer.under_way();
        open = open.saturating_add(under_way.0);
        held = held.saturating_add(under_way.1);
    }
    page.gauge("requests_in_flight", "Requests that are not answered yet.", open);
    page.gauge("held_requests", "Those of them that wait for a message.", held);
    let (promised, without_room) = state.waiting_counts();
    page.gauge("waiting_for_log", "Requests that wait for the log to be durable.", promised);
    page.gauge("waiting_for_room", "Publishes that wait for room in the log.", without_room);
    page.gauge("waiting_for_threads", "Requests on threads or waiting for one.", state.pool.waiting());
}

fn put_deliveries(page: &mut Text, state: &ServerState) {
    page.gauge("subscriptions", "Subscriptions of connections.", state.deliveries.borrow().len());
    page.counter("sent_messages", "Messages sent to subscriptions.", state.entrance.counters.delivered.read());
    let what = "From when a message was due, or came if that was later, until it was sent the first time.";
    page.family("lateness_seconds", "histogram", what);
    let (steps, count, sum_ms) = state.entrance.counters.lateness.read();
    for (bound_ms, so_far) in steps {
        page.labelled("lateness_seconds_bucket", &[("le", &seconds(bound_ms, 3))], so_far);
    }
    page.labelled("lateness_seconds_bucket", &[("le", "+Inf")], count);
    page.sample("lateness_seconds_sum", seconds(sum_ms, 3));
    page.sample("lateness_seconds_count", count);
}

fn put_consumers(page: &mut Text, state: &ServerState) {
    let counters = &state.consumers.counters;
    let (known, held) = state.consumers.counts();
    page.gauge("qmq_consumers", "Consumers of QMQ that hold messages or lately asked.", known);
    page.gauge("held_pulls", "Pulls that wait for a message.", held);
    page.counter("answered_messages", "Messages that pulls were answered with.", counters.answered.read());
    page.counter("filtered_messages", "Messages that no filter let pass.", counters.filtered.read());
    page.counter("passed_over_messages", "Messages retried because passed over.", counters.passed_over.read());
    page.counter("expired_consumers", "Consumers that were silent for a lease.", counters.expired.read());
}

fn put_clients(page: &mut Text, state: &ServerState) {
    let registry = state.registry.borrow();
    page.family("registered_clients", GAUGE, "QMQ clients that have registered, by what they are.");
    for (word, kind) in [
        ("producer", ClientType::Producer),
        ("delay_producer", ClientType::DelayProducer),
        ("consumer", ClientType::Consumer),
    ] {
        page.labelled("registered_clients", &[("type", word)], registry.count(kind));
    }
    page.counter("unrecorded_registrations", "Registrations not kept for want of room.", registry.unrecorded());
    page.gauge("switched_off_consumers", "Consumers that are switched off.", registry.switched_off().len());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_label_says_cannot_end_it() {
        let mut page = Text(String::new());
        page.labelled("a", &[("b", "x\"y\\z\n"), ("c", "é")], 1);
        assert_eq!(page.0, "delaymq_a{b=\"x\\\"y\\\\z\\n\",c=\"é\"} 1\n");
    }

    #[test]
    fn seconds_are_exact() {
        let told = [(0, 3), (1, 3), (20, 3), (1_500, 3), (3_600_000, 3), (7, 6), (u64::MAX, 6)];
        let expected = ["0", "0.001", "0.02", "1.5", "3600", "0.000007", "18446744073709.551615"];
        assert_eq!(told.map(|(count, digits)| seconds(count, digits)), expected);
    }
}
