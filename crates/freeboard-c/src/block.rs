//! One block of the caller's memory, divided into the tables of a queue.

use core::fmt;

use freeboard::{Allocate, NoTable, Storage};

/// Tables in a block. They live as long as the block, which the caller keeps for the queue.
#[derive(Debug)]
pub(crate) enum Block {}

impl Storage for Block {
    type Of<T: fmt::Debug + 'static> = &'static mut [T];
    type One<T: fmt::Debug + 'static> = &'static mut [T];
    type Tins<T: fmt::Debug + 'static> = &'static mut [T];
    type Rates<T: fmt::Debug + 'static> = NoTable<T>;
    type Rounds<T: fmt::Debug + 'static> = &'static mut [T];
}

/// Error for a block that is too short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooShort;

/// A block of memory that is divided into tables; holds the part not yet used.
#[derive(Debug)]
pub(crate) struct Divider {
    at: *mut u8,
    left: usize,
}

impl Divider {
    /// Divides the block of `len` bytes at `at`.
    ///
    /// # Safety
    /// The block must be valid for writes, and nothing else may use it as long as anything that is
    /// taken from it.
    pub(crate) const unsafe fn new(at: *mut u8, len: usize) -> Self {
        Self { at, left: len }
    }

    /// Takes the place of `len` values, aligned and not initialised.
    pub(crate) fn place<T>(&mut self, len: usize) -> Result<*mut T, TooShort> {
        let skipped = self.at.align_offset(align_of::<T>());
        let bytes = len.checked_mul(size_of::<T>()).ok_or(TooShort)?;
        let left = self.left.checked_sub(skipped).and_then(|left| left.checked_sub(bytes));
        self.left = left.ok_or(TooShort)?;
        let place = self.at.wrapping_add(skipped);
        self.at = place.wrapping_add(bytes);
        Ok(place.cast())
    }

    /// Takes a table of `len` elements `empty`.
    pub(crate) fn table<T: Clone + 'static>(
        &mut self,
        empty: &T,
        len: usize,
    ) -> Result<&'static mut [T], TooShort> {
        let first = self.place::<T>(len)?;
        for index in 0..len {
            let place = first.wrapping_add(index);
            // SAFETY: `place` returns aligned memory for `len` values inside the block, which is
            // valid for writes.
            unsafe { place.write(empty.clone()) };
        }
        // SAFETY: all `len` values were written above. Nothing else refers to them: `place` returns
        // each byte once, and the caller of `new` lends the block for as long as its tables live.
        Ok(unsafe { core::slice::from_raw_parts_mut(first, len) })
    }
}

type Taken<T> = Result<&'static mut [T], TooShort>;

impl Allocate for Divider {
    type Storage = Block;
    type Error = TooShort;

    fn table<T: Clone + fmt::Debug + 'static>(&mut self, empty: T, len: usize) -> Taken<T> {
        Self::table(self, &empty, len)
    }

    fn one<T: Clone + fmt::Debug + 'static>(&mut self, empty: T) -> Taken<T> {
        Self::table(self, &empty, 1)
    }

    fn tins<T: Clone + fmt::Debug + 'static>(&mut self, empty: T, len: usize) -> Taken<T> {
        Self::table(self, &empty, len)
    }

    fn rates<T: Clone + fmt::Debug + 'static>(
        &mut self,
        _: T,
        _: usize,
    ) -> Result<NoTable<T>, TooShort> {
        Ok(NoTable::NEW)
    }

    fn rounds<T: Clone + fmt::Debug + 'static>(&mut self, empty: T, len: usize) -> Taken<T> {
        Self::table(self, &empty, len)
    }
}
