//! Test of the figures of SQF for audio and video by `sim reproduce sqf-video`: every check passes,
//! and at full depth the documents show the command's output and pictures.

use conformance::effort::effort;

use crate::documents::{Run, document};

/// A test for each experiment: its name, its number of checks, the page, and its pictures.
macro_rules! figures {
    ($($test:ident $name:literal $checks:literal $page:literal [$($picture:literal)*])*) => {$(
        #[test]
        #[ignore = "minutes: `cargo xtask check` runs it"]
        fn $test() {
            let options: &[&str] = effort(&["--quick"], &[]);
            let run = Run::of($name, options);
            run.assert_verdicts($checks, 0);
            if options.is_empty() {
                run.assert_shown_in(document!($page));
                $(run.assert_drew(document!($picture));)*
            }
        }
    )*};
}

figures! {
    theory "sqf-video-theory" 9 "docs/tables/sqf-video-theory.md"
        ["docs/sqf-video-fig3.svg" "docs/sqf-video-fig4.svg"]
    testbed "sqf-video-testbed" 18 "docs/tables/sqf-video-testbed.md"
        ["docs/sqf-video-fig6.svg" "docs/sqf-video-fig7.svg"]
    peak "sqf-video-peak" 2 "docs/tables/sqf-video-peak.md" ["docs/sqf-video-peak.svg"]
    jitter "sqf-video-jitter" 6 "docs/tables/sqf-video-jitter.md" ["docs/sqf-video-fig8.svg"]
}
