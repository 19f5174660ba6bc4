//! What ends the process, and who notices.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use actix::Arbiter;

/// The exit code after a part failed that cannot be restarted alone
/// (`EX_SOFTWARE` of sysexits.h).
pub const FATAL_EXIT_CODE: i32 = 70;

/// Why the process cannot go on.
#[derive(Debug)]
pub enum Fatal {
    /// A partition of the graph is lost or half updated.
    Graph {
        /// What happened.
        detail: String,
    },
    /// An actor that holds work or starts it panicked.
    Actor {
        /// Which.
        name: &'static str,
    },
    /// A thread that carries actors ended.
    Thread {
        /// What ran on it.
        name: String,
    },
}

impl fmt::Display for Fatal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Graph { detail } => write!(f, "the graph is not to be trusted any more: {detail}"),
            Self::Actor { name } => write!(f, "{name} panicked, and its work would never be done"),
            Self::Thread { name } => write!(f, "the thread of {name} has ended"),
        }
    }
}

/// Ends the process at once: a restart rebuilds the graph from the API server,
/// going on with a broken one might delete something that is alive.
pub fn die(why: &Fatal) -> ! {
    tracing::error!(exit_code = FATAL_EXIT_CODE, "ending: {why}; a restart rebuilds the graph");
    say(why);
    std::process::exit(FATAL_EXIT_CODE)
}

/// Held by an actor that nothing can do without: its panic is the process's end.
/// actix drops an actor that panicked and goes on; whoever sends it something is
/// not told.
#[derive(Debug)]
pub struct Vital(pub &'static str);

impl Drop for Vital {
    fn drop(&mut self) {
        if std::thread::panicking() {
            die(&Fatal::Actor { name: self.0 });
        }
    }
}

#[expect(clippy::print_stderr, reason = "the last words must be heard whatever the log's filter is")]
fn say(why: &Fatal) {
    eprintln!("kube-gc: {why}");
}

/// Starts threads for actors and notices when one ends before its time.
#[derive(Debug, Clone, Default)]
pub struct Threads {
    ending: Arc<AtomicBool>,
}

impl Threads {
    /// A new thread that runs actors. Its unexpected end is the process's end.
    ///
    /// # Errors
    /// When the operating system gives no thread.
    pub fn start(&self, name: &str) -> std::io::Result<actix::ArbiterHandle> {
        let arbiter = Arbiter::new();
        let handle = arbiter.handle();
        let ending = Arc::clone(&self.ending);
        let name = name.to_owned();
        // The watcher ends with the thread that it watches.
        std::thread::Builder::new().name(format!("watch {name}")).spawn(move || {
            let ended = arbiter.join();
            if ended.is_err() || !ending.load(Ordering::Acquire) {
                die(&Fatal::Thread { name });
            }
        })?;
        Ok(handle)
    }

    /// From now on threads may end.
    pub fn ending(&self) {
        self.ending.store(true, Ordering::Release);
    }
}
