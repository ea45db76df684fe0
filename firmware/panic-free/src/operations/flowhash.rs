//! The operations of `flowhash`: from bytes to a key, to labels, to a queue.

use core::hint::black_box;

use freeboard::flowhash::{
    Ack, FlowHasher, FlowKey, FlowLabels, FlowTable, HalfSipHash, HalfSipHash13, Labeller, Labels,
    Nat, Parser, SipHash13, TagLine, Tunnels, mix, parse,
};

use super::{any, one_of, seen, sizes};

#[unsafe(no_mangle)]
static TABLES: &[fn()] = sizes![table];
#[unsafe(no_mangle)]
static PARSER: fn() = parser;

fn table<const N: usize>() {
    for ways in [1, 4, 8, 16, any()] {
        let queues = any();
        if let Ok(mut table) = FlowTable::new([TagLine::EMPTY; N], queues, ways) {
            operations(&mut table);
        }
        if let Ok(mut table) = FlowTable::new(black_box(&mut [TagLine::EMPTY; N][..]), queues, ways)
        {
            operations(&mut table);
        }
    }
}

fn operations<S: AsRef<[TagLine]> + AsMut<[TagLine]>>(table: &mut FlowTable<S>) {
    one_of!(table;
        table.lookup(any());
        table.find(any());
        table.release(any());
        table.is_used(any());
        (table.occupied(), table.queues(), table.ways(), table.counts());
        table.clear();
    );
}

fn parser() {
    let bytes = black_box(&[0_u8; 4][..]);
    for parsed in [parse::ethernet(bytes), parse::ip(bytes)] {
        seen(parsed.ip.map(|ip| (ip.dscp(), ip.ecn())));
        seen(Ack::read(black_box(&[0; 80][..]), black_box(&parsed)));
        seen(parsed);
    }
    for flow_labels in [FlowLabels::Ignored, FlowLabels::WithoutPorts, FlowLabels::Always] {
        let parser = Parser { tunnels: black_box(Tunnels::ALL), flow_labels };
        for parsed in [parser.ethernet(bytes), parser.ip(bytes)] {
            seen(*parsed.outer_key());
            seen(parsed);
        }
    }
    let key = black_box(FlowKey::Unknown);
    seen((key.to_bytes(), key.src_host(), key.dst_host(), key.transport()));
    seen((key.to_bytes().as_ref(), key.src_host().to_bytes()));

    let (wide, narrow) = (black_box([0; 16]), black_box([0; 8]));
    seen(SipHash13::new(wide).hash_u64(bytes));
    seen(SipHash13::new(wide).derived().hash_u64(bytes));
    hasher(&SipHash13::new(wide));
    hasher(&HalfSipHash13::new(narrow));
    hasher(&HalfSipHash::<2, 4>::new(narrow));
    seen(mix(any()));
}

fn hasher<H: FlowHasher>(hasher: &H) {
    seen(hasher.hash(black_box(&[0; 4][..])));
    let labels = Labels::new(&black_box(FlowKey::Unknown), hasher);
    seen(black_box(labels).host_pair());
    let labeller = Labeller::new(hasher).with_nat(Identity);
    let parsed = Parser::new().ip(black_box(&[0; 4][..]));
    seen(labeller.labels(&parsed));
    seen((labeller.flow(&parsed), labeller.src_host(&parsed), labeller.dst_host(&parsed)));
}

struct Identity;

impl Nat for Identity {
    fn inner(&self, key: &FlowKey) -> Option<FlowKey> {
        Some(black_box(*key))
    }
}
