//! Time in a model. It stands still while any thread can go on, and then moves to the first moment that a thread waits
//! for. So the time that has passed shows whether a thread was rescued by a timeout because no other thread woke it.
//!
//! All threads of a model are one thread of the operating system, one after the other.

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

/// The thread that lets time pass.
struct Keeper {
    task: TaskId,
    thread: Thread,
    /// No thread waits for any time.
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

/// True for the thread that lets time pass: it runs when no other can.
pub fn is_keeper(task: TaskId) -> bool {
    TIME.with_borrow(|time| time.keeper.as_ref().is_some_and(|keeper| keeper.task == task))
}

/// Begins a model, without anything of the one before.
pub fn begin() {
    TIME.set(Timeline::default());
}

/// Runs a model, in which at most `limit` of time may pass. The scheduler must let the keeper of time run last.
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

/// A condition variable whose waits may end by time.
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

/// Threads. A parked thread is woken only by `unpark`: one that wakes by chance would hide a missing wake-up.
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
        /// Waits for the token; with a duration, at most for so long.
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

    /// The handle by which a thread is woken.
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
