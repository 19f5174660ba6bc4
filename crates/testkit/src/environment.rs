//! The environment of a scenario.

use std::cell::RefCell;
use std::fmt::{self, Display};

use kube_gc_apiserver::Release;

/// The environment of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Environment {
    /// A real API server. The collector is a process with a kubeconfig.
    Real,
    /// The embedded API server, which emulates a release. The collector is the same process.
    Embedded(Release),
    /// A real API server on which the manifests of `deploy/` run the collector.
    Deployed,
}

impl Environment {
    /// The first part of the names of its scenarios.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Real => "real",
            Self::Embedded(_) => "embedded",
            Self::Deployed => "deployed",
        }
    }
}

impl Display for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The scenario of this thread. Tests without the [harness](crate::harness) have none.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    pub scenario: String,
    pub environment: Environment,
    pub lane: &'static str,
    pub planes: usize,
}

thread_local! {
    static RUNNING: RefCell<Option<Running>> = const { RefCell::new(None) };
}

/// Sets the scenario of this thread.
pub(crate) fn enter(running: Running) {
    RUNNING.set(Some(running));
}

pub(crate) fn running() -> Option<Running> {
    RUNNING.with_borrow(Clone::clone)
}

/// The environment of this thread's scenario; a real API server outside of scenarios.
pub fn current() -> Environment {
    running().map_or(Environment::Real, |running| running.environment)
}
