//! The pages of plain HTTP that a standby has of its own.

use delaymq_core::wire::http::HttpRequest;

use crate::http::metrics;
use crate::http::page::{Page, text};
use crate::standby::state::StandbyState;

/// A page, by its path.
pub(super) fn page(state: &StandbyState, request: &HttpRequest<'_>) -> Page {
    match request.path {
        // QMQ's clients that use the address of this node are relayed.
        "/meta/address" => text(200, state.primary_address().unwrap_or_else(|| state.address.clone())),
        "/metrics" => metrics_page(state),
        _ => text(503, not_primary(state)),
    }
}

fn metrics_page(state: &StandbyState) -> Page {
    let (relayed, failed) = (state.relayed.read(), state.failed_relays.read());
    let text = metrics::of_standby(&state.entrance, state.relays.get(), relayed, failed);
    metrics::page(text, Some(&*state.cluster))
}

fn not_primary(state: &StandbyState) -> String {
    let primary = state.primary_address().map_or_else(|| "none is known".to_owned(), |address| format!("{address} is"));
    format!("this node is not the primary of its copies; {primary}\n")
}
