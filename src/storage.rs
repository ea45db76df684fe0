//! Storage of a queue's tables.

use core::fmt;
use core::marker::PhantomData;

use sched_core::Table;

/// The kind of memory for a queue's tables, with optional tables that most queues do not need.
///
/// - [`Heap`]: allocated, with the feature `alloc`.
/// - [`Slices`]: your own slices, without the optional tables.
///
/// To use another allocator, implement this trait and [`Allocate`]:
///
/// ```
/// use core::fmt::Debug;
///
/// use freeboard::{NoTable, Storage};
///
/// #[derive(Debug)]
/// enum Boxes {}
///
/// impl Storage for Boxes {
///     type Of<T: Debug + 'static> = Box<[T]>;
///     type One<T: Debug + 'static> = Box<[T]>;
///     type Tins<T: Debug + 'static> = Box<[T]>;
///     type Rates<T: Debug + 'static> = Box<[T]>;
///     type Rounds<T: Debug + 'static> = NoTable<T>;
/// }
/// ```
pub trait Storage {
    /// A table of `T`.
    type Of<T: fmt::Debug + 'static>: Table<T> + fmt::Debug;
    /// A table with one element, for what a queue has one of.
    type One<T: fmt::Debug + 'static>: Table<T> + fmt::Debug;
    /// A table with one element for each tin, at most eight.
    type Tins<T: fmt::Debug + 'static>: Table<T> + fmt::Debug;
    /// A table for committed rates and ceilings of hosts; [`NoTable`] if no host has one, so that
    /// none of their code is compiled.
    type Rates<T: fmt::Debug + 'static>: Table<T> + fmt::Debug;
    /// A table for `triple-isolate`; [`NoTable`] if the mode is not needed.
    type Rounds<T: fmt::Debug + 'static>: Table<T> + fmt::Debug;
}

/// Storage that can allocate its tables, for
/// [`IsolatedMemory::allocate`](crate::IsolatedMemory::allocate).
///
/// ```
/// use core::fmt::Debug;
///
/// use freeboard::sched_core::Limits;
/// use freeboard::{Allocate, Isolated, IsolatedConfig, IsolatedMemory, NoTable, Storage};
///
/// /// Tables without spare capacity.
/// #[derive(Debug)]
/// enum Boxes {}
///
/// impl Storage for Boxes {
///     type Of<T: Debug + 'static> = Box<[T]>;
///     type One<T: Debug + 'static> = Box<[T]>;
///     type Tins<T: Debug + 'static> = Box<[T]>;
///     type Rates<T: Debug + 'static> = NoTable<T>;
///     type Rounds<T: Debug + 'static> = NoTable<T>;
/// }
///
/// impl Allocate for Boxes {
///     fn table<T: Clone + Debug + 'static>(empty: T, len: usize) -> Box<[T]> {
///         vec![empty; len].into()
///     }
///
///     fn one<T: Clone + Debug + 'static>(empty: T) -> Box<[T]> {
///         Self::table(empty, 1)
///     }
///
///     fn tins<T: Clone + Debug + 'static>(empty: T, len: usize) -> Box<[T]> {
///         Self::table(empty, len)
///     }
///
///     fn rates<T: Clone + Debug + 'static>(_: T, _: usize) -> NoTable<T> {
///         NoTable::NEW
///     }
///
///     fn rounds<T: Clone + Debug + 'static>(_: T, _: usize) -> NoTable<T> {
///         NoTable::NEW
///     }
/// }
///
/// let memory = IsolatedMemory::<Boxes>::allocate(64, 16, 1, 256);
/// let queue = Isolated::new(memory, IsolatedConfig::new(1_514, Limits::NONE))?;
/// assert_eq!(queue.backlogged_hosts(), (0, 0));
/// # Ok::<(), freeboard::IsolatedError>(())
/// ```
pub trait Allocate: Storage {
    /// Allocates a table of `len` elements `empty`.
    fn table<T: Clone + fmt::Debug + 'static>(empty: T, len: usize) -> Self::Of<T>;

    /// Allocates a table of one element `empty`.
    fn one<T: Clone + fmt::Debug + 'static>(empty: T) -> Self::One<T>;

    /// Allocates a table of `len` elements `empty`, at most eight.
    fn tins<T: Clone + fmt::Debug + 'static>(empty: T, len: usize) -> Self::Tins<T>;

    /// Allocates a table of `len` elements `empty` for rates of hosts, or none.
    fn rates<T: Clone + fmt::Debug + 'static>(empty: T, len: usize) -> Self::Rates<T>;

    /// Allocates a table of `len` elements `empty` for `triple-isolate`, or none.
    fn rounds<T: Clone + fmt::Debug + 'static>(empty: T, len: usize) -> Self::Rounds<T>;
}

/// An empty table of size 0 and alignment 1. (An array `[T; 0]` has the alignment of `T`.)
#[derive(Debug)]
pub struct NoTable<T>(PhantomData<T>);

impl<T> NoTable<T> {
    /// The empty table.
    pub const NEW: Self = Self(PhantomData);
}

impl<T> AsRef<[T]> for NoTable<T> {
    fn as_ref(&self) -> &[T] {
        &[]
    }
}

impl<T> AsMut<[T]> for NoTable<T> {
    fn as_mut(&mut self) -> &mut [T] {
        &mut []
    }
}

/// Tables in your own slices: parts of a `static`, or of one allocation.
#[derive(Debug)]
pub struct Slices<'a>(PhantomData<&'a mut ()>);

impl<'a> Storage for Slices<'a> {
    type Of<T: fmt::Debug + 'static> = &'a mut [T];
    type One<T: fmt::Debug + 'static> = &'a mut [T];
    type Tins<T: fmt::Debug + 'static> = &'a mut [T];
    type Rates<T: fmt::Debug + 'static> = NoTable<T>;
    type Rounds<T: fmt::Debug + 'static> = NoTable<T>;
}

/// Tables on the heap, each allocated once.
#[cfg(feature = "alloc")]
#[derive(Debug)]
pub enum Heap {}

#[cfg(feature = "alloc")]
impl Storage for Heap {
    type Of<T: fmt::Debug + 'static> = alloc::boxed::Box<[T]>;
    type One<T: fmt::Debug + 'static> = alloc::boxed::Box<[T]>;
    type Tins<T: fmt::Debug + 'static> = alloc::boxed::Box<[T]>;
    type Rates<T: fmt::Debug + 'static> = alloc::boxed::Box<[T]>;
    type Rounds<T: fmt::Debug + 'static> = alloc::boxed::Box<[T]>;
}

#[cfg(feature = "alloc")]
impl Allocate for Heap {
    fn table<T: Clone + fmt::Debug + 'static>(empty: T, len: usize) -> alloc::boxed::Box<[T]> {
        alloc::vec![empty; len].into()
    }

    fn one<T: Clone + fmt::Debug + 'static>(empty: T) -> alloc::boxed::Box<[T]> {
        Self::table(empty, 1)
    }

    fn tins<T: Clone + fmt::Debug + 'static>(empty: T, len: usize) -> alloc::boxed::Box<[T]> {
        Self::table(empty, len)
    }

    fn rates<T: Clone + fmt::Debug + 'static>(empty: T, len: usize) -> alloc::boxed::Box<[T]> {
        Self::table(empty, len)
    }

    fn rounds<T: Clone + fmt::Debug + 'static>(empty: T, len: usize) -> alloc::boxed::Box<[T]> {
        Self::table(empty, len)
    }
}
