//! A virtio network card, with the memory that it shares with the program.

use core::cell::UnsafeCell;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering, fence};

use virtio_drivers::device::net::VirtIONetRaw;
use virtio_drivers::transport::mmio::MmioTransport;
use virtio_drivers::{BufferDirection, Error, Hal, PAGE_SIZE, PhysAddr};

/// Buffers for frames that the card receives before the program looks.
const RECEIVING: usize = 64;
/// Buffers for frames that the card has not sent yet. Few, since these have left the queue.
const SENDING: usize = u32::BITS as usize;
/// The longest header of a frame between card and program.
const MAX_HEADER: usize = 12;
/// The longest frame: an Ethernet frame with two tags.
pub const MAX_FRAME: usize = 1_522;

type Buffer = [u8; MAX_HEADER + MAX_FRAME];
type Net = VirtIONetRaw<Shared, MmioTransport<'static>, RECEIVING>;

/// Buffers of a [`Port`]: the card's header and a frame.
pub struct PortMemory {
    receiving: [Buffer; RECEIVING],
    sending: [Buffer; SENDING],
}

impl PortMemory {
    /// Empty buffers.
    pub const EMPTY: Self = Self { receiving: [[0; _]; RECEIVING], sending: [[0; _]; SENDING] };
}

/// Counters of a port.
#[derive(Clone, Copy, Default)]
pub struct Passed {
    /// Frames that the card has received.
    pub received: u64,
    /// Frames handed to the card.
    pub sent: u64,
}

/// A running network card.
pub struct Port {
    net: Net,
    memory: &'static mut PortMemory,
    /// For each token of the card, the number of the buffer in `memory.receiving`.
    receiving: [usize; RECEIVING],
    /// For each token, the number of the buffer in `memory.sending`.
    sending: [usize; RECEIVING],
    /// Bytes of `memory.sending[n]` that the card has, or had last.
    lengths: [usize; SENDING],
    /// Bit `n` is set if the card does not have `memory.sending[n]`.
    free: u32,
    /// Length of the header before each frame.
    header: usize,
    passed: Passed,
}

impl Port {
    /// Starts the card and hands it all buffers for receiving.
    pub fn new(
        transport: MmioTransport<'static>,
        memory: &'static mut PortMemory,
    ) -> Result<Self, Error> {
        let mut net = Net::new(transport)?;
        let mut receiving = [0; RECEIVING];
        for (number, buffer) in memory.receiving.iter_mut().enumerate() {
            // SAFETY: the buffer is static, and `receive` uses it only after the card has returned
            // its token.
            let token = unsafe { net.receive_begin(buffer) }?;
            receiving[usize::from(token)] = number;
        }
        let mut header = 0;
        for buffer in &mut memory.sending {
            header = net.fill_buffer_header(buffer)?;
        }
        Ok(Self {
            net,
            memory,
            receiving,
            sending: [0; RECEIVING],
            lengths: [0; SENDING],
            free: u32::MAX,
            header,
            passed: Passed::default(),
        })
    }

    /// Returns the frames received and sent so far.
    pub const fn passed(&self) -> Passed {
        self.passed
    }

    /// Returns true if there are frames to receive, or buffers to take back. If not, the card
    /// interrupts when there are.
    pub fn is_ready(&mut self) -> bool {
        // The card looks at what `receive` and `has_room` wrote last to decide whether to
        // interrupt: that must be visible before the rings are read.
        fence(Ordering::SeqCst);
        self.net.poll_receive().is_some() || self.net.poll_transmit().is_some()
    }

    /// Makes the card withdraw its interrupt.
    pub fn acknowledge(&mut self) {
        self.net.ack_interrupt();
    }

