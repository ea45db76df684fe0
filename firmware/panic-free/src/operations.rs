//! The operations, and macros that isolate each from the others.

mod buffers;
mod catalog;
mod flow_schedulers;
mod flowhash;
mod guarantees;
mod hierarchy;
mod labelled;
mod schedulers;
mod shaper;
mod smart_queue;
mod tins;

/// Returns a number unknown to the compiler.
fn any() -> u32 {
    core::hint::black_box(0)
}

/// Keeps the result of an operation, so that it is computed.
fn seen<T>(value: T) {
    core::hint::black_box(value);
}

/// Lists the functions for tables of 1 to 65,536 flows or packets.
macro_rules! sizes {
    ($($function:ident)*) => {
        &[$($function::<1>, $function::<2>, $function::<16>, $function::<100>, $function::<1024>, $function::<65536>),*]
    };
}
use sizes;

/// Performs one of the operations on an object in any state.
macro_rules! one_of {
    ($object:ident; $($operation:expr;)*) => {{
        let $object = core::hint::black_box($object);
        let chosen = $crate::operations::any();
        let mut number = 0;
        $(
            if chosen == number {
                return $crate::operations::seen($operation);
            }
            number += 1;
        )*
        $crate::operations::seen(number);
    }};
}
use one_of;
