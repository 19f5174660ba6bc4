//! Objects by type, with one resource version for all types, and the history of changes.

mod table;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::mem::take;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::object::{Key, Object};
use crate::resources::ResourceName;
use table::Table;

pub use table::{Cached, Past};

/// How watches were ended from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Cleanly, after all earlier events.
    Clean,
    /// By a broken connection.
    Cut,
    /// By a restored backup. Earlier changes are unknown now.
    Restored,
}

#[derive(Clone, Debug)]
struct Ended {
    /// `None` for all types.
    resource: Option<ResourceName>,
    /// The newest version at that moment.
    version: u64,
    how: Ending,
}

/// The types that have changed since the last query.
#[derive(Clone, Debug, Default)]
pub struct Touched {
    /// All types.
    pub all: bool,
    /// These types.
    pub resources: BTreeSet<ResourceName>,
}

/// All objects, the resource version, and the history.
#[derive(Debug)]
pub struct Store {
    head: u64,
    tables: BTreeMap<ResourceName, Table>,
    history: usize,
    journal: Option<Vec<Arc<Change>>>,
    endings: Vec<Ended>,
    touched: Touched,
    /// The table of a type that has had no objects.
    blank: Table,
}

impl Default for Store {
    fn default() -> Self {
        Self::new(10_000, false)
    }
}

impl Store {
    /// An empty store that keeps this many changes of each type for watches and, with a journal,
    /// all changes.
    pub fn new(history: usize, journal: bool) -> Self {
        Self {
            // As an empty etcd. 0 has a special meaning in requests.
            head: 1,
            tables: BTreeMap::new(),
            history,
            journal: journal.then(Vec::new),
            endings: Vec::new(),
            touched: Touched::default(),
            blank: Table::default(),
        }
    }

    /// The newest resource version.
    pub const fn head(&self) -> u64 {
        self.head
    }

    /// Skips this many versions without a change of objects, as writes of leases and events do in a
    /// real store.
    pub fn skip(&mut self, versions: u64) {
        self.head = self.head.saturating_add(versions);
    }

    /// The current state of an object.
    pub fn get(&self, resource: &ResourceName, key: &Key) -> Option<&Object> {
        self.of(resource).objects.get(key)
    }

    /// All current objects of a type, ordered by namespace and name.
    pub fn objects(&self, resource: &ResourceName) -> impl Iterator<Item = (&Key, &Object)> {
        self.of(resource).objects.iter()
    }

    /// Creates or replaces an object. Its `metadata.resourceVersion` becomes the new version. If
    /// nothing else differs from the current state, nothing changes.
    pub fn write(
        &mut self,
        resource: &ResourceName,
        key: &Key,
        mut value: Value,
        cause: &Arc<Cause>,
    ) -> Object {
        let before = self.get(resource, key).cloned();
        if let Some(before) = &before {
            set_version(&mut value, before.resource_version());
            if *before.value() == value {
                return before.clone();
            }
        }
        set_version(&mut value, self.head + 1);
        let after = Object::new(value);
        self.table(resource).objects.insert(key.clone(), after.clone());
        self.record(resource, key, before, after, false, cause)
    }

    /// Removes an object. Returns its last state with the version of the removal.
    pub fn remove(&mut self, resource: &ResourceName, key: &Key, cause: &Arc<Cause>) -> Option<Object> {
        let before = self.tables.get_mut(resource)?.objects.remove(key)?;
        let mut value = before.to_value();
        set_version(&mut value, self.head + 1);
        Some(self.record(resource, key, Some(before), Object::new(value), true, cause))
    }

    fn record(
        &mut self,
        resource: &ResourceName,
        key: &Key,
        before: Option<Object>,
        after: Object,
        removed: bool,
        cause: &Arc<Cause>,
    ) -> Object {
        self.head += 1;
        let change = Arc::new(Change {
            version: self.head,
            resource: resource.clone(),
            key: key.clone(),
            before,
            after: after.clone(),
            removed,
            cause: Arc::clone(cause),
        });
        if let Some(journal) = &mut self.journal {
            journal.push(Arc::clone(&change));
        }
        let history = self.history;
        self.table(resource).record(change, history);
        self.touch(resource);
        after
    }

