//! Memory for the tables of a discipline.

use core::convert::Infallible;
use core::fmt::Debug;

use freeboard::sched_core::Table;
use freeboard::{Allocate, Storage};

use super::Setting;

/// Memory for tables of one length.
pub trait Memory: Copy + Debug {
    /// A table of `T`.
    type Of<T: Copy + Debug>: Table<T> + Clone + Debug;

    /// Creates a table filled with `empty`.
    fn of<T: Copy + Debug>(self, empty: T) -> Self::Of<T>;

    /// Returns the length of each table.
    fn count(self) -> u32;
}

/// Arrays of length `N`.
#[derive(Clone, Copy, Debug)]
pub struct Arrays<const N: usize>;

impl<const N: usize> Memory for Arrays<N> {
    type Of<T: Copy + Debug> = [T; N];

    #[inline]
    fn of<T: Copy + Debug>(self, empty: T) -> [T; N] {
        [empty; N]
    }

    #[inline]
    fn count(self) -> u32 {
        N as u32
    }
}

/// The first entries of arrays of length `N`: tables with a length unknown at compile time, without
/// a heap.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parts<const N: usize>(pub usize);

/// A table of [`Parts`].
#[derive(Clone, Copy, Debug)]
pub struct Part<T, const N: usize> {
    all: [T; N],
    used: usize,
}

impl<T, const N: usize> AsRef<[T]> for Part<T, N> {
    #[inline]
    fn as_ref(&self) -> &[T] {
        self.all.get(..self.used).unwrap_or(&self.all)
    }
}

impl<T, const N: usize> AsMut<[T]> for Part<T, N> {
    #[inline]
    fn as_mut(&mut self) -> &mut [T] {
        match self.all.split_at_mut_checked(self.used) {
            Some((used, _)) => used,
            None => &mut [],
        }
    }
}

impl<const N: usize> Memory for Parts<N> {
    type Of<T: Copy + Debug> = Part<T, N>;

    #[inline]
    fn of<T: Copy + Debug>(self, empty: T) -> Part<T, N> {
        Part { all: [empty; N], used: self.0.min(N) }
    }

    #[inline]
    fn count(self) -> u32 {
        self.0.min(N) as u32
    }
}

impl<const N: usize> Storage for Parts<N> {
    type Of<T: Debug + 'static> = Part<T, N>;
    type One<T: Debug + 'static> = [T; 1];
    type Tins<T: Debug + 'static> = Part<T, 8>;
    type Rates<T: Debug + 'static> = Part<T, N>;
    type Rounds<T: Debug + 'static> = Part<T, N>;
}

/// An allocated table.
type Made<Table> = Result<Table, Infallible>;

/// Each table has its own length, whatever the value of `self`.
impl<const N: usize> Allocate for Parts<N> {
    type Storage = Self;
    type Error = Infallible;

    fn table<T: Clone + Debug + 'static>(&mut self, empty: T, len: usize) -> Made<Part<T, N>> {
        Ok(Part { all: core::array::from_fn(|_| empty.clone()), used: len.min(N) })
    }

    fn one<T: Clone + Debug + 'static>(&mut self, empty: T) -> Made<[T; 1]> {
        Ok([empty])
    }

    fn tins<T: Clone + Debug + 'static>(&mut self, empty: T, len: usize) -> Made<Part<T, 8>> {
        Parts::<8>::default().table(empty, len)
    }

    fn rates<T: Clone + Debug + 'static>(&mut self, empty: T, len: usize) -> Made<Part<T, N>> {
        self.table(empty, len)
    }

    fn rounds<T: Clone + Debug + 'static>(&mut self, empty: T, len: usize) -> Made<Part<T, N>> {
        self.table(empty, len)
    }
}

/// Boxed slices of the given length.
#[cfg(feature = "std")]
#[derive(Clone, Copy, Debug, Default)]
pub struct Boxes(pub usize);

#[cfg(feature = "std")]
impl Memory for Boxes {
    type Of<T: Copy + Debug> = Box<[T]>;

    fn of<T: Copy + Debug>(self, empty: T) -> Box<[T]> {
        vec![empty; self.0].into_boxed_slice()
    }

    fn count(self) -> u32 {
        self.0 as u32
    }
}

#[cfg(feature = "std")]
impl Storage for Boxes {
    type Of<T: Debug + 'static> = Box<[T]>;
    type One<T: Debug + 'static> = Box<[T]>;
    type Tins<T: Debug + 'static> = Box<[T]>;
    type Rates<T: Debug + 'static> = Box<[T]>;
    type Rounds<T: Debug + 'static> = Box<[T]>;
}

#[cfg(feature = "std")]
impl Allocate for Boxes {
    type Storage = Self;
    type Error = Infallible;

    fn table<T: Clone + Debug + 'static>(&mut self, empty: T, len: usize) -> Made<Box<[T]>> {
        Ok(vec![empty; len].into_boxed_slice())
    }

    fn one<T: Clone + Debug + 'static>(&mut self, empty: T) -> Made<Box<[T]>> {
        self.table(empty, 1)
    }

    fn tins<T: Clone + Debug + 'static>(&mut self, empty: T, len: usize) -> Made<Box<[T]>> {
        self.table(empty, len)
    }

    fn rates<T: Clone + Debug + 'static>(&mut self, empty: T, len: usize) -> Made<Box<[T]>> {
        self.table(empty, len)
    }

    fn rounds<T: Clone + Debug + 'static>(&mut self, empty: T, len: usize) -> Made<Box<[T]>> {
        self.table(empty, len)
    }
}

/// Vectors of the given length.
#[cfg(feature = "std")]
#[derive(Clone, Copy, Debug)]
pub struct Vecs(pub usize);

#[cfg(feature = "std")]
impl Memory for Vecs {
    type Of<T: Copy + Debug> = Vec<T>;

    fn of<T: Copy + Debug>(self, empty: T) -> Vec<T> {
        vec![empty; self.0]
    }

    fn count(self) -> u32 {
        self.0 as u32
    }
}

/// Memory and sizes from which a discipline is built.
#[derive(Clone, Copy, Debug)]
pub struct Room<F> {
    /// Memory for the flow tables.
    pub flows: F,
    /// Longest packet in bytes.
    pub max_len: u32,
    /// Setting of flows that the caller does not configure.
    pub setting: Setting,
}

impl<F> Room<F> {
    /// Returns a room for `flows`, each with weight 3.
    pub const fn of_flows(flows: F, max_len: u32) -> Self {
        Self { flows, max_len, setting: Setting { weight: 3, max_len } }
    }
}
