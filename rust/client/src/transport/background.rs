//! The thread of a client: it connects, and reconnects when the connection is lost. It reads the socket whenever no
//! caller does, so that a client answers pings and receives messages whatever the program does.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use crate::transport::state::{Reader, State};
use crate::transport::{Shared, waited};

/// For how long the thread leaves reading to callers that were active: a caller that reads its own answer saves a
/// change of threads.
const STANDBY_MS: u64 = 5;
/// The first and the longest delay between two rounds of attempts to connect.
const RETRY_MS: (u64, u64) = (50, 5_000);
/// The nodes of a round share the time that connecting to one node may take, but each may take so long, and so long again for
/// its hello: a node that is stopped accepts connections.
const CONNECT_MIN: Duration = Duration::from_secs(2);

/// Runs until the client ends. If the thread fails, all waiters get an error: without it none would ever get one.
pub(super) fn run(shared: &Arc<Shared>) {
    if let Err(panic) = std::panic::catch_unwind(AssertUnwindSafe(|| keep_connected(shared))) {
        let formatted = panic.downcast_ref::<String>().map(String::as_str);
        let reason = formatted.or(panic.downcast_ref::<&str>().copied()).unwrap_or("its thread failed");
        // The report may be what failed.
        let _reported = std::panic::catch_unwind(AssertUnwindSafe(|| shared.fail(reason)));
    }
    let mut state = shared.lock();
    state.wakeup.close();
    state.is_over = true;
    shared.ended.notify_all();
}

fn keep_connected(shared: &Shared) {
    while !shared.lock().has_ended() {
        let (address, timeout) = {
            let state = shared.lock();
            let share = shared.hello.checked_div(state.nodes.count()).unwrap_or(shared.hello);
            (state.nodes.current().clone(), share.max(CONNECT_MIN).min(shared.hello))
        };
        match address.connect(timeout) {
            Err(cause) => shared.lock().disconnect(&cause, shared.now_ms(), &shared.background),
            Ok(connected) => {
                let mut state = shared.lock();
                if state.has_ended() {
                    break;
                }
                let hello_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
                state.connect(connected, hello_ms, shared.now_ms(), &shared.background);
                drop(serve(shared, state));
            }
        }
        back_off(shared);
    }
    let mut state = shared.lock();
    state.socket = None;
    state.pass_on(&shared.background);
    drop(report(shared, state));
}

/// Serves the connection until it is lost or the client ends.
fn serve<'a>(shared: &'a Shared, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
    let mut waits_seen = state.waits;
    while state.socket.is_some() && !state.has_ended() {
        if !state.reports.is_empty() {
            state = report(shared, state);
            continue;
        }
        let is_active = std::mem::replace(&mut waits_seen, state.waits) != state.waits;
        if state.reader == Reader::Nobody && (!is_active || state.loop_events.is_some()) {
            state.reader = Reader::Background;
            state = shared.poll(state, None).0;
            state.reader = Reader::Nobody;
            if state.waits != waits_seen {
                // A caller that waits reads its own answer from now on.
                state.hand_over(&shared.background);
            }
            continue;
        }
        let until_ms = if is_active || state.reader == Reader::Nobody {
            let due_ms = state.session.next_due_ms().unwrap_or(u64::MAX);
            shared.now_ms().saturating_add(STANDBY_MS).min(due_ms)
        } else {
            u64::MAX
        };
        state = sleep(shared, state, until_ms);
    }
    state
}

/// Passes on the reports, without the lock.
fn report<'a>(shared: &'a Shared, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
    let reports = std::mem::take(&mut state.reports);
    drop(state);
    for report in &reports {
        (shared.report)(report);
    }
    shared.lock()
}

/// Sleeps until this time, or until it is woken.
fn sleep<'a>(shared: &'a Shared, mut state: MutexGuard<'a, State>, until_ms: u64) -> MutexGuard<'a, State> {
    state.sleeps_until_ms = Some(until_ms);
    let left = Duration::from_millis(until_ms.saturating_sub(shared.now_ms()).min(3_600_000));
    let mut state = waited(shared.background.wait_timeout(state, left));
    state.sleeps_until_ms = None;
    state
}

/// Passes on the reports. Then waits, if a round is over, longer after each.
fn back_off(shared: &Shared) {
    let mut state = report(shared, shared.lock());
    let Some(delay) = state.nodes.delay() else { return };
    let (first_ms, longest_ms) = RETRY_MS;
    let delay_ms = first_ms.saturating_mul(1_u64 << delay.saturating_sub(1).min(10)).min(longest_ms);
    let until_ms = shared.now_ms().saturating_add(jittered(delay_ms));
    while !state.has_ended() && shared.now_ms() < until_ms {
        state = sleep(shared, state, until_ms);
        if !state.reports.is_empty() {
            state = report(shared, state);
        }
    }
}

/// Up to 30 percent more or less, so that clients which lost one server do not come back all at once.
fn jittered(delay_ms: u64) -> u64 {
    use std::hash::{BuildHasher, Hasher};
    let random = std::hash::RandomState::new().build_hasher().finish();
    let spread = delay_ms.saturating_mul(6) / 10;
    let low = delay_ms.saturating_sub(spread / 2);
    low.saturating_add(random.checked_rem(spread.saturating_add(1)).unwrap_or(0))
}
