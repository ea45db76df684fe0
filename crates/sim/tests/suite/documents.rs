//! Comparison of documents with experiments: the lines that `sim reproduce` prints, and its
//! pictures.

use std::path::PathBuf;
use std::process::Command;

/// Reads a document by its path from the root of the repository; evaluates to the path and the
/// text.
macro_rules! document {
    ($path:literal) => {
        ($path, include_str!(concat!("../../../../", $path)))
    };
}

pub(crate) use document;

/// One run of an experiment.
pub(crate) struct Run {
    text: String,
    is_success: bool,
    folder: PathBuf,
}

impl Run {
    /// Runs the experiment `name` with 10 seeds, unless `options` override it, and writes its
    /// pictures to a folder of their own.
    pub(crate) fn of(name: &str, options: &[&str]) -> Self {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = std::fs::remove_dir_all(&folder);
        let mut command = Command::new(env!("CARGO_BIN_EXE_sim"));
        command.args(["reproduce", name]).args(options).arg("--out").arg(&folder);
        let output = command.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        Self { text, is_success: output.status.success(), folder }
    }

    /// Returns the printed text.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the folder of the pictures.
    pub(crate) fn folder(&self) -> &PathBuf {
        &self.folder
    }

    /// Asserts the numbers of passed and failed checks, and that the command fails if a check does.
    pub(crate) fn assert_verdicts(&self, holding: usize, failing: usize) {
        let verdicts = |word: &str| self.text.lines().filter(|line| line.starts_with(word)).count();
        let passed = verdicts("holds  ") + verdicts("differs  ");
        assert_eq!((passed, verdicts("FAILS  ")), (holding, failing), "{}", self.text);
        assert_eq!(self.is_success, failing == 0);
    }

    /// Asserts that `page` contains each printed line, to the last digit.
    pub(crate) fn assert_shown_in(&self, (path, page): (&str, &str)) {
        for line in self.text.lines() {
            assert!(page.contains(line), "{path} lacks: {line}\nof\n{}", self.text);
        }
    }

    /// Asserts that the experiment has drawn `picture`.
    pub(crate) fn assert_drew(&self, (path, picture): (&str, &str)) {
        let file = path.rsplit('/').next().expect("a file has a name");
        let drawn = std::fs::read_to_string(self.folder.join(file)).unwrap();
        assert!(drawn == picture, "{path} is another");
    }
}
