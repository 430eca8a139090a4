//! Time in a model. Nothing waits for a clock there: time stands still while any thread can go on, and
//! then moves to the first moment that somebody waits for. So whoever was rescued by a timeout, because
//! nobody woke him, is told by the time that has passed.
//!
//! All threads of a model are, one at a time, one thread of the operating system.

use std::cell::RefCell;
use std::ops::Add;
use std::sync::{Arc, LockResult, PoisonError};
use std::time::Duration;

use shuttle::scheduler::TaskId;
use shuttle::sync::{Mutex, MutexGuard};

use self::thread::{Parker, Thread};

thread_local! {
    static TIME: RefCell<Timeline> = RefCell::default();
}

#[derive(Default)]
struct Timeline {
    now: Duration,
    sleepers: Vec<Sleeper>,
    /// How many sleepers there were: the name of the next one.
    count: u64,
    keeper: Option<Keeper>,
    parkers: Vec<(TaskId, Arc<Parker>)>,
    ended: bool,
}

/// Who lets time pass.
struct Keeper {
    task: TaskId,
    thread: Thread,
    /// Nobody waits for any time.
    rests: bool,
}

struct Sleeper {
    name: u64,
    until: Duration,
    at: Arc<shuttle::sync::Condvar>,
}

/// What the keeper does next.
enum Next {
    Wake(Arc<shuttle::sync::Condvar>),
    Rest,
    End,
    Overdue,
}

impl Timeline {
    fn next(&mut self, limit: Duration) -> Next {
        if self.ended {
            return Next::End;
        }
        let first = self.sleepers.iter().enumerate().min_by_key(|(_, sleeper)| (sleeper.until, sleeper.name));
        let Some(first) = first.map(|(index, _)| index) else {
            if let Some(keeper) = &mut self.keeper {
                keeper.rests = true;
            }
            return Next::Rest;
        };
        let Sleeper { until, at, .. } = self.sleepers.swap_remove(first);
        self.now = self.now.max(until);
        if self.now > limit { Next::Overdue } else { Next::Wake(at) }
    }
}

/// The time since the model began.
pub fn now() -> Duration {
    TIME.with_borrow(|time| time.now)
}

/// True of the thread that lets time pass: it runs where no other can.
pub fn is_keeper(task: TaskId) -> bool {
    TIME.with_borrow(|time| time.keeper.as_ref().is_some_and(|keeper| keeper.task == task))
}

/// A model begins, and nothing is left of the one before.
pub(crate) fn begin() {
    TIME.set(Timeline::default());
}

/// Runs a model, in which no more time than `limit` may pass. Called under a scheduler that lets the
/// keeper of the time run last.
pub fn run(limit: Duration, body: impl FnOnce()) {
    begin();
    let keeper = shuttle::thread::spawn(move || keep_time(limit));
    body();
    TIME.with_borrow_mut(|time| time.ended = true);
    wake_keeper();
    drop(keeper.join());
}

/// Waits for so much of the model's time.
pub fn sleep(duration: Duration) {
    thread::sleep(duration);
}

#[expect(clippy::panic, reason = "so a model fails")]
fn keep_time(limit: Duration) {
    let keeper = Keeper { task: shuttle::current::me(), thread: thread::current(), rests: false };
    TIME.with_borrow_mut(|time| time.keeper = Some(keeper));
    loop {
        shuttle::thread::sleep(Duration::ZERO);
        match TIME.with_borrow_mut(|time| time.next(limit)) {
            Next::Wake(at) => at.notify_all(),
            Next::Rest => thread::park(),
            Next::End => return,
            Next::Overdue => panic!("somebody was not woken and waited for the time, for {limit:?}"),
        }
    }
}

fn wake_keeper() {
    let resting = TIME.with_borrow_mut(|time| {
        let keeper = time.keeper.as_mut()?;
        std::mem::take(&mut keeper.rests).then(|| keeper.thread.clone())
    });
    if let Some(keeper) = resting {
        keeper.unpark();
    }
}

/// A wait with an end.
struct Sleeping {
    name: u64,
}

