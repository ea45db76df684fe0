//! Runs both ends of the tunnel in two network namespaces. Needs root, `ip` and `ping`; otherwise
//! the test prints `skipped: needs CAP_NET_ADMIN` and passes, unless the environment has `CI=true`.

use std::thread;

use crate::namespaces::{
    CtrlC, FAR, NEAR, Namespace, RATES, ip, measure, namespaces, with_traffic,
};
use crate::tunnel;

/// The ends of the tunnel.
const ENDS: [&str; 2] = ["192.0.2.1:5000", "192.0.2.2:5000"];

/// Both rates are kept, a ping is not delayed by bulk traffic, and ctrl-C ends both ends with a
/// report in which every packet is accounted for.
#[test]
#[ignore = "long: `cargo xtask check` runs it"]
fn between_two_namespaces() {
    let Some([left, right]) = namespaces(["near", "far"]) else { return };
    ip(&format!("-n {left} link add veth0 type veth peer name veth0 netns {right}")).unwrap();
    for (namespace, end) in [&left, &right].into_iter().zip(["192.0.2.1/24", "192.0.2.2/24"]) {
        ip(&format!("-n {namespace} addr add {end} dev veth0")).unwrap();
        ip(&format!("-n {namespace} link set veth0 up")).unwrap();
    }
    let run = |namespace: &Namespace, addresses: [&str; 2], rate: &str| {
        let addresses = addresses.map(|address| address.parse().unwrap());
        let rate = rate.parse().unwrap();
        namespace.within(|| tunnel::run("tun0", addresses, rate).map_err(|e| e.to_string()))
    };
    let reports: [Result<_, String>; 2] = thread::scope(|scope| {
        let [local, remote] = ENDS;
        let near = scope.spawn(|| run(&left, [local, remote], RATES[0].0));
        let far = scope.spawn(|| run(&right, [remote, local], RATES[1].0));
        let end = CtrlC;
        left.set_up("tun0", NEAR, FAR, "mtu 1472");
        right.set_up("tun0", FAR, NEAR, "mtu 1472");
        let measured = with_traffic(&left, &right, || {
            // Of 1,500 bytes, 28 are the headers of IPv4 and UDP.
            measure("udp_tunnel", (&left, "tun0"), (&right, "tun0"), 1_472.0 / 1_500.0)
        });
        drop(end);
        let reports = [near, far].map(|end| end.join().unwrap());
        measured.unwrap();
        reports
    });
    for report in reports {
        let report = report.unwrap().to_string();
        println!("{report}");
        assert!(report.contains(" packets in, 0 rejected"));
    }
}