    /// The changes of a type after a version, the oldest first.
    pub fn changes_since(
        &self,
        resource: &ResourceName,
        version: u64,
    ) -> Result<impl Iterator<Item = &Arc<Change>> + use<'_>, Compacted> {
        self.of(resource).changes_since(version)
    }

    /// The objects of a type at an earlier version.
    pub fn at(&self, resource: &ResourceName, version: u64) -> Result<Past<'_>, Compacted> {
        self.of(resource).at(version)
    }

    /// Drops the history of all types up to a version, at most up to the current one.
    pub fn compact(&mut self, up_to: u64) {
        let up_to = up_to.min(self.head);
        for table in self.tables.values_mut().chain([&mut self.blank]) {
            table.compact(up_to);
        }
    }

    /// The version that the watch cache of a type has reached.
    pub fn cached(&self, resource: &ResourceName) -> Cached {
        self.of(resource).cached(self.head)
    }

    /// Freezes the watch cache of a type: until it is thawed, watches and reads that may be old
    /// show nothing newer.
    pub fn freeze(&mut self, resource: &ResourceName) {
        let head = self.head;
        self.table(resource).freeze(head);
    }

    /// Freezes the watch cache of a type at an earlier version, as that of another API server that
    /// lags behind. Returns whether the version is still known.
    pub fn fall_behind(&mut self, resource: &ResourceName, version: u64) -> bool {
        version < self.head && self.table(resource).fall_behind(version)
    }

    /// Thaws the watch cache of a type, so that it catches up.
    pub fn thaw(&mut self, resource: &ResourceName) {
        let history = self.history;
        self.table(resource).thaw(history);
        self.touch(resource);
    }

    /// All changes ever made, in order; empty without a journal.
    pub fn journal(&self) -> &[Arc<Change>] {
        self.journal.as_deref().unwrap_or_default()
    }

    /// Ends the open watches of a type, or of all types.
    pub fn end_watches(&mut self, resource: Option<&ResourceName>, how: Ending) {
        self.endings.push(Ended { resource: resource.cloned(), version: self.head, how });
        match resource {
            Some(resource) => self.touch(resource),
            None => self.touched.all = true,
        }
    }

    /// The number of times that watches were ended. A watch remembers it when it begins.
    pub const fn endings(&self) -> usize {
        self.endings.len()
    }

    /// How, and at which version, a watch of a type that began after this many ends was ended, if
    /// it was.
    pub fn ended_since(&self, resource: &ResourceName, endings: usize) -> Option<(Ending, u64)> {
        let later = self.endings.get(endings..)?;
        let ended = later.iter().find(|ended| ended.resource.as_ref().is_none_or(|one| one == resource))?;
        Some((ended.how, ended.version))
    }

    /// The types that have changed since the last call.
    pub fn take_touched(&mut self) -> Touched {
        take(&mut self.touched)
    }

    fn touch(&mut self, resource: &ResourceName) {
        self.touched.resources.insert(resource.clone());
    }

    fn of(&self, resource: &ResourceName) -> &Table {
        self.tables.get(resource).unwrap_or(&self.blank)
    }

    fn table(&mut self, resource: &ResourceName) -> &mut Table {
        self.tables.entry(resource.clone()).or_insert_with(|| self.blank.clone())
    }
}

fn set_version(value: &mut Value, version: u64) {
    let Some(object) = value.as_object_mut() else { return };
    let metadata = object.entry("metadata").or_insert_with(|| Map::new().into());
    if let Some(metadata) = metadata.as_object_mut() {
        metadata.insert("resourceVersion".to_owned(), version.to_string().into());
    }
}

/// The cause of a change: the client and its request.
#[derive(Clone, Debug, PartialEq)]
pub struct Cause {
    /// The number of the request; 0 is the server itself.
    pub request: u64,
    /// The user agent.
    pub user_agent: String,
    /// The HTTP method.
    pub method: String,
    /// The path and query.
    pub path: String,
    /// The body, if it is JSON.
    pub body: Value,
}

impl Cause {
    /// The cause of the server's own writes, such as the clean-up of a CustomResourceDefinition or
    /// a namespace.
    pub fn server(what: &str) -> Arc<Self> {
        Arc::new(Self {
            request: 0,
            user_agent: "kube-apiserver".to_owned(),
            method: String::new(),
            path: what.to_owned(),
            body: Value::Null,
        })
    }
}

/// A change of one object.
#[derive(Clone, Debug)]
pub struct Change {
    /// The resource version of the change.
    pub version: u64,
    /// The type of the object.
    pub resource: ResourceName,
    /// The namespace and name of the object.
    pub key: Key,
    /// The state before; `None` if the object was created.
    pub before: Option<Object>,
    /// The state after. For a removed object, its last state with the version of the removal.
    pub after: Object,
    /// Whether the object was removed.
    pub removed: bool,
    /// The request that made the change.
    pub cause: Arc<Cause>,
}

/// The requested versions have been compacted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compacted {
    /// The requested version.
    pub asked: u64,
    /// The oldest version that is kept.
    pub oldest: u64,
}

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
