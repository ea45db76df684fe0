//! The queue, with the waker of the task that sends from it.

use core::cell::{Cell, RefCell};
use core::fmt;
use core::task::{Context, Waker};

use freeboard::flowhash::{HostIdentity, HostMap, Nat, NoNat};
use freeboard::sched_core::Nanos;
use freeboard::{AllAlike, Frames, HostRules, PushError, SmartQueue, Storage};

use crate::{ShapedDriverError, clock, now};

/// A [`SmartQueue`] that a [`ShapedDriver`](crate::ShapedDriver) and other tasks of the same
/// executor use together.
///
/// The type parameters are those of [`SmartQueue`] and [`Frames`].
///
/// ```
/// # use freeboard::flowhash::HostMap;
/// use freeboard::sched_core::Nanos;
/// use freeboard::shaper::Rate;
/// use freeboard::{SmartQueue, StaticFrames};
/// use freeboard_embassy::SharedQueue;
/// # #[derive(Debug)]
/// # struct Line(Rate);
/// # let line = Line(Rate::megabits_per_second(2)?);
///
/// let mut memory = StaticFrames::<32, 1_514, 1>::new();
/// let key = [42; 16]; // 16 random bytes
/// let queue = SmartQueue::upload(Rate::megabits_per_second(1)?).frames_in(&mut memory, key)?;
/// let queue = SharedQueue::new(queue);
/// // In another task, when the link has another rate; `freeboard_embassy::now()` is the time.
/// # let now = Nanos(0);
/// queue.with(|queue| queue.set_rate(now, line.0));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub struct SharedQueue<S: Storage, N = NoNat, R = AllAlike, I = HostMap> {
    queue: RefCell<SmartQueue<S, Frames<S, N, R, I>>>,
    /// The task of the network stack, once it has polled the driver.
    stack: RefCell<Option<Waker>>,
    /// Longest frame of the driver in bytes, once there is one.
    mtu: Cell<Option<usize>>,
}

impl<S: Storage, N, R, I> fmt::Debug for SharedQueue<S, N, R, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedQueue").field("queue", &self.queue).finish_non_exhaustive()
    }
}

impl<S: Storage, N, R, I> SharedQueue<S, N, R, I> {
    /// Shares a queue.
    pub const fn new(queue: SmartQueue<S, Frames<S, N, R, I>>) -> Self {
        let queue = RefCell::new(queue);
        Self { queue, stack: RefCell::new(None), mtu: Cell::new(None) }
    }

    /// Calls `act` with the queue, to change its settings or to read its counters. Then wakes the
    /// task of the stack, also if `act` has only read; it sends what may leave now. Do not replace
    /// the queue, and enqueue with [`forward`](Self::forward), after `act`.
    ///
    /// # Panics
    /// If `act` calls this method or [`forward`](Self::forward), or creates a driver for this
    /// queue.
    pub fn with<T>(&self, act: impl FnOnce(&mut SmartQueue<S, Frames<S, N, R, I>>) -> T) -> T {
        let result = act(&mut self.queue.borrow_mut());
        self.wake();
        result
    }

    /// Calls `act` with the queue, without waking the task of the stack.
    pub(crate) fn within<T>(
        &self,
        act: impl FnOnce(&mut SmartQueue<S, Frames<S, N, R, I>>) -> T,
    ) -> T {
        act(&mut self.queue.borrow_mut())
    }

    /// Records the task of the stack.
    pub(crate) fn register(&self, cx: &Context<'_>) {
        let mut stack = self.stack.borrow_mut();
        if !stack.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            *stack = Some(cx.waker().clone());
        }
    }

    /// Limits what is enqueued to what the driver can send.
    pub(crate) fn set_mtu(&self, mtu: usize) -> Result<(), ShapedDriverError> {
        if self.mtu.get().is_some() {
            return Err(ShapedDriverError::HasDriver);
        }
        let packets = self.queue.borrow().backlog().packets;
        if packets > 0 {
            return Err(ShapedDriverError::NotEmpty { packets });
        }
        self.mtu.set(Some(mtu));
        Ok(())
    }

    fn wake(&self) {
        if let Some(waker) = &*self.stack.borrow() {
            waker.wake_by_ref();
        }
    }
}

impl<S: Storage, N: Nat, R: HostRules, I: HostIdentity> SharedQueue<S, N, R, I> {
    /// Enqueues a frame of another host, sent along with those of the stack, and wakes the task of
    /// the stack when it may leave. Create the [`ShapedDriver`](crate::ShapedDriver) first: it
    /// accepts only an empty queue.
    ///
    /// # Errors
    /// [`PushError`] for a frame that was not queued, such as one longer than the MTU of the
    /// driver. The queue counts it as rejected, without its bytes if it is above the MTU.
    pub fn forward(&self, frame: &[u8]) -> Result<(), PushError> {
        self.enqueue(frame.len(), |queue, now| queue.push(now, frame))
    }

    /// Calls `push` for a frame of `len` bytes that the driver can send, and wakes the task of the
    /// stack when it may leave. Counts another as rejected.
    pub(crate) fn enqueue(
        &self,
        len: usize,
        push: impl FnOnce(&mut SmartQueue<S, Frames<S, N, R, I>>, Nanos) -> Result<(), PushError>,
    ) -> Result<(), PushError> {
        let now = now();
        let queued = self.within(|queue| match self.mtu.get() {
            Some(max) if len > max => {
                // A buffer may be long enough for it. The queue rejects an empty frame always.
                let _rejected = queue.push(now, &[]);
                Err(PushError::Length { len, max })
            }
            _ => push(queue, now),
        });
        self.arm(now);
        queued
    }

    /// Wakes the task of the stack when the next frame may leave. If the device is busy, the device
    /// wakes it.
    pub(crate) fn arm(&self, now: Nanos) {
        match self.queue.borrow().poll_at(now) {
            None => {}
            Some(at) if at <= now => self.wake(),
            Some(at) => {
                if let Some(waker) = &*self.stack.borrow() {
                    embassy_time_driver::schedule_wake(clock::ticks(at), waker);
                }
            }
        }
    }
}
