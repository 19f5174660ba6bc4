//! The record of a run, in order: every step, request and answer with its time.

use std::collections::VecDeque;
use std::fmt;
use std::hash::{DefaultHasher, Hasher as _};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;

/// How many lines are kept for the report of a failure.
const KEPT: usize = 400;
/// The longest line that is kept whole.
const LONGEST: usize = 600;

/// A trace: the last lines, and a hash of all of them. Clones share it.
#[derive(Clone, Debug)]
pub struct Trace(Arc<Mutex<Lines>>);

#[derive(Debug)]
struct Lines {
    started: Instant,
    hasher: DefaultHasher,
    last: VecDeque<String>,
    verbose: bool,
}

impl Trace {
    /// An empty trace. If `verbose`, it prints each line.
    pub fn new(verbose: bool) -> Self {
        let lines =
            Lines { started: Instant::now(), hasher: DefaultHasher::new(), last: VecDeque::new(), verbose };
        Self(Arc::new(Mutex::new(lines)))
    }

    /// Records a line.
    pub fn note(&self, line: fmt::Arguments<'_>) {
        self.with(|lines| {
            let at = lines.started.elapsed();
            let mut line = format!("{:>12.6} {line}", at.as_secs_f64());
            lines.hasher.write(line.as_bytes());
            if lines.verbose {
                println!("{line}");
            }
            if line.len() > LONGEST {
                let end = (0..=LONGEST).rev().find(|end| line.is_char_boundary(*end)).unwrap_or_default();
                line.truncate(end);
                line.push('…');
            }
            if lines.last.len() >= KEPT {
                lines.last.pop_front();
            }
            lines.last.push_back(line);
        });
    }

    /// Adds bytes to the hash that are too long for a line.
    pub fn bytes(&self, bytes: &[u8]) {
        self.with(|lines| lines.hasher.write(bytes));
    }

    /// The hash of everything so far.
    pub fn hash(&self) -> u64 {
        self.with(|lines| lines.hasher.finish())
    }

    /// The last lines.
    pub fn last(&self) -> Vec<String> {
        self.with(|lines| lines.last.iter().cloned().collect())
    }

    fn with<T>(&self, look: impl FnOnce(&mut Lines) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
