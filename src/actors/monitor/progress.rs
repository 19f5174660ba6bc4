//! How far the list and watch of one type has come, and how far of that the graph is.

use kube_gc_core::object::ResourceVersion;

/// How far a feed has come.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Everything up to this version has arrived.
    pub(super) received: Option<ResourceVersion>,
    /// Everything up to this version is in the graph.
    pub(super) applied: Option<ResourceVersion>,
    /// Whether any list is in the graph.
    pub(super) listed: bool,
    list: List,
}

/// The latest list.
#[derive(Debug, Default)]
enum List {
    /// There is none yet, it is in the graph, or another has failed since.
    #[default]
    Settled,
    /// It is complete, and on its way into the graph.
    Ended {
        /// What has gone wrong with its watch since: that comes before the graph has
        /// taken the list in if the graph is busy.
        failure: Option<String>,
    },
}

/// A list is in the graph.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Listed {
    /// What has gone wrong with the watch since it ended, and is not over.
    pub(super) failure: Option<String>,
}

impl Progress {
    /// A list has arrived as a whole.
    pub(super) fn list_ended(&mut self, resource_version: Option<ResourceVersion>) {
        self.list = List::Ended { failure: None };
        self.received = resource_version;
    }

    /// A list could not be had: one that is still on its way is out of date.
    pub(super) fn list_failed(&mut self) {
        self.list = List::Settled;
    }

    /// The watch ended before its time, or could not begin.
    pub(super) fn watch_failed(&mut self, error: String) {
        if let List::Ended { failure } = &mut self.list {
            *failure = Some(error);
        }
    }

    /// The watch goes on: whatever went wrong is over.
    pub(super) fn goes_on(&mut self) {
        if let List::Ended { failure } = &mut self.list {
            *failure = None;
        }
    }

    /// All that was on its way is in the graph. Returns the list, if it was on its way.
    pub(super) fn list_applied(&mut self) -> Option<Listed> {
        match std::mem::take(&mut self.list) {
            List::Settled => None,
            List::Ended { failure } => {
                self.listed = true;
                Some(Listed { failure })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_that_fails_before_its_list_is_in_the_graph_has_failed_afterwards_too() {
        let mut progress = Progress::default();
        assert_eq!(progress.list_applied(), None);
        progress.list_ended(None);
        progress.watch_failed("forbidden".into());
        assert_eq!(progress.list_applied(), Some(Listed { failure: Some("forbidden".into()) }));
        assert!(progress.listed);
        assert_eq!(progress.list_applied(), None, "once");
    }

    #[test]
    fn a_watch_that_goes_on_has_not_failed() {
        let mut progress = Progress::default();
        progress.list_ended(None);
        progress.watch_failed("reset".into());
        progress.goes_on();
        assert_eq!(progress.list_applied(), Some(Listed { failure: None }));
        progress.list_ended(None);
        progress.watch_failed("expired".into());
        progress.list_ended(None);
        assert_eq!(progress.list_applied(), Some(Listed { failure: None }), "that of an earlier list");
    }

    #[test]
    fn a_list_that_has_failed_is_not_synced_by_the_one_before_it() {
        let mut progress = Progress::default();
        progress.list_ended(None);
        progress.watch_failed("expired".into());
        progress.list_failed();
        assert_eq!(progress.list_applied(), None);
        assert!(!progress.listed);
    }
}
