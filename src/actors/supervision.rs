//! What ends the process, and who notices.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use actix::Arbiter;
use tokio::runtime::Handle;
use tokio_util::task::AbortOnDropHandle;

use crate::api::Phase;
use crate::telemetry::logging;

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

/// Who hears that a controller cannot go on.
type Listener = Box<dyn Fn(&str)>;

thread_local! {
    static LISTENER: RefCell<Option<Listener>> = const { RefCell::new(None) };
}

/// From now on, what would end the process is told here instead, for everything
/// that runs on this thread. A simulation runs many controllers in one process, and
/// the end of one is its result.
pub fn hear_last_words(listener: impl Fn(&str) + 'static) {
    LISTENER.set(Some(Box::new(listener)));
}

/// Ends the process at once: a restart rebuilds the graph from the API server,
/// going on with a broken one might delete something that is alive. Returns only
/// where [`hear_last_words`] was called.
pub fn die(why: &Fatal) {
    let heard = LISTENER.try_with(|listener| {
        let listener = listener.borrow();
        listener.as_ref().map(|listener| listener(&why.to_string())).is_some()
    });
    if heard.unwrap_or_default() {
        return;
    }
    tracing::error!(exit_code = FATAL_EXIT_CODE, "ending: {why}; a restart rebuilds the graph");
    logging::flush();
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

/// A task of this runtime that ends with the actor that waits for it: when an
/// actor is gone, nobody would hear of what it goes on doing.
pub fn task<F>(work: F) -> AbortOnDropHandle<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    AbortOnDropHandle::new(tokio::spawn(work))
}

/// Where that runs which takes long: a big list that is read, a big graph that is built.
/// Requests about single objects must not wait behind it, and it is to use all cores.
#[derive(Clone, Debug)]
pub enum Placement {
    /// Monitors on the threads of two runtimes.
    OwnThreads {
        /// For the partitions of the graph.
        graph: GraphThreads,
        /// For lists.
        lists: Handle,
        /// For watches.
        watches: Handle,
    },
    /// All on the caller's: a simulation runs everything in one thread, since only then
    /// the same seed gives the same run.
    #[cfg_attr(not(any(test, feature = "internals")), expect(dead_code, reason = "for the simulation"))]
    CallersThread,
}

/// What the partitions of the graph run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GraphThreads {
    /// A thread each. What comes in is then worked on side by side.
    Each,
    /// The caller's. To wake another thread and to be woken by it, several times for each
    /// object, takes longer than what either has to do about it; only where there are
    /// cores to spare does that come back.
    Callers,
}

impl Placement {
    /// What the partitions of the graph run on.
    #[must_use]
    pub const fn graph(&self) -> GraphThreads {
        match self {
            Self::OwnThreads { graph, .. } => *graph,
            Self::CallersThread => GraphThreads::Callers,
        }
    }

    /// Starts a monitor's task for a phase, which ends with the actor that waits for it.
    pub fn monitor<F>(&self, phase: Phase, work: F) -> AbortOnDropHandle<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        match (self, phase) {
            (Self::OwnThreads { lists, .. }, Phase::List) => AbortOnDropHandle::new(lists.spawn(work)),
            (Self::OwnThreads { watches, .. }, Phase::Watch) => AbortOnDropHandle::new(watches.spawn(work)),
            (Self::CallersThread, _) => task(work),
        }
    }
}

/// The name of a thread that carries a partition of the graph.
#[cfg(target_os = "linux")]
const GRAPH_THREAD: &std::ffi::CStr = c"graph";
/// The name of a thread that waits for the end of another.
const SUPERVISOR_THREAD: &str = "supervisor";

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
        // Actix gives all its threads one name; the metrics tell threads apart by theirs.
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

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    #[test]
    fn last_words_are_heard_on_the_thread_that_listens() {
        let heard = Rc::new(RefCell::new(Vec::new()));
        let note = Rc::clone(&heard);
        hear_last_words(move |words| note.borrow_mut().push(words.to_owned()));
        die(&Fatal::Actor { name: "discovery" });
        assert_eq!(*heard.borrow(), ["discovery panicked, and its work would never be done"]);
    }

    #[tokio::test]
    async fn a_task_ends_with_whoever_waits_for_it() {
        let (alive, ended) = tokio::sync::oneshot::channel::<()>();
        let task = task(async move {
            let _alive = alive;
            std::future::pending::<()>().await;
        });
        tokio::task::yield_now().await;
        drop(task);
        assert!(ended.await.is_err(), "what it held is gone with it");
    }
}
