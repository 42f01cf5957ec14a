//! `quota-daemon top`: GPUs and containers as they are now, on a screen that follows.

use std::io::{IsTerminal, stdout};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::client::Where;
use crate::exit::Stop;
use crate::output::print;

mod bar;
mod cells;
mod columns;
mod detail;
mod draw;
mod fold;
mod gpus;
mod help;
mod keys;
mod list;
mod look;
mod model;
mod screen;
mod source;
mod terminate;
mod text;

use look::Look;
use model::Model;

/// Arguments of `top`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    place: Where,
    /// Seconds between two looks.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    interval: Duration,
    /// Print one screen as text, as high as it needs to be, and end.
    #[arg(long)]
    once: bool,
    /// How wide the text of --once is [default: the terminal's width, or 100].
    #[arg(long, value_name = "COLUMNS", requires = "once", value_parser = clap::value_parser!(u16).range(20..=1000))]
    width: Option<u16>,
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.1..=3600.0).contains(&value) => Ok(Duration::from_secs_f64(value)),
        _ => Err("must be a number of seconds from 0.1 to 3600".into()),
    }
}

/// Shows the screen.
///
/// # Errors
/// stdout is not a terminal; with `--once`: there is no daemon.
pub fn run(args: &Args) -> Result<(), Stop> {
    let socket = args.place.socket();
    let look = Look::of_environment(|name| std::env::var(name).ok());
    let model = Model::new(look, socket.display().to_string(), args.interval);
    if args.once {
        return once(args, &socket, model);
    }
    if !stdout().is_terminal() || !std::io::stdin().is_terminal() {
        return Err(Stop::Usage(
            "`top` needs a terminal; `quota-daemon top --once` prints one screen as text, and `quota-daemon status` \
             (with --json for programs) the figures"
                .into(),
        ));
    }
    match screen::show(model, &socket)? {
        None => Ok(()),
        // As a shell tells of a signal that ended a program.
        Some(signal) => Err(Stop::Program {
            code: 128_u8.saturating_add(u8::try_from(signal).unwrap_or(0)),
            text: String::new(),
        }),
    }
}

/// Two looks, since what happens in a second takes two, and the screen as text.
fn once(args: &Args, socket: &Path, mut model: Model) -> Result<(), Stop> {
    let begin = Instant::now();
    for wait in [Duration::ZERO, args.interval] {
        std::thread::sleep(wait);
        model.hear(Ok(source::sample(socket, begin)?));
    }
    model.look.colour = false;
    let terminal = || {
        ratatui::crossterm::terminal::size()
            .ok()
            .map(|(wide, _)| wide)
    };
    let width = args.width.or_else(terminal).unwrap_or(100);
    print(&draw::text(&model, width, draw::full_height(&model)))?;
    Ok(())
}

#[cfg(test)]
mod samples;
#[cfg(test)]
mod tests;
