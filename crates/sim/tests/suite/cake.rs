//! Test of CAKE's figures by `sim reproduce cake`: every required check passes, and the documents
//! show the command's output and pictures.

use crate::documents::{Run, document};

/// A test for each figure: its name, its number of checks, and the page.
macro_rules! figures {
    ($($test:ident $name:literal $checks:literal $page:literal)*) => {$(
        #[test]
        #[ignore = "up to a minute: `cargo xtask check` runs it"]
        fn $test() {
            let run = Run::of($name, &[]);
            run.assert_verdicts($checks, 0);
            run.assert_shown_in(document!($page));
            let path = concat!("docs/", $name, ".svg");
            run.assert_drew((path, include_str!(concat!("../../../../docs/", $name, ".svg"))));
        }
    )*};
}

figures! {
    algorithm_1 "cake-alg1" 4 "docs/tables/cake-alg1.md"
    figure_1 "cake-fig1" 7 "docs/tables/cake-fig1.md"
    figure_2 "cake-fig2" 3 "docs/tables/cake-fig2.md"
    figure_3 "cake-fig3" 21 "docs/tables/cake-fig3.md"
    figure_4 "cake-fig4" 5 "docs/tables/cake-fig4.md"
    figure_5 "cake-fig5" 9 "docs/tables/cake-fig5.md"
    figure_6 "cake-fig6" 19 "docs/tables/cake-fig6.md"
}
