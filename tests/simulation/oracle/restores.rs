//! Restores of the store from a backup (rules 1.21 to 1.23).
//!
//! History branches then: what happened after the backup has never happened. Uids
//! come back, and versions are given out once more. From that moment on the restored
//! state is the truth by which every write is judged, whatever the collector has
//! noticed. That it could not know yet excuses nothing: while an API server's store is
//! exchanged nobody can reach it and every watch ends, so whoever writes afterwards
//! has had reason to ask first which version the store is at.
//!
//! One excuse there is. A request that had left the collector's hands before the
//! server was stopped can not be called back. All that binds it is the uid and the
//! version, and both may be there again: the same ones if the object is as it was in
//! the backup, or the version by accident, since it was given out twice. Such a
//! request is judged by what was true until the restore, and passes if it was right
//! when it was sent. Nothing else passes: not what is sent while
//! the server is down, waits for it, and is tried again; not what is decided on an
//! answer from before.

use std::time::Duration;

use kube_gc_apiserver::store::Change;

use super::Oracle;
use super::history::History;
use super::violation::Violation;

/// What was true until the store was restored.
#[derive(Debug)]
pub(super) struct Branch {
    history: History,
    /// The version at which the new one begins.
    version: u64,
    /// When the server was stopped.
    until: Duration,
}

/// Whether a change is how the journal tells of a restore. Its sum is known already.
pub(super) fn is_part_of_one(change: &Change) -> bool {
    change.cause.request == 0 && change.cause.path == "restore"
}

impl Oracle {
    /// Somebody takes a backup of the store as it is.
    pub fn backed_up(&mut self) {
        self.backup = Some(self.history.clone());
    }

    /// The store was restored from the last backup, which was taken at this version; for
    /// that the server was stopped. To be told before the changes that come after it.
    pub fn restored(&mut self, version: u64, stopped: Duration) {
        let Some(backup) = self.backup.clone() else { return };
        let history = self.history.go_back(backup);
        self.abandoned = Some(Branch { history, version, until: stopped });
        self.knowledge.restored(version);
    }

    /// That restore has raised the version. The collector may forget what it knew, or
    /// not; what is in the backup it knows when it is shown it.
    pub fn raised(&mut self) {
        self.knowledge.raised();
    }

    /// Judges a change by the truth, and what was sent before the store was restored by
    /// what was true then.
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

    /// Whether a change was right in the branch that is at present the history.
    fn was_right(&self, change: &Change, backup: u64) -> bool {
        let bound = change.cause.body["preconditions"]["resourceVersion"].as_str().unwrap_or_default();
        if bound.parse().is_ok_and(|version: u64| version > backup) {
            // It meant another state of the object than the one with this version now;
            // one that is forgotten may have been any.
            let meant = self.history.version(change.after.uid(), bound).cloned();
            let Some(meant) = meant else { return true };
            return self.judge(&Change { before: Some(meant), ..change.clone() }).is_ok();
        }
        self.judge(change).is_ok()
    }
}
