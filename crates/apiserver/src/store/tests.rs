use std::ops::Bound;

use serde_json::json;

use super::*;

fn secrets() -> ResourceName {
    ResourceName::new("", "secrets")
}

fn cause() -> Arc<Cause> {
    Cause::server("test")
}

fn put(store: &mut Store, name: &str, data: &str) -> u64 {
    let key = Key::new(Some("shop"), name);
    let value = json!({"metadata": {"name": name, "namespace": "shop"}, "data": data});
    store.write(&secrets(), &key, value, &cause()).resource_version()
}

fn seen(past: &Past<'_>) -> Vec<String> {
    past.range(None, Bound::Unbounded)
        .map(|(key, object)| format!("{} {}", key.name, object.value()["data"].as_str().unwrap()))
        .collect()
}

fn since(store: &Store, version: u64) -> Result<Vec<(u64, bool)>, Compacted> {
    let changes = store.changes_since(&secrets(), version)?;
    Ok(changes.map(|change| (change.version, change.removed)).collect())
}

#[test]
fn a_cache_may_fall_behind_an_earlier_read() {
    let mut store = Store::new(2, false);
    let first = put(&mut store, "a", "1");
    let second = put(&mut store, "b", "1");
    put(&mut store, "a", "2");
    assert!(!store.fall_behind(&secrets(), store.head()), "the cache is not behind");
    assert!(store.fall_behind(&secrets(), second));
    assert_eq!(store.cached(&secrets()), Cached { version: second, last: second });
    assert_eq!(seen(&store.at(&secrets(), second).unwrap()), ["a 1", "b 1"]);
    store.thaw(&secrets());
    put(&mut store, "c", "1");
    assert!(!store.fall_behind(&secrets(), first), "the version has been compacted");
}

#[test]
fn a_restored_backup_reverts_everything() {
    let mut store = Store::new(100, true);
    let kept = put(&mut store, "a", "1");
    let backup = store.snapshot();
    put(&mut store, "a", "2");
    put(&mut store, "b", "1");
    let began = store.endings();
    store.restore(&backup, None);
    assert_eq!(store.head(), kept);
    assert_eq!(seen(&store.at(&secrets(), kept).unwrap()), ["a 1"]);
    assert!(since(&store, kept - 1).is_err());
    assert_eq!(store.ended_since(&secrets(), began), Some((Ending::Restored, kept)));
    assert_eq!(put(&mut store, "c", "1"), kept + 1);

    let mut replayed = BTreeMap::new();
    for change in store.journal() {
        if change.removed {
            replayed.remove(&change.key);
        } else {
            replayed.insert(change.key.clone(), change.after.clone());
        }
    }
    let now: BTreeMap<Key, Object> =
        store.objects(&secrets()).map(|(key, object)| (key.clone(), object.clone())).collect();
    assert_eq!(replayed, now);
}

#[test]
fn a_namespace_is_a_range() {
    let mut store = Store::default();
    for (namespace, name) in [("a", "1"), ("a", "2"), ("a-b", "1"), ("b", "1")] {
        let value = json!({"metadata": {"name": name, "namespace": namespace}});
        store.write(&secrets(), &Key::new(Some(namespace), name), value, &cause());
    }
    let past = store.at(&secrets(), store.head()).unwrap();
    let names =
        |from: Bound<&Key>| past.range(Some("a"), from).map(|(key, _)| key.name.to_string()).collect();
    let all: Vec<String> = names(Bound::Unbounded);
    assert_eq!(all, ["1", "2"]);
    let rest: Vec<String> = names(Bound::Excluded(&Key::new(Some("a"), "1")));
    assert_eq!(rest, ["2"]);
}

#[test]
fn compaction_applies_to_types_without_objects() {
    let mut store = Store::default();
    let first = put(&mut store, "a", "1");
    put(&mut store, "a", "2");
    store.compact(u64::MAX);
    let pods = ResourceName::new("", "pods");
    let known = |store: &Store, version| store.changes_since(&pods, version).map(Iterator::count);
    assert!(known(&store, first).is_err());
    assert_eq!(known(&store, store.head()), Ok(0));
    store.write(&pods, &Key::new(Some("shop"), "p"), json!({"kind": "Pod"}), &cause());
    assert!(known(&store, first).is_err());
    assert_eq!(known(&store, store.head() - 1), Ok(1));
}
