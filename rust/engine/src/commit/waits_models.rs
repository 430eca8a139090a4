//! Models of the waits, which `tests/models/waits.rs` runs in every order of their threads' steps. They are not among the
//! tests because they see what is private here, and a second build of this crate for them would take longer than they do.

use std::sync::Arc;
use std::time::Duration;

use delaymq_core::units::Sequence;

use super::{EventCount, Positions, Signal, Waited};
use crate::held;

/// The models. The first one is that of a thread that waits for a position.
pub const MODELS: [fn(); 5] = [
    a_position_is_reached,
    a_position_is_reached_for_two,
    a_position_is_never_reached,
    a_signal_is_raised,
    there_is_news,
];

/// A thread that does this with what it shares.
struct Other(shuttle::thread::JoinHandle<()>);

impl Other {
    fn begin<T: Send + Sync + 'static>(shared: &Arc<T>, act: fn(&T)) -> Self {
        let shared = Arc::clone(shared);
        Self(shuttle::thread::spawn(move || act(&shared)))
    }

    fn ends(self) {
        assert!(self.0.join().is_ok());
    }
}

fn a_position_is_reached() {
    let positions = Arc::new(Positions::default());
    let other = Other::begin(&positions, |positions| positions.advance(Sequence(2)));
    assert_eq!(positions.wait(Sequence(2), None), Waited::Reached);
    other.ends();
    assert!(held(&positions.waiters).is_empty());
}

fn a_position_is_reached_for_two() {
    let positions = Arc::new(Positions::default());
    let other = Other::begin(&positions, |positions| assert_eq!(positions.wait(Sequence(1), None), Waited::Reached));
    positions.advance(Sequence(2));
    assert_eq!(positions.wait(Sequence(2), None), Waited::Reached);
    other.ends();
}

fn a_position_is_never_reached() {
    let positions = Arc::new(Positions::default());
    let other = Other::begin(&positions, Positions::end);
    assert_eq!(positions.wait(Sequence(2), None), Waited::Ended);
    other.ends();
}

fn a_signal_is_raised() {
    let signal = Arc::new(Signal::default());
    let other = Other::begin(&signal, Signal::raise);
    assert!(signal.sleep(Duration::MAX));
    other.ends();
}

fn there_is_news() {
    let news = Arc::new(EventCount::default());
    let seen = news.count();
    let other = Other::begin(&news, EventCount::notify_all);
    assert!(news.wait_beyond(seen, Duration::MAX));
    other.ends();
}
