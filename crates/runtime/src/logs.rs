//! Structured logs on standard error.
//!
//! One line per event, as JSON or as text, with the fields of the event and of its spans. Times come from
//! the [`Clock`]. Colours appear only when the text goes to a terminal.
//!
//! The subscriber belongs to the operating-system process: its main function calls [`init`] once, and all
//! Grove processes in it share the subscriber.

use std::fmt;
use std::io::{IsTerminal, stderr};

use jiff::fmt::temporal::DateTimePrinter;
use tracing::Subscriber;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

use crate::clock::Clock;

/// The least severe level that is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Level {
    /// Decisions with their inputs.
    Debug,
    /// What belongs into a timeline for users.
    #[default]
    Info,
    /// What needs action by a person.
    Error,
}

/// Format of the lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// One JSON object per line.
    #[default]
    Json,
    /// Text for terminals.
    Text,
}

/// Configuration of the logs.
#[derive(Clone, Debug, Default)]
pub struct LogConfig {
    /// Level of all modules.
    pub level: Level,
    /// Format of the lines.
    pub format: Format,
    /// A filter such as `info,grove_runtime=debug` that replaces the level, usually from the environment.
    pub filter: Option<String>,
}

/// Why logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The filter is invalid.
    #[error("log filter {filter:?} is not understood: {source}; write for example info,kube=debug")]
    Filter {
        /// The filter as given.
        filter: String,
        /// What is wrong with it.
        source: tracing_subscriber::filter::ParseError,
    },
    /// Logging is already set up.
    #[error("logging is set up already in this operating-system process")]
    AlreadySet(#[source] tracing::dispatcher::SetGlobalDefaultError),
}

/// Sets up logging for the operating-system process. Fails on a second call.
pub fn init(config: &LogConfig, clock: Clock) -> Result<(), LogError> {
    let subscriber = subscriber(config, clock, stderr, stderr().is_terminal())?;
    tracing::subscriber::set_global_default(subscriber).map_err(LogError::AlreadySet)
}

fn subscriber<W>(
    config: &LogConfig,
    clock: Clock,
    writer: W,
    terminal: bool,
) -> Result<Box<dyn Subscriber + Send + Sync>, LogError>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter(config)?)
        .with_timer(LogTime(clock))
        .with_writer(writer)
        .with_ansi(terminal && config.format == Format::Text);
    Ok(match config.format {
        Format::Text => Box::new(builder.finish()),
        Format::Json => Box::new(builder.json().flatten_event(true).with_span_list(false).finish()),
    })
}

fn filter(config: &LogConfig) -> Result<EnvFilter, LogError> {
    match &config.filter {
        Some(filter) => EnvFilter::try_new(filter)
            .map_err(|source| LogError::Filter { filter: filter.clone(), source }),
        None => Ok(EnvFilter::new(match config.level {
            // Our dependencies log every frame and every request at debug.
            Level::Debug => "debug,h2=info,hyper=info,hyper_util=info,rustls=info,tower=info",
            Level::Info => "info",
            Level::Error => "error",
        })),
    }
}

struct LogTime(Clock);

impl FormatTime for LogTime {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        let printer = DateTimePrinter::new().precision(Some(6));
        writer.write_str(&printer.timestamp_to_string(&self.0.wall()))
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use serde_json::{Value, json};

    use super::*;

    #[derive(Clone, Default)]
    struct Captured(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Captured {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(config: &LogConfig, terminal: bool, body: impl FnOnce()) -> String {
        let out = Captured::default();
        let writer = out.clone();
        let clock = Clock::at("2026-03-01T12:00:00Z".parse().unwrap());
        let subscriber = subscriber(config, clock, move || writer.clone(), terminal).unwrap();
        tracing::subscriber::with_default(subscriber, body);
        let bytes = out.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    fn one_of_each() {
        let span = tracing::info_span!("reconcile", controller = "podclique", attempt = 2);
        let _entered = span.enter();
        tracing::debug!("thinking");
        tracing::info!(pods = 3, gang = "a/b", "gang admitted");
        tracing::error!("a person must act");
    }

    #[tokio::test(start_paused = true)]
    async fn a_json_line_carries_time_level_message_fields_and_span() {
        let config = LogConfig { level: Level::Info, ..LogConfig::default() };

        let lines = logged(&config, true, one_of_each);

        let lines: Vec<Value> = lines.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(
            lines[0],
            json!({
                "timestamp": "2026-03-01T12:00:00.000000Z",
                "level": "INFO",
                "message": "gang admitted",
                "pods": 3,
                "gang": "a/b",
                "target": "grove_runtime::logs::tests",
                "span": {"name": "reconcile", "controller": "podclique", "attempt": 2},
            })
        );
    }

    #[tokio::test(start_paused = true)]
    async fn levels_and_filters_select_the_lines() {
        let cases = [
            (Level::Debug, None, 3),
            (Level::Info, None, 2),
            (Level::Error, None, 1),
            (Level::Error, Some("grove_runtime=debug"), 3),
            (Level::Debug, Some("off"), 0),
        ];
        for (level, filter, lines) in cases {
            let filter = filter.map(str::to_owned);
            let config = LogConfig { level, filter, ..LogConfig::default() };
            assert_eq!(logged(&config, false, one_of_each).lines().count(), lines, "{config:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn only_terminals_get_colours() {
        let text = LogConfig { format: Format::Text, ..LogConfig::default() };
        assert!(!logged(&text, false, one_of_each).contains('\x1b'));
        assert!(logged(&text, true, one_of_each).contains('\x1b'));
        assert!(!logged(&LogConfig::default(), true, one_of_each).contains('\x1b'));
    }

    #[tokio::test]
    async fn a_second_initialisation_and_a_bad_filter_are_errors() {
        let clock = Clock::system();
        let quiet = LogConfig { filter: Some("off".to_owned()), ..LogConfig::default() };
        // Another test of this binary may have called it first; the second call fails in any case.
        let _ = init(&quiet, clock.clone());

        let again = init(&quiet, clock.clone()).unwrap_err();
        let bad = LogConfig { filter: Some("grove=loud".to_owned()), ..LogConfig::default() };
        let bad = init(&bad, clock).unwrap_err();

        assert!(again.to_string().contains("set up already"), "{again}");
        assert!(bad.to_string().contains(r#"log filter "grove=loud" is not understood"#), "{bad}");
    }
}
