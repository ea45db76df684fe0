//! CAKE's figures, made again by `sim reproduce cake`: every sentence that must hold does, and the documents show what the
//! command prints and draws.

use std::path::PathBuf;
use std::process::Command;

/// Goal: the documents do not lag behind the code. Method: runs `name` with the seeds of the documents. Each line that it
/// prints stands on `page`, and its picture is `picture`.
fn documents_show(name: &str, page: (&str, &str), picture: &str) {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    let words = ["reproduce", name, "--out", folder.to_str().unwrap()];
    let output = Command::new(env!("CARGO_BIN_EXE_sim")).args(words).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("holds  ") && !text.contains("FAILS  "), "{text}");
    assert_eq!(output.status.code(), Some(0));
    let (path, page) = page;
    for line in text.lines() {
        assert!(page.contains(line), "{path} lacks: {line}\nof\n{text}");
    }
    let svg = std::fs::read_to_string(folder.join(format!("{name}.svg"))).unwrap();
    assert!(svg == picture, "docs/{name}.svg is another");
}

/// A test for each figure: its name, the page and the picture.
macro_rules! figures {
    ($($test:ident $name:literal $page:literal)*) => {$(
        #[test]
        #[ignore = "up to a minute: `cargo xtask check` runs it"]
        fn $test() {
            let page = include_str!(concat!("../../../../", $page));
            let picture = include_str!(concat!("../../../../docs/", $name, ".svg"));
            documents_show($name, ($page, page), picture);
        }
    )*};
}

figures! {
    algorithm_1 "cake-alg1" "docs/disciplines/cake.md"
    figure_1 "cake-fig1" "docs/disciplines/flow_table.md"
    figure_2 "cake-fig2" "docs/disciplines/cake.md"
    figure_3 "cake-fig3" "docs/disciplines/hosts.md"
    figure_4 "cake-fig4" "docs/disciplines/cake.md"
    figure_5 "cake-fig5" "docs/disciplines/cake.md"
    figure_6 "cake-fig6" "docs/disciplines/ack_filter.md"
}
