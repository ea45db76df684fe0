//! Shows the page on a terminal: keys, resizing, and a gateway that disappears and comes back.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::thread;
use std::time::Instant;

use nix::sys::signal::{SigSet, Signal};
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::widgets::Widget;

use super::page::{Kind, Page};
use super::{Reading, Reports};
use crate::stats::report::Report;

/// Maximum delay of a key or a report.
const TICK: Duration = Duration::from_millis(50);
/// Interval of attempts to reconnect.
const AGAIN: Duration = Duration::from_millis(500);
/// Time for the page to end by itself after a signal.
const GRACE: Duration = Duration::from_millis(500);
/// Text of the bottom line.
const KEYS: &str = "q: quit";

/// Event at the socket.
#[derive(Debug)]
enum News {
    Report(Box<Report>),
    /// The gateway has ended.
    Gone,
    /// The data are not a report.
    Wrong(String),
}

/// State of the view.
#[derive(Debug, Default)]
struct State {
    reports: Reports,
    /// Time since which there is no gateway.
    gone: Option<Instant>,
}

impl State {
    fn take(&mut self, news: News) -> Result<(), String> {
        match news {
            News::Report(report) => {
                // Rates must not span the time without a gateway.
                if self.gone.take().is_some() {
                    self.reports = Reports::default();
                }
                self.reports.add(*report);
            }
            News::Gone => self.gone = self.gone.or_else(|| Some(Instant::now())),
            News::Wrong(why) => return Err(why),
        }
        Ok(())
    }

    fn lost(&self, socket: &Path) -> Option<String> {
        let seconds = self.gone?.elapsed().as_secs();
        Some(format!(
            "no gateway at {} for {seconds} s, waiting for it to start again; last report below",
            socket.display()
        ))
    }
}

/// Everything that is drawn.
struct View<'a> {
    state: &'a State,
    socket: &'a Path,
}

impl Widget for View<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let (columns, lines) = (usize::from(area.width), usize::from(area.height));
        let lost = self.state.lost(self.socket);
        let page =
            Page::new(&self.state.reports, lost.as_deref(), (columns, lines.saturating_sub(1)));
        for ((kind, text), y) in page.lines.iter().zip(area.top()..area.bottom()) {
            buffer.set_stringn(area.left(), y, text, columns, style(*kind));
        }
        if let Some(last) = area.bottom().checked_sub(1).filter(|_| lines > 0) {
            buffer.set_stringn(
                area.left(),
                last,
                KEYS,
                columns,
                Style::new().add_modifier(Modifier::DIM),
            );
        }
    }
}

fn style(kind: Kind) -> Style {
    let modifier = match kind {
        Kind::Title | Kind::Heading => Modifier::BOLD,
        Kind::Alarm => Modifier::REVERSED,
        Kind::Head => Modifier::UNDERLINED,
        Kind::Row => Modifier::empty(),
    };
    Style::new().add_modifier(modifier)
}

/// Shows reports until `q` or a signal, and restores the terminal.
pub(super) fn run(reading: Reading, socket: &Path) -> Result<(), String> {
    let signalled = watch_signals()?;
    let news = listen(reading, socket.to_owned());
    let mut terminal = ratatui::try_init().map_err(|error| format!("terminal: {error}"))?;
    let mut state = State::default();
    let done = loop {
        let view = View { state: &state, socket };
        if let Err(error) = terminal.draw(|frame| frame.render_widget(view, frame.area())) {
            break Err(format!("terminal: {error}"));
        }
        match wait(&news, &signalled, &mut state) {
            Ok(true) => {}
            Ok(false) => break Ok(()),
            Err(why) => break Err(why),
        }
    };
    // A terminal that has disappeared cannot be restored, and shows no message about it.
    let _ = ratatui::try_restore();
    done
}

/// Returns a flag that a signal sets, upon which the page ends. If the terminal has disappeared,
/// the page never ends by itself, because the library reads the end of its input over and over; the
/// program exits nevertheless.
fn watch_signals() -> Result<Arc<AtomicBool>, String> {
    // Blocked before another thread starts, so that no signal ends the program while the terminal
    // is in raw mode.
    let signals = SigSet::from_iter([Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP]);
    signals.thread_block().map_err(|error| format!("signals: {error}"))?;
    let signalled = Arc::new(AtomicBool::new(false));
    let tell = Arc::clone(&signalled);
    thread::spawn(move || {
        if signals.wait().is_ok() {
            tell.store(true, Ordering::Relaxed);
            thread::sleep(GRACE);
            let _ = ratatui::try_restore();
            std::process::exit(0);
        }
    });
    Ok(signalled)
}

/// Waits until there is something to show; returns false to quit.
fn wait(news: &Receiver<News>, signalled: &AtomicBool, state: &mut State) -> Result<bool, String> {
    let begin = Instant::now();
    loop {
        if event::poll(TICK).map_err(|error| format!("terminal: {error}"))? {
            match event::read().map_err(|error| format!("terminal: {error}"))? {
                Event::Key(key) if key.kind != KeyEventKind::Release => {
                    let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
                    match key.code {
                        KeyCode::Char('q' | 'Q') | KeyCode::Esc => return Ok(false),
                        KeyCode::Char('c') if is_control => return Ok(false),
                        _ => {}
                    }
                }
                Event::Resize(..) => return Ok(true),
                _ => {}
            }
        }
        if signalled.load(Ordering::Relaxed) {
            return Ok(false);
        }
        match news.try_recv() {
            Ok(news) => {
                state.take(news)?;
                return Ok(true);
            }
            Err(TryRecvError::Disconnected) => return Ok(false),
            Err(TryRecvError::Empty) => {}
        }
        // The time without a gateway is updated every second.
        if state.gone.is_some() && begin.elapsed() >= Duration::from_secs(1) {
            return Ok(true);
        }
    }
}

/// Reads in a separate thread, from one gateway after another, at most one report ahead of what is
/// shown.
fn listen(mut reading: Reading, socket: PathBuf) -> Receiver<News> {
    let (tell, news) = sync_channel(1);
    thread::spawn(move || {
        loop {
            let next = match reading.next() {
                Ok(Some(report)) => News::Report(Box::new(report)),
                Ok(None) => News::Gone,
                Err(why) => News::Wrong(why),
            };
            let is_gone = matches!(next, News::Gone);
            if tell.send(next).is_err() {
                return;
            }
            if is_gone {
                reading = connect_again(&socket);
            }
        }
    });
    news
}

/// Waits for another gateway at `socket`, without limit.
fn connect_again(socket: &Path) -> Reading {
    loop {
        thread::sleep(AGAIN);
        if let Ok(another) = Reading::connect(socket) {
            return another;
        }
    }
}

#[cfg(test)]
mod tests;