    /// Calls `take` with each received frame, at most as many as may be sent at once.
    pub fn receive(&mut self, mut take: impl FnMut(&[u8])) -> Result<(), Error> {
        for _ in 0..SENDING {
            let Some(token) = self.net.poll_receive() else { break };
            let number = self.receiving[usize::from(token)];
            let buffer = &mut self.memory.receiving[number];
            // SAFETY: this is the buffer with which `receive_begin` returned this token.
            let (header, len) = unsafe { self.net.receive_complete(token, buffer) }?;
            self.passed.received += 1;
            take(buffer.get(header..header + len).ok_or(Error::IoError)?);
            // SAFETY: as in `new`; `take` has returned.
            let token = unsafe { self.net.receive_begin(buffer) }?;
            self.receiving[usize::from(token)] = number;
        }
        Ok(())
    }

    /// Takes back the buffers of sent frames. Returns true if the card takes another frame.
    pub fn has_room(&mut self) -> Result<bool, Error> {
        while let Some(token) = self.net.poll_transmit() {
            let number = self.sending[usize::from(token)];
            let buffer = &self.memory.sending[number][..self.lengths[number]];
            // SAFETY: this is the buffer with which `transmit_begin` returned this token.
            unsafe { self.net.transmit_complete(token, buffer) }?;
            self.free |= 1 << number;
        }
        Ok(self.free != 0)
    }

    /// Hands a copy of `frame` to the card.
    ///
    /// # Errors
    /// [`Error::QueueFull`] if the card has [no room](Self::has_room).
    pub fn send(&mut self, frame: &[u8]) -> Result<(), Error> {
        let number = self.free.trailing_zeros() as usize;
        let Some(buffer) = self.memory.sending.get_mut(number) else {
            return Err(Error::QueueFull);
        };
        // The header is that of `new`: the card only reads it.
        let end = self.header + frame.len();
        buffer[self.header..end].copy_from_slice(frame);
        // SAFETY: the buffer is static, and is not used until `has_room` finds its token.
        let token = unsafe { self.net.transmit_begin(&buffer[..end]) }?;
        (self.sending[usize::from(token)], self.lengths[number]) = (number, end);
        self.free &= !(1 << number);
        self.passed.sent += 1;
        Ok(())
    }
}

/// Pages for the rings of two cards: two rings each, of two pages.
const PAGES: usize = 8;

#[repr(C, align(4096))]
struct Pages(UnsafeCell<[[u8; PAGE_SIZE]; PAGES]>);

// SAFETY: each page is handed out once, by `dma_alloc`.
unsafe impl Sync for Pages {}

static PAGES_OF_RINGS: Pages = Pages(UnsafeCell::new([[0; PAGE_SIZE]; PAGES]));
static PAGES_USED: AtomicUsize = AtomicUsize::new(0);

/// Memory as the cards see it: at the same addresses, and without caches between.
pub struct Shared;

// SAFETY: `dma_alloc` returns zeroed pages of a static that nothing else uses, each once. Addresses
// of the program and of devices are equal on this board.
unsafe impl Hal for Shared {
    fn dma_alloc(pages: usize, _: BufferDirection) -> (PhysAddr, NonNull<u8>) {
        let first = PAGES_USED.fetch_add(pages, Ordering::Relaxed);
        assert!(first + pages <= PAGES, "no pages for rings (expected at most {PAGES})");
        let all = NonNull::from(&PAGES_OF_RINGS).cast::<[u8; PAGE_SIZE]>();
        // SAFETY: the page is inside of the static.
        let at = unsafe { all.add(first) }.cast::<u8>();
        (at.as_ptr() as PhysAddr, at)
    }

    /// Keeps the pages: no card is ever stopped.
    unsafe fn dma_dealloc(_: PhysAddr, _: NonNull<u8>, _: usize) -> i32 {
        0
    }

    unsafe fn mmio_phys_to_virt(at: PhysAddr, _: usize) -> NonNull<u8> {
        NonNull::new(at as *mut u8).unwrap()
    }

    unsafe fn share(buffer: NonNull<[u8]>, _: BufferDirection) -> PhysAddr {
        buffer.cast::<u8>().as_ptr() as PhysAddr
    }

    unsafe fn unshare(_: PhysAddr, _: NonNull<[u8]>, _: BufferDirection) {}
}
