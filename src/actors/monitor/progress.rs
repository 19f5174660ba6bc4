//! How much of the list and watch of one type has arrived, and how much of it the graph has
//! applied.

use kube_gc_core::object::ResourceVersion;

/// The progress of a feed.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Everything up to this version has arrived.
    pub(super) received: Option<ResourceVersion>,
    /// The graph contains everything up to this version.
    pub(super) applied: Option<ResourceVersion>,
    /// Whether any list is in the graph.
    pub(super) listed: bool,
    list: List,
}

/// The latest list.
#[derive(Debug, Default)]
enum List {
    /// There is no list yet, the graph has applied it, or a later one failed.
    #[default]
    Settled,
    /// The list is complete, and the graph has not applied it yet.
    Ended {
        /// The failure of the watch that followed. A watch may fail before a busy graph has applied
        /// the list.
        failure: Option<String>,
    },
}

/// A list that the graph has applied.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Listed {
    /// A failure of the watch since the list, unless the watch has recovered.
    pub(super) failure: Option<String>,
}

impl Progress {
    /// Notes that a whole list has arrived.
    pub(super) fn list_ended(&mut self, resource_version: Option<ResourceVersion>) {
        self.list = List::Ended { failure: None };
        self.received = resource_version;
    }

    /// Notes a failed list. An earlier one that is still being applied is out of date.
    pub(super) fn list_failed(&mut self) {
        self.list = List::Settled;
    }

    /// Notes that the watch broke or could not start.
    pub(super) fn watch_failed(&mut self, error: String) {
        if let List::Ended { failure } = &mut self.list {
            *failure = Some(error);
        }
    }

    /// Notes that the watch works again.
    pub(super) fn watch_recovered(&mut self) {
        if let List::Ended { failure } = &mut self.list {
            *failure = None;
        }
    }

    /// The graph has applied every change so far. Returns the list, if one was waiting.
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
    fn a_watch_failure_outlives_the_application_of_its_list() {
        let mut progress = Progress::default();
        assert_eq!(progress.list_applied(), None);
        progress.list_ended(None);
        progress.watch_failed("forbidden".into());
        assert_eq!(progress.list_applied(), Some(Listed { failure: Some("forbidden".into()) }));
        assert!(progress.listed);
        assert_eq!(progress.list_applied(), None, "a list is returned once");
    }

    #[test]
    fn a_watch_that_recovers_has_no_failure() {
        let mut progress = Progress::default();
        progress.list_ended(None);
        progress.watch_failed("reset".into());
        progress.watch_recovered();
        assert_eq!(progress.list_applied(), Some(Listed { failure: None }));
        progress.list_ended(None);
        progress.watch_failed("expired".into());
        progress.list_ended(None);
        assert_eq!(
            progress.list_applied(),
            Some(Listed { failure: None }),
            "the failure belonged to an earlier list"
        );
    }

    #[test]
    fn a_failed_list_is_not_synced_by_an_earlier_one() {
        let mut progress = Progress::default();
        progress.list_ended(None);
        progress.watch_failed("expired".into());
        progress.list_failed();
        assert_eq!(progress.list_applied(), None);
        assert!(!progress.listed);
    }
}
