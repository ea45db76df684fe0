//! A cursor over numbers in either byte order.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ByteOrder {
    Little,
    Big,
}

/// Remaining bytes of a record. Each method takes from the front, or returns `None` and takes
/// nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'a> {
    pub(super) rest: &'a [u8],
    pub(super) order: ByteOrder,
}

impl<'a> Fields<'a> {
    pub(super) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let mut bytes: [u8; N] = self.take(N)?.try_into().ok()?;
        if self.order == ByteOrder::Big {
            bytes.reverse();
        }
        Some(bytes)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn i64(&mut self) -> Option<i64> {
        self.array().map(i64::from_le_bytes)
    }
}
