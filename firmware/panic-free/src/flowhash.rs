//! The operations of `flowhash`: from bytes to a key, to labels, to a queue.

use core::hint::black_box;

use freeboard::flowhash::{
    FlowHasher, FlowKey, HalfSipHash, HalfSipHash13, Labels, Line, SipHash13, Table, mix, parse,
};

use crate::{any, one_of, seen, sizes};

#[unsafe(no_mangle)]
static TABLES: &[fn()] = sizes![table];
#[unsafe(no_mangle)]
static PARSER: fn() = parser;

fn table<const N: usize>() {
    for ways in [1, 4, 8, 16, any()] {
        let queues = any();
        if let Ok(mut table) = Table::new([Line::EMPTY; N], queues, ways) {
            operations(&mut table);
        }
        if let Ok(mut table) = Table::new(black_box(&mut [Line::EMPTY; N][..]), queues, ways) {
            operations(&mut table);
        }
    }
}

fn operations<S: AsRef<[Line]> + AsMut<[Line]>>(table: &mut Table<S>) {
    one_of!(table;
        table.lookup(any());
        table.find(any());
        table.release(any());
        table.is_used(any());
        (table.occupied(), table.queues(), table.ways(), table.counts());
        table.clear();
        table.rotate();
        table.lookup_rotating(any(), any());
        (table.is_rotating(), table.old_claims());
        table.finish_rotation();
    );
}

fn parser() {
    let bytes = black_box(&[0_u8; 4][..]);
    for parsed in [parse::ethernet(bytes), parse::ip(bytes)] {
        seen(parsed.ip.map(|ip| (ip.dscp(), ip.ecn())));
        seen(parsed);
    }
    let key = black_box(FlowKey::Unknown);
    seen((key.to_bytes(), key.src_host(), key.dst_host(), key.transport()));
    seen((key.to_bytes().as_ref(), key.src_host().as_bytes()));

    let (wide, narrow) = (black_box([0; 16]), black_box([0; 8]));
    seen(SipHash13::new(wide).hash_u64(bytes));
    hasher(&SipHash13::new(wide));
    hasher(&HalfSipHash13::new(narrow));
    hasher(&HalfSipHash::<2, 4>::new(narrow));
    seen(mix(any()));
}

fn hasher<H: FlowHasher>(hasher: &H) {
    seen(hasher.hash(black_box(&[0; 4][..])));
    let labels = Labels::new(&black_box(FlowKey::Unknown), hasher);
    seen(black_box(labels).host_pair());
}
