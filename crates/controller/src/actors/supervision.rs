//! What ends the process, and how that is noticed.

use std::cell::RefCell;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use actix::Arbiter;
use tokio::runtime::Handle;
use tokio_util::task::AbortOnDropHandle;

use kube_gc_client::Phase;
use kube_gc_observe::telemetry::logging;

/// The exit code after the failure of a part that cannot be restarted alone (`EX_SOFTWARE` of
/// sysexits.h).
pub const FATAL_EXIT_CODE: i32 = 70;

/// Receives the reason why a collector must end.
type Listener = Box<dyn Fn(&str)>;

thread_local! {
    static LISTENER: RefCell<Option<Listener>> = const { RefCell::new(None) };
}

/// Registers a listener that is called instead of ending the process, for everything that runs on
/// this thread. A simulation runs many collectors in one process, and the end of one is a result.
pub fn on_fatal(listener: impl Fn(&str) + 'static) {
    LISTENER.set(Some(Box::new(listener)));
}

/// Ends the process at once. A restart rebuilds the graph from the API server, whereas a broken
/// graph might cause the deletion of a live object. Returns only if a listener is registered with
/// [`on_fatal`].
pub fn die(why: &str) {
    let heard = LISTENER.try_with(|listener| {
        let listener = listener.borrow();
        listener.as_ref().map(|listener| listener(why)).is_some()
    });
    if heard.unwrap_or_default() {
        return;
    }
    tracing::error!(exit_code = FATAL_EXIT_CODE, "the process ends: {why}; a restart rebuilds the graph");
    logging::flush();
    // The reason must be visible whatever the log filter is.
    let _ = writeln!(std::io::stderr(), "kube-gc: {why}");
    std::process::exit(FATAL_EXIT_CODE)
}

/// A guard inside an actor that is essential: its panic ends the process. actix drops an actor that
/// panicked and continues, and senders do not notice.
#[derive(Debug)]
pub struct Vital(pub &'static str);

impl Drop for Vital {
    fn drop(&mut self) {
        if std::thread::panicking() {
            die(&format!("{} panicked, and nothing else does its work", self.0));
        }
    }
}

/// A task that is aborted when its handle is dropped: when an actor has ended, nobody receives the
/// result of its tasks.
pub fn task<F>(work: F) -> AbortOnDropHandle<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    AbortOnDropHandle::new(tokio::spawn(work))
}

/// Where long work runs: reading a big list, building a big graph. Requests about single objects
/// must not wait behind it, and it should use all cores.
#[derive(Clone, Debug)]
pub enum Placement {
    /// Monitors run on the threads of two runtimes.
    OwnThreads {
        /// For the partitions of the graph.
        graph: GraphThreads,
        /// For lists.
        lists: Handle,
        /// For watches.
        watches: Handle,
    },
    /// Everything runs on the caller's thread. A simulation needs that, because only then the same
    /// seed gives the same run.
    CallersThread,
}

/// What the partitions of the graph run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GraphThreads {
    /// Each partition has a thread, and partitions work in parallel.
    Each,
    /// Partitions run on the caller's thread. Waking another thread several times for each object
    /// costs more than the work itself, so own threads pay only where cores are idle.
    Callers,
}

impl Placement {
    /// Where the partitions of the graph run.
    pub const fn graph(&self) -> GraphThreads {
        match self {
            Self::OwnThreads { graph, .. } => *graph,
            Self::CallersThread => GraphThreads::Callers,
        }
    }

    /// Starts a monitor's task for a phase. The task is aborted when its handle is dropped.
    pub fn monitor<F>(&self, phase: Phase, work: F) -> AbortOnDropHandle<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        AbortOnDropHandle::new(match (self, phase) {
            (Self::OwnThreads { lists, .. }, Phase::List) => lists.spawn(work),
            (Self::OwnThreads { watches, .. }, Phase::Watch) => watches.spawn(work),
            (Self::CallersThread, _) => tokio::spawn(work),
        })
    }
}

/// The name of a thread that runs a partition of the graph.
#[cfg(target_os = "linux")]
const GRAPH_THREAD: &std::ffi::CStr = c"graph";
/// The name of a thread that waits for another thread to end.
const SUPERVISOR_THREAD: &str = "supervisor";

/// Starts threads for actors and notices when one ends unexpectedly.
#[derive(Debug, Clone, Default)]
pub struct Threads {
    ending: Arc<AtomicBool>,
}

impl Threads {
    /// Starts a thread that runs actors. Its unexpected end ends the process.
    ///
    /// # Errors
    /// When the operating system cannot start a thread.
    pub fn start(&self, name: &str) -> std::io::Result<actix::ArbiterHandle> {
        let arbiter = Arbiter::new();
        let handle = arbiter.handle();
        // actix gives all its threads the same name, but the metrics distinguish threads by name.
        #[cfg(target_os = "linux")]
        handle.spawn_fn(|| {
            let _ = rustix::thread::set_name(GRAPH_THREAD);
        });
        let ending = Arc::clone(&self.ending);
        let name = name.to_owned();
        // The watcher ends with the thread that it watches.
        std::thread::Builder::new().name(SUPERVISOR_THREAD.to_owned()).spawn(move || {
            let ended = arbiter.join();
            if ended.is_err() || !ending.load(Ordering::Acquire) {
                die(&format!("the thread of {name} has ended"));
            }
        })?;
        Ok(handle)
    }

    /// Allows threads to end from now on.
    pub fn ending(&self) {
        self.ending.store(true, Ordering::Release);
    }
}