impl Sleeping {
    fn begin(duration: Duration, at: &Arc<shuttle::sync::Condvar>) -> Self {
        let name = TIME.with_borrow_mut(|time| {
            time.count = time.count.saturating_add(1);
            let until = time.now.saturating_add(duration);
            time.sleepers.push(Sleeper { name: time.count, until, at: Arc::clone(at) });
            time.count
        });
        wake_keeper();
        Self { name }
    }
}

impl Drop for Sleeping {
    fn drop(&mut self) {
        TIME.with_borrow_mut(|time| time.sleepers.retain(|sleeper| sleeper.name != self.name));
    }
}

/// A moment of the model.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Instant(Duration);

impl Instant {
    pub(crate) fn now() -> Self {
        Self(now())
    }

    pub(crate) fn elapsed(self) -> Duration {
        now().saturating_sub(self.0)
    }

    pub(crate) fn duration_since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    pub(crate) fn saturating_duration_since(self, earlier: Self) -> Duration {
        self.duration_since(earlier)
    }

    pub(crate) fn checked_add(self, duration: Duration) -> Option<Self> {
        self.0.checked_add(duration).map(Self)
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }
}

/// A condition variable whose waits may end with the time.
#[derive(Debug, Default)]
pub(crate) struct Condvar(Arc<shuttle::sync::Condvar>);

impl Condvar {
    pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        self.0.wait(guard)
    }

    /// As that of the standard library, without saying why it ended.
    pub(crate) fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        duration: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, ())> {
        let sleeping = Sleeping::begin(duration, &self.0);
        let waited = self.0.wait(guard);
        drop(sleeping);
        waited.map(|guard| (guard, ())).map_err(|poisoned| PoisonError::new((poisoned.into_inner(), ())))
    }

    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// What threads do. A parked one is woken by nobody but who unparks it: one that wakes by chance would
/// find what nobody told it.
pub(crate) mod thread {
    pub(crate) use shuttle::thread::Builder;

    use super::{Arc, Condvar, Duration, Instant, Mutex, PoisonError, TIME, TaskId};

    /// Where a thread waits for its token.
    #[derive(Default)]
    pub(super) struct Parker {
        token: Mutex<bool>,
        given: Condvar,
    }

    impl Parker {
        /// Waits for the token; without one for so long.
        fn park(&self, duration: Option<Duration>) {
            let mut token = self.token.lock().unwrap_or_else(PoisonError::into_inner);
            while !*token {
                token = match duration {
                    None => self.given.wait(token).unwrap_or_else(PoisonError::into_inner),
                    Some(duration) => {
                        let waited = self.given.wait_timeout(token, duration);
                        token = waited.unwrap_or_else(PoisonError::into_inner).0;
                        break;
                    }
                };
            }
            *token = false;
        }
    }

    /// A thread that somebody may want to wake.
    #[derive(Clone)]
    pub(crate) struct Thread {
        task: TaskId,
        parker: Arc<Parker>,
    }

    impl Thread {
        pub(crate) fn id(&self) -> TaskId {
            self.task
        }

        pub(crate) fn unpark(&self) {
            *self.parker.token.lock().unwrap_or_else(PoisonError::into_inner) = true;
            self.parker.given.notify_one();
        }
    }

    pub(crate) fn current() -> Thread {
        let task = shuttle::current::me();
        let parker = TIME.with_borrow_mut(|time| {
            if let Some((_, parker)) = time.parkers.iter().find(|(other, _)| *other == task) {
                return Arc::clone(parker);
            }
            let parker = Arc::<Parker>::default();
            time.parkers.push((task, Arc::clone(&parker)));
            parker
        });
        Thread { task, parker }
    }

    pub(crate) fn park() {
        current().parker.park(None);
    }

    pub(crate) fn park_timeout(duration: Duration) {
        current().parker.park(Some(duration));
    }

    pub(crate) fn sleep(duration: Duration) {
        let until = Instant::now() + duration;
        let (alone, nobody) = (Mutex::new(()), Condvar::default());
        let mut guard = alone.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            guard = nobody.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
