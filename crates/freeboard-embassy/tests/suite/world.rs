//! Tasks in simulated time.

use core::cell::Cell;
use core::pin::Pin;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Poll, Waker};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Wake;

use embassy_time::{Duration, Instant, MockDriver};

/// The clock is one for all tests of the program.
static CLOCK: Mutex<()> = Mutex::new(());

/// Resolution of the simulation.
const STEP: Duration = Duration::from_micros(20);

#[derive(Debug)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

struct Task<'a> {
    future: Pin<Box<dyn Future<Output = ()> + 'a>>,
    flag: Arc<Flag>,
    polls: Rc<Cell<u64>>,
}

/// An executor and the clock, which begins at 0. Tasks are polled only after they were woken.
pub(crate) struct World<'a> {
    tasks: Vec<Task<'a>>,
    _clock: MutexGuard<'static, ()>,
}

impl<'a> World<'a> {
    pub(crate) fn new() -> Self {
        let clock = CLOCK.lock().unwrap_or_else(PoisonError::into_inner);
        MockDriver::get().reset();
        Self { tasks: vec![], _clock: clock }
    }

    /// Adds a task; returns how often it has been polled.
    pub(crate) fn spawn(&mut self, future: impl Future<Output = ()> + 'a) -> Rc<Cell<u64>> {
        let polls = Rc::new(Cell::new(0));
        let flag = Arc::new(Flag(AtomicBool::new(true)));
        self.tasks.push(Task { future: Box::pin(future), flag, polls: Rc::clone(&polls) });
        polls
    }

    /// Runs until the clock has this time.
    pub(crate) fn run_until(&mut self, end: Duration) {
        while Instant::now() < Instant::from_ticks(end.as_ticks()) {
            let mut in_this_step = 0;
            while self.poll_woken() {
                in_this_step += 1;
                assert!(in_this_step < 1_000, "tasks wake each other without end");
            }
            MockDriver::get().advance(STEP);
        }
    }

    /// Polls all woken tasks once; returns false if there was none.
    fn poll_woken(&mut self) -> bool {
        let mut was_woken = false;
        self.tasks.retain_mut(|Task { future, flag, polls }| {
            if !flag.0.swap(false, Ordering::Relaxed) {
                return true;
            }
            was_woken = true;
            polls.set(polls.get() + 1);
            let waker = Waker::from(Arc::clone(flag));
            future.as_mut().poll(&mut Context::from_waker(&waker)) == Poll::Pending
        });
        was_woken
    }
}
