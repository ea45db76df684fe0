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

/// Goal: after another size, and after fewer rows, nothing is left of what was there before.
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
    // What it said last is still there.
    assert!(text(&terminal).contains("10.0.0.1"));
    // The new one has been up for longer, and yet its rates are not from the old one's counts.
    state.take(News::Report(Box::new(report(2.0, 250_000, 3)))).unwrap();
    draw(&mut terminal, &state);
    assert!(!text(&terminal).contains("no gateway"));
    assert!(text(&terminal).contains("up    1.000 Mbit/s"), "{}", text(&terminal));
    let wrong = state.take(News::Wrong("that is no report".to_owned()));
    assert_eq!(wrong, Err("that is no report".to_owned()));
}
