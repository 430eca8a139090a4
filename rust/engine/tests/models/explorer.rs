//! The explorer: it runs a model in many orders. Half of them are drawn step by step. The other half, by PCT, change
//! the order of threads only a few times, which finds faults that need a thread to stand still for long.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use delaymq_engine::{Durability, modelled};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Schedule, Scheduler, Task, TaskId};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};

use crate::world::World;

/// Threads that PCT makes others overtake, and one.
const PCT_DEPTH: usize = 4;
/// More time than this passes in no model.
const TIME_MAX: Duration = Duration::from_secs(600);
const STEPS_MAX: usize = 2_000_000;
/// The deepest call of a store's opening fits several times.
const STACK_BYTES: usize = 1 << 20;

/// Lets the keeper of the time run when nobody else can.
struct TimeLast<S> {
    inner: S,
    orders: Arc<AtomicU64>,
    steps: Arc<AtomicU64>,
}

impl<S: Scheduler> Scheduler for TimeLast<S> {
    fn new_execution(&mut self) -> Option<Schedule> {
        let schedule = self.inner.new_execution();
        self.orders.fetch_add(u64::from(schedule.is_some()), Ordering::Relaxed);
        schedule
    }

    fn next_task(&mut self, runnable: &[&Task], current: Option<TaskId>, is_yielding: bool) -> Option<TaskId> {
        self.steps.fetch_add(1, Ordering::Relaxed);
        let others: Vec<&Task> = runnable.iter().copied().filter(|task| !modelled::is_keeper(task.id())).collect();
        if others.is_empty() {
            return runnable.first().map(|keeper| keeper.id());
        }
        // A keeper that goes to rest gives way to nobody.
        let is_yielding = is_yielding && current.is_some_and(|current| !modelled::is_keeper(current));
        self.inner.next_task(&others, current, is_yielding)
    }

    fn next_u64(&mut self) -> u64 {
        self.inner.next_u64()
    }
}

fn number_from(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().map_or(otherwise, |text| text.parse().unwrap())
}

fn config() -> Config {
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    config.failure_persistence = FailurePersistence::None;
    config.max_steps = MaxSteps::FailAfter(STEPS_MAX);
    config.silence_warnings = true;
    config
}

/// How much was tried.
#[derive(Clone, Default)]
pub(crate) struct Tried {
    pub(crate) orders: Arc<AtomicU64>,
    pub(crate) steps: Arc<AtomicU64>,
}

impl Tried {
    fn run(&self, inner: impl Scheduler + 'static, folder: &Path, durability: Durability, model: fn(&Arc<World>)) {
        let scheduler = TimeLast { inner, orders: Arc::clone(&self.orders), steps: Arc::clone(&self.steps) };
        let folder = folder.to_owned();
        Runner::new(scheduler, config()).run(move || {
            modelled::run(TIME_MAX, || model(&Arc::new(World::new(&folder, durability))));
        });
    }

    /// Tries the model in so many orders of each kind.
    pub(crate) fn both(&self, orders: usize, folder: &Path, durability: Durability, model: fn(&Arc<World>)) {
        let seed = number_from("DELAYMQ_MODEL_SEED", 1);
        self.run(RandomScheduler::new_from_seed(seed, orders), folder, durability, model);
        self.run(PctScheduler::new_from_seed(seed, PCT_DEPTH, orders), folder, durability, model);
    }
}

/// Adds a line to what `make models` shows.
pub(crate) fn note(line: &str) {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("models.txt");
    let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
    writeln!(file, "{line}").unwrap();
}

/// Tries a model in `orders` orders, or as many times that as the environment says.
pub(crate) fn tries(name: &str, orders: usize, durability: Durability, model: fn(&Arc<World>)) {
    let folder = tempfile::tempdir().unwrap();
    let times = usize::try_from(number_from("DELAYMQ_MODEL_TIMES", 1)).unwrap();
    let (tried, began) = (Tried::default(), Instant::now());
    tried.both(orders * times / 2, folder.path(), durability, model);
    let (orders, steps) = (tried.orders.load(Ordering::Relaxed), tried.steps.load(Ordering::Relaxed));
    note(&format!("{name}: {orders} orders, {steps} steps, {:.1} s", began.elapsed().as_secs_f64()));
}
