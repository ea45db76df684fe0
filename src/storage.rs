//! Storage of a queue's tables.

#[cfg(feature = "alloc")]
use core::convert::Infallible;
use core::fmt;
use core::marker::PhantomData;

use sched_core::Table;

/// The kind of memory for a queue's tables, with optional tables that most queues do not need.
///
/// - [`Heap`]: allocated, with the feature `alloc`.
/// - [`Slices`]: your own slices, without the optional tables.
///
/// To keep tables elsewhere, implement this trait, and [`Allocate`] for a type that creates them:
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

/// An allocator of tables. It may have state, such as the unused rest of a block of memory, and may
/// fail. [`IsolatedMemory::allocate_in`](crate::IsolatedMemory::allocate_in) takes one.
///
/// If it never fails and needs no state, its type can be its own storage. Then
/// [`IsolatedMemory::allocate`](crate::IsolatedMemory::allocate) takes its default value:
///
/// ```
/// use core::convert::Infallible;
/// use core::fmt::Debug;
///
/// use freeboard::sched_core::Limits;
/// use freeboard::{Allocate, Isolated, IsolatedConfig, IsolatedMemory, NoTable, Storage};
///
/// /// Tables without spare capacity.
/// #[derive(Debug, Default)]
/// struct Boxes;
///
/// impl Storage for Boxes {
///     type Of<T: Debug + 'static> = Box<[T]>;
///     type One<T: Debug + 'static> = Box<[T]>;
///     type Tins<T: Debug + 'static> = Box<[T]>;
///     type Rates<T: Debug + 'static> = NoTable<T>;
///     type Rounds<T: Debug + 'static> = NoTable<T>;
/// }
///
/// type Made<Table> = Result<Table, Infallible>;
///
/// impl Allocate for Boxes {
///     type Storage = Self;
///     type Error = Infallible;
///
///     fn table<T: Clone + Debug + 'static>(&mut self, empty: T, len: usize) -> Made<Box<[T]>> {
///         Ok(vec![empty; len].into())
///     }
///
///     fn one<T: Clone + Debug + 'static>(&mut self, empty: T) -> Made<Box<[T]>> {
///         self.table(empty, 1)
///     }
///
///     fn tins<T: Clone + Debug + 'static>(&mut self, empty: T, len: usize) -> Made<Box<[T]>> {
///         self.table(empty, len)
///     }
///
///     fn rates<T: Clone + Debug + 'static>(&mut self, _: T, _: usize) -> Made<NoTable<T>> {
///         Ok(NoTable::NEW)
///     }
///
///     fn rounds<T: Clone + Debug + 'static>(&mut self, _: T, _: usize) -> Made<NoTable<T>> {
///         Ok(NoTable::NEW)
///     }
/// }
///
/// let memory = IsolatedMemory::<Boxes>::allocate(64, 16, 1, 256);
/// let queue = Isolated::new(memory, IsolatedConfig::new(1_514, Limits::NONE))?;
/// assert_eq!(queue.backlogged_hosts(), (0, 0));
/// # Ok::<(), freeboard::IsolatedError>(())
/// ```
pub trait Allocate {
    /// The kind of memory that it allocates.
    type Storage: Storage;
    /// The error if memory runs out; [`Infallible`](core::convert::Infallible) if it never does.
    type Error;

    /// Allocates a table of `len` elements `empty`.
    ///
    /// # Errors
    /// [`Self::Error`] if memory runs out.
    fn table<T: Clone + fmt::Debug + 'static>(
        &mut self,
        empty: T,
        len: usize,
    ) -> Result<<Self::Storage as Storage>::Of<T>, Self::Error>;

    /// Allocates a table of one element `empty`.
    ///
    /// # Errors
    /// [`Self::Error`] if memory runs out.
    fn one<T: Clone + fmt::Debug + 'static>(
        &mut self,
        empty: T,
    ) -> Result<<Self::Storage as Storage>::One<T>, Self::Error>;

    /// Allocates a table of `len` elements `empty`, at most eight.
    ///
    /// # Errors
    /// [`Self::Error`] if memory runs out.
    fn tins<T: Clone + fmt::Debug + 'static>(
        &mut self,
        empty: T,
        len: usize,
    ) -> Result<<Self::Storage as Storage>::Tins<T>, Self::Error>;

    /// Allocates a table of `len` elements `empty` for rates of hosts, or none.
    ///
    /// # Errors
    /// [`Self::Error`] if memory runs out.
    fn rates<T: Clone + fmt::Debug + 'static>(
        &mut self,
        empty: T,
        len: usize,
    ) -> Result<<Self::Storage as Storage>::Rates<T>, Self::Error>;

    /// Allocates a table of `len` elements `empty` for `triple-isolate`, or none.
    ///
    /// # Errors
    /// [`Self::Error`] if memory runs out.
    fn rounds<T: Clone + fmt::Debug + 'static>(
        &mut self,
        empty: T,
        len: usize,
    ) -> Result<<Self::Storage as Storage>::Rounds<T>, Self::Error>;
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
#[derive(Debug, Default)]
pub struct Heap;

#[cfg(feature = "alloc")]
impl Storage for Heap {
    type Of<T: fmt::Debug + 'static> = alloc::boxed::Box<[T]>;
    type One<T: fmt::Debug + 'static> = alloc::boxed::Box<[T]>;
    type Tins<T: fmt::Debug + 'static> = alloc::boxed::Box<[T]>;
    type Rates<T: fmt::Debug + 'static> = alloc::boxed::Box<[T]>;
    type Rounds<T: fmt::Debug + 'static> = alloc::boxed::Box<[T]>;
}

/// A table on the heap.
#[cfg(feature = "alloc")]
type Boxed<T> = Result<alloc::boxed::Box<[T]>, Infallible>;

#[cfg(feature = "alloc")]
impl Allocate for Heap {
    type Storage = Self;
    type Error = Infallible;

    fn table<T: Clone + fmt::Debug + 'static>(&mut self, empty: T, len: usize) -> Boxed<T> {
        Ok(alloc::vec![empty; len].into())
    }

    fn one<T: Clone + fmt::Debug + 'static>(&mut self, empty: T) -> Boxed<T> {
        self.table(empty, 1)
    }

    fn tins<T: Clone + fmt::Debug + 'static>(&mut self, empty: T, len: usize) -> Boxed<T> {
        self.table(empty, len)
    }

    fn rates<T: Clone + fmt::Debug + 'static>(&mut self, empty: T, len: usize) -> Boxed<T> {
        self.table(empty, len)
    }

    fn rounds<T: Clone + fmt::Debug + 'static>(&mut self, empty: T, len: usize) -> Boxed<T> {
        self.table(empty, len)
    }
}
