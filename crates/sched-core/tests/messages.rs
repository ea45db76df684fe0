//! Error messages: each contains the invalid value and what is expected instead.

use sched_core::{
    ConfigError, Descriptor, Drr, DrrFlow, FlowId, FlowQueues, Imbalance, Limits, Nanos, Packet,
    Queue, Scheduler as _,
};

#[test]
fn a_rejection_names_the_packet_what_was_wrong_and_what_is_accepted() {
    let drr = Drr::new([DrrFlow::EMPTY; 4], 1_500).unwrap();
    let limits = Limits { packets: 2, bytes: 3_000 };
    let mut queues =
        FlowQueues::with_own_victim(drr, [Queue::EMPTY; 4], [Descriptor::EMPTY; 8], limits);
    queues.configure(FlowId(0), 1_500).unwrap();
    let before = queues.clone();
    let mut said = |flow, handle, len| {
        let packet = Packet::new(handle, len);
        let rejected = queues.enqueue(Nanos(0), FlowId(flow), packet, &mut |_, _| {}).unwrap_err();
        assert_eq!(rejected.packet, packet, "it is the caller's again");
        assert_eq!(queues.backlog(), before.backlog());
        rejected.to_string()
    };
    for (flow, handle, len, expected) in [
        (1, 7, 100, "packet 7 rejected: flow 1 is unknown (expected an added flow below 4)"),
        (9, 7, 100, "packet 7 rejected: flow 9 is unknown (expected an added flow below 4)"),
        (0, 8, 100, "packet 8 rejected: handle 8 is out of range (expected below 8)"),
        (0, 7, 0, "packet 7 rejected: length 0 is out of range (expected 1 to 1500 bytes)"),
        (0, 7, 1_501, "packet 7 rejected: length 1501 is out of range (expected 1 to 1500 bytes)"),
    ] {
        assert_eq!(said(flow, handle, len), expected);
    }
    let mut queues = before;
    for handle in [0, 1] {
        queues.enqueue(Nanos(0), FlowId(0), Packet::new(handle, 100), &mut |_, _| {}).unwrap();
    }
    let mut said = |handle| {
        let packet = Packet::new(handle, 100);
        queues.enqueue(Nanos(0), FlowId(0), packet, &mut |_, _| {}).unwrap_err().to_string()
    };
    assert_eq!(said(1), "packet 1 rejected: handle 1 is already queued");
    let full =
        "packet 2 rejected: the packet does not fit (expected at most 2 packets and 3000 bytes)";
    assert_eq!(said(2), full);
}

#[test]
fn a_refused_setting_names_the_value_and_what_is_accepted() {
    let said = |error: ConfigError| error.to_string();
    let mut drr = Drr::new([DrrFlow::EMPTY; 4], 1_500).unwrap();
    let too_long = Drr::new([DrrFlow::EMPTY; 4], Packet::MAX_LEN + 1).unwrap_err();
    let most = Packet::MAX_LEN;
    let range =
        format!("longest packet in bytes {} is out of range (expected 1 to {most})", most + 1);
    assert_eq!(said(too_long), range);
    let unknown = drr.add_all(1_499).unwrap_err();
    assert!(said(unknown).contains("1499 is out of range (expected 1500 to"), "{unknown}");
    let mut queues = FlowQueues::with_own_victim(
        drr,
        [Queue::EMPTY; 4],
        [Descriptor::EMPTY; 8],
        Limits { packets: 1, bytes: 1 },
    );
    let unknown = queues.configure(FlowId(4), 1_500).unwrap_err();
    assert_eq!(said(unknown), "flow 4 is out of range (expected below 4)");
    let backlogged = said(ConfigError::Backlogged { flow: FlowId(3) });
    assert_eq!(backlogged, "flow 3 is backlogged (expected an idle one)");
}

#[test]
fn an_imbalance_says_where_and_by_how_much() {
    let found = Imbalance::check("bytes of a flow", 3, 100, 99).unwrap_err();
    assert_eq!(found.to_string(), "bytes of a flow at 3: accounted 100, counted 99");
}
