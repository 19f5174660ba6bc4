//! Backups of the whole state, and their restore.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::object::{Key, Object};
use crate::resources::ResourceName;
use crate::store::table::Table;
use crate::store::{Cause, Change, Ending, Store};

/// All objects at one version.
#[derive(Clone, Debug)]
pub struct Snapshot {
    head: u64,
    tables: BTreeMap<ResourceName, BTreeMap<Key, Object>>,
}

impl Snapshot {
    /// The version of the backup.
    pub const fn version(&self) -> u64 {
        self.head
    }
}

impl Store {
    /// Takes a backup.
    pub fn snapshot(&self) -> Snapshot {
        let tables = self.tables.iter().map(|(resource, table)| (resource.clone(), table.objects.clone()));
        Snapshot { head: self.head, tables: tables.collect() }
    }

    /// Restores a backup, as a restore of etcd does: versions are assigned again, uids come back,
    /// the history is lost, and all watches end. The journal records it as changes at the version
    /// of the backup.
    ///
    /// It may also raise the version by this much above all versions that were assigned, as
    /// `etcdutl snapshot restore --bump-revision --mark-compacted` does. Objects keep their
    /// versions.
    pub fn restore(&mut self, snapshot: &Snapshot, raised_by: Option<u64>) {
        self.note_restore(snapshot);
        let newest = self.head.max(snapshot.head);
        let head = raised_by.map_or(snapshot.head, |by| newest.saturating_add(by));
        self.head = head;
        self.tables = snapshot
            .tables
            .iter()
            .map(|(resource, objects)| (resource.clone(), Table::restored(objects.clone(), head)))
            .collect();
        self.blank = Table::restored(BTreeMap::new(), head);
        self.end_watches(None, Ending::Restored);
    }

    fn note_restore(&mut self, snapshot: &Snapshot) {
        let Some(journal) = &mut self.journal else { return };
        let cause = Cause::server("restore");
        let nothing = BTreeMap::new();
        let resources: BTreeSet<&ResourceName> = self.tables.keys().chain(snapshot.tables.keys()).collect();
        for resource in resources {
            let now = self.tables.get(resource).map_or(&nothing, |table| &table.objects);
            let then = snapshot.tables.get(resource).unwrap_or(&nothing);
            let keys: BTreeSet<&Key> = now.keys().chain(then.keys()).collect();
            for key in keys {
                let (before, after) = (now.get(key), then.get(key));
                let Some(last) = after.or(before).filter(|_| before != after) else { continue };
                journal.push(Arc::new(Change {
                    version: snapshot.head,
                    resource: resource.clone(),
                    key: key.clone(),
                    before: before.cloned(),
                    after: last.clone(),
                    removed: after.is_none(),
                    cause: Arc::clone(&cause),
                }));
            }
        }
    }
}
