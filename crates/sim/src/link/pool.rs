//! Packet buffers of a queue: the number of a buffer is the handle of its packet.

/// A fixed number of buffers for packets `P`.
#[derive(Clone, Debug)]
pub struct Pool<P = Vec<u8>> {
    buffers: Vec<Option<P>>,
    /// Numbers of exactly the empty buffers; the last is used next.
    empty: Vec<u32>,
}

impl<P> Pool<P> {
    /// Creates `buffers` empty buffers.
    #[must_use]
    pub fn new(buffers: u32) -> Self {
        let none = core::iter::repeat_with(|| None);
        Self { buffers: none.take(buffers as usize).collect(), empty: (0..buffers).rev().collect() }
    }

    /// Stores a packet in an empty buffer and returns its number; returns the packet if there is
    /// none.
    pub fn put(&mut self, packet: P) -> Result<u32, P> {
        let Some(handle) = self.empty.pop() else { return Err(packet) };
        self.buffers[handle as usize] = Some(packet);
        Ok(handle)
    }

    /// Returns the packet in a buffer; `None` if it is empty or does not exist.
    #[must_use]
    pub fn get(&self, handle: u32) -> Option<&P> {
        self.buffers.get(handle as usize)?.as_ref()
    }

    /// Removes and returns the packet in a buffer; `None` if it is empty or does not exist.
    pub fn take(&mut self, handle: u32) -> Option<P> {
        let packet = self.buffers.get_mut(handle as usize)?.take()?;
        self.empty.push(handle);
        Some(packet)
    }

    /// Returns the number of buffers in use.
    #[must_use]
    pub fn held(&self) -> usize {
        self.buffers.len() - self.empty.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_comes_out_once_and_its_buffer_is_free_again() {
        let mut pool = Pool::new(2);
        let first = pool.put(vec![1]).unwrap();
        let second = pool.put(vec![2]).unwrap();
        assert_ne!(first, second);
        assert_eq!(pool.put(vec![3]), Err(vec![3]));
        assert_eq!((pool.get(first), pool.get(99)), (Some(&vec![1]), None));
        assert_eq!(pool.take(first), Some(vec![1]));
        assert_eq!((pool.take(first), pool.take(99), pool.held()), (None, None, 1));
        assert_eq!(pool.put(vec![4]), Ok(first));
    }
}
