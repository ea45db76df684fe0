//! Runs the router between two network namespaces. Needs root, `ip` and `ping`; otherwise the test
//! prints `skipped: needs CAP_NET_ADMIN` and passes, unless the environment has `CI=true`.

use std::thread;

use crate::namespaces::{CtrlC, FAR, NEAR, RATES, measure, namespaces, with_traffic};
use crate::router;

/// Both rates are kept, a ping is not delayed by bulk traffic, and ctrl-C ends the router with its
/// report.
#[test]
#[ignore = "long: `cargo xtask check` runs it"]
fn between_two_namespaces() {
    let Some([left, right, inside]) = namespaces(["left", "right", "router"]) else { return };
    let rates = RATES.map(|(word, _)| word.parse().unwrap());
    let report = thread::scope(|scope| {
        let run =
            || inside.within(|| router::run(["lan0", "wan0"], rates).map_err(|e| e.to_string()));
        let router = scope.spawn(run);
        let end = CtrlC;
        // The router opens its devices in its own namespace.
        inside.when_there(&format!("link set lan0 netns {left}"));
        inside.when_there(&format!("link set wan0 netns {right}"));
        left.set_up("lan0", NEAR, FAR, "");
        right.set_up("wan0", FAR, NEAR, "");
        let measured = with_traffic(&left, &right, || {
            measure("tokio_router", (&left, "lan0"), (&right, "wan0"), 1.0)
        });
        drop(end);
        let report = router.join().unwrap();
        measured.unwrap();
        report
    });
    let report = report.unwrap().to_string();
    println!("{report}");
    assert_eq!(report.lines().count(), 2);
    assert!(report.starts_with("up   at 4mbit: "));
    assert!(report.lines().all(|line| line.contains(" 0 refused by the device")));
}
