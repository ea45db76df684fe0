use std::io::Write as _;
use std::os::unix::net::UnixListener;
use std::path::Path;

use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::*;
use crate::top::page::tests::{report, reports};

const SOCKET: &str = "/run/gateway.sock";

fn draw(terminal: &mut Terminal<TestBackend>, state: &State) {
    let view = View { state, socket: Path::new(SOCKET) };
    terminal.draw(|frame| frame.render_widget(view, frame.area())).unwrap();
}

fn text(terminal: &Terminal<TestBackend>) -> String {
    terminal.backend().to_string()
}

fn state(count: usize) -> State {
    State { reports: reports([report(1.0, 125_000, count)]), gone: None }
}

/// Goal: after a resize, and with fewer rows, nothing of the previous page remains.
#[test]
fn what_was_there_before_is_gone() {
    let mut terminal = Terminal::new(TestBackend::new(200, 50)).unwrap();
    draw(&mut terminal, &state(40));
    for (columns, lines, count) in [(60, 20, 40), (100, 40, 40), (100, 40, 1), (80, 24, 9)] {
        terminal.backend_mut().resize(columns, lines);
        draw(&mut terminal, &state(count));
        let mut fresh = Terminal::new(TestBackend::new(columns, lines)).unwrap();
        draw(&mut fresh, &state(count));
        assert_eq!(text(&terminal), text(&fresh), "{columns}x{lines}");
        assert!(text(&terminal).contains(KEYS));
    }
}

#[test]
fn a_gateway_that_is_gone_is_said_until_there_is_one() {
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
    let mut state = state(3);
    draw(&mut terminal, &state);
    assert!(!text(&terminal).contains("no gateway"));
    state.take(News::Gone).unwrap();
    draw(&mut terminal, &state);
    assert!(
        text(&terminal).contains("no gateway at /run/gateway.sock for 0 s"),
        "{}",
        text(&terminal)
    );
    // The last report is still shown.
    assert!(text(&terminal).contains("10.0.0.1"));
    // The new gateway has been up for longer, but its rates do not use counters of the old one.
    state.take(News::Report(Box::new(report(2.0, 250_000, 3)))).unwrap();
    draw(&mut terminal, &state);
    assert!(!text(&terminal).contains("no gateway"));
    assert!(text(&terminal).contains("up    1.000 Mbit/s"), "{}", text(&terminal));
    let wrong = state.take(News::Wrong("that is no report".to_owned()));
    assert_eq!(wrong, Err("that is no report".to_owned()));
}

/// Goal: reports that arrive faster than they are shown take no memory. Method: a socket to which
/// reports are written until a write blocks, at most 64 MiB.
#[test]
fn a_flood_of_reports_waits_at_the_socket() {
    let folder = std::env::temp_dir().join(format!("freeboard-top-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("flood.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let writer = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
        let line = b"{\"seconds\":1.0,\"directions\":[]}\n".repeat(1 << 11);
        let mut written = 0;
        while written < 64 << 20 && stream.write_all(&line).is_ok() {
            written += line.len();
        }
        written
    });
    let news = listen(Reading::connect(&path).unwrap(), path);
    let written = writer.join().unwrap();
    assert!(written < 64 << 20, "{written} bytes");
    assert!(matches!(news.recv().unwrap(), News::Report(_)));
    std::fs::remove_dir_all(folder).unwrap();
}
