//! Restores of the store from a backup (rules 1.21 to 1.23).
//!
//! A restore branches the history: what happened after the backup has never happened. Uids come
//! back, and versions are used again. From that moment on, every write is judged by the restored
//! state, whether or not the collector has noticed the restore. That it could not know yet is no
//! excuse: while the store of an API server is replaced, nobody can reach the server and every
//! watch ends, so a client that writes afterwards had a reason to check the version of the store
//! first.
//!
//! There is one excuse. A request that was sent before the server was stopped cannot be called
//! back. Only uid and version bind it, and both may exist again: because the object is as it was
//! in the backup, or by accident, because versions are used twice. Such a request is judged by
//! the history before the restore, and passes if it was right when it was sent. Nothing else
//! passes: neither a request that is sent while the server is down and tried again later, nor a
//! decision that is based on an earlier answer.

use std::time::Duration;

use kube_gc_apiserver::store::Change;

use super::Oracle;
use super::history::History;
use super::violation::Violation;

/// The history that a restore abandoned.
#[derive(Debug)]
pub(super) struct Branch {
    history: History,
    /// The version at which the restored history begins.
    version: u64,
    /// When the server was stopped.
    until: Duration,
}

/// Whether a change only reports a restore in the journal. The oracle knows its result already.
pub fn is_part_of_one(change: &Change) -> bool {
    change.cause.request == 0 && change.cause.path == "restore"
}

impl Oracle {
    /// A backup of the present state is taken.
    pub fn backed_up(&mut self) {
        self.backup = Some(self.history.clone());
    }

    /// The store was restored from the last backup, which was taken at this version; the server
    /// was stopped for that. Must be called before the changes that follow.
    pub fn restored(&mut self, version: u64, stopped: Duration) {
        let Some(backup) = self.backup.clone() else { return };
        let history = self.history.go_back(backup);
        self.abandoned = Some(Branch { history, version, until: stopped });
        self.knowledge.restored(version);
    }

    /// Judges a change by the present history, and a request that was sent before the restore by
    /// the history at that time.
    pub(super) fn judge_or_excuse(&mut self, change: &Change) -> Result<(), Violation> {
        let judged = self.judge(change);
        let sent = self.sent;
        match self.abandoned.take_if(|branch| sent < branch.until) {
            Some(mut branch) => {
                std::mem::swap(&mut self.history, &mut branch.history);
                let was_right = judged.is_ok() || self.was_right(change, branch.version);
                std::mem::swap(&mut self.history, &mut branch.history);
                self.abandoned = Some(branch);
                if was_right { Ok(()) } else { judged }
            }
            None => judged,
        }
    }

    /// Whether a change was right in the present branch of the history.
    fn was_right(&self, change: &Change, backup: u64) -> bool {
        let bound = change.cause.body["preconditions"]["resourceVersion"].as_str().unwrap_or_default();
        if bound.parse().is_ok_and(|version: u64| version > backup) {
            // It meant another state of the object than the one that has this version now. A
            // state that is forgotten may have been any.
            let meant = self.history.version(change.after.uid(), bound).cloned();
            let Some(meant) = meant else { return true };
            return self.judge(&Change { before: Some(meant), ..change.clone() }).is_ok();
        }
        self.judge(change).is_ok()
    }
}
