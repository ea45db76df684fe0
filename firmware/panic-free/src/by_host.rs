//! Flow schedulers that know hosts.

use core::hint::black_box;

use freeboard::sched_core::{
    DropFrom, FlowId, HeldFlow, HostClasses, Hosted, LoadDrr, LoadDrrFlow, LoadDrrHost,
    LongestHost, LongestHostDrop, RoundList, Side, Sides, Table,
};

use crate::orders::order;
use crate::schedulers::bare;
use crate::{any, one_of, seen, sizes};

#[unsafe(no_mangle)]
static BY_HOST: &[fn()] = sizes![in_rounds longest_host];

fn in_rounds<const N: usize>() {
    let hosts = [LoadDrrHost::EMPTY; 4];
    let made = LoadDrr::new([LoadDrrFlow::EMPTY; N], hosts, hosts, [RoundList::EMPTY; 64], any());
    let Ok(mut plain) = made else { return };
    rounds(&mut plain);
    order(&mut plain, 0);
    bare::<_, N>(plain.sparse_first().with_hosts_of(black_box(Side::Source)), 0);

    let (nodes, lists) = (&mut [LoadDrrFlow::EMPTY; N][..], &mut [RoundList::EMPTY; 64][..]);
    let (mut sources, mut destinations) = (hosts, hosts);
    let (nodes, sources, destinations) =
        black_box((nodes, &mut sources[..], &mut destinations[..]));
    let made = LoadDrr::new(nodes, sources, destinations, black_box(lists), any());
    let Ok(mut in_slices) = made else { return };
    rounds(&mut in_slices);
    order(&mut in_slices, 0);
}

/// Over rounds: with tables of a known size, and with all in slices.
fn longest_host<const N: usize>() {
    let hosts = [LoadDrrHost::EMPTY; 4];
    let made = LoadDrr::new([LoadDrrFlow::EMPTY; N], hosts, hosts, [RoundList::EMPTY; 64], any());
    let Ok(inner) = made else { return };
    let (ranks, classes) = ([LongestHost::EMPTY; 4], [HostClasses::EMPTY; 4]);
    let made = LongestHostDrop::new(inner, [HeldFlow::EMPTY; N], ranks, classes);
    let Ok(mut outer) = made else { return };
    order(&mut outer, 0);
    hosted(&mut outer);
    seen(black_box(&outer).bytes_of(any()));
    seen(black_box(&mut outer).order_mut().assign(FlowId(any()), any(), any()));
    bare::<_, N>(outer.drop_from(black_box(DropFrom::Tail)), 0);

    let flows = &mut [HeldFlow::EMPTY; N][..];
    let (mut ranks, mut classes) = (ranks, classes);
    let (flows, ranks, classes) = black_box((flows, &mut ranks[..], &mut classes[..]));
    let Ok(mut outer) = LongestHostDrop::new(inner, flows, ranks, classes) else { return };
    order(&mut outer, 0);
}

/// What rounds offer beside what a flow scheduler does.
fn rounds<N, S, D, W>(rounds: &mut LoadDrr<N, S, D, W>)
where
    N: Table<LoadDrrFlow>,
    S: Table<LoadDrrHost>,
    D: Table<LoadDrrHost>,
    W: Table<RoundList>,
{
    hosted(rounds);
    one_of!(rounds;
        rounds.add_all(any());
        rounds.assign(FlowId(any()), any(), any());
        rounds.assigned(FlowId(any()));
        rounds.set_mode(black_box(Sides::Both));
        rounds.mode();
        rounds.flows_of_source(any());
        rounds.flows_of_destination(any());
    );
}

fn hosted(order: &mut impl Hosted) {
    one_of!(order;
        order.host_of(FlowId(any()));
        order.hosts();
        order.flows_of(any());
    );
}
