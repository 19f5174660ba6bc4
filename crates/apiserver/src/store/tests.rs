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

fn drop(store: &mut Store, name: &str) -> u64 {
    store.remove(&secrets(), &Key::new(Some("shop"), name), &cause()).unwrap().resource_version()
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
fn a_write_without_a_change_makes_no_version() {
    let mut store = Store::default();
    let version = put(&mut store, "a", "1");
    let key = Key::new(Some("shop"), "a");
    let mut value = store.get(&secrets(), &key).unwrap().to_value();
    value["metadata"]["resourceVersion"] = "".into();
    value["metadata"]["managedFields"] = json!([{"manager": "somebody"}]);
    let same = store.write(&secrets(), &key, value.clone(), &cause());
    assert_eq!((same.resource_version(), store.head()), (version, version));
    value["metadata"]["labels"] = json!({});
    let other = store.write(&secrets(), &key, value, &cause());
    assert_eq!(other.resource_version(), version + 1);
}

#[test]
fn a_removal_has_a_version_and_the_last_state() {
    let mut store = Store::default();
    let created = put(&mut store, "a", "1");
    let gone = drop(&mut store, "a");
    assert_eq!(gone, created + 1);
    assert_eq!(since(&store, 0), Ok(vec![(created, false), (gone, true)]));
    let change = store.changes_since(&secrets(), created).unwrap().next().unwrap();
    assert_eq!(change.before.as_ref().map(Object::resource_version), Some(created));
    assert_eq!(change.after.value()["data"], "1");
    assert!(store.remove(&secrets(), &Key::new(Some("shop"), "a"), &cause()).is_none());
}

#[test]
fn earlier_versions_can_be_read_until_they_are_compacted() {
    let mut store = Store::new(3, false);
    let a = put(&mut store, "a", "1");
    let c = put(&mut store, "c", "1");
    let changed = put(&mut store, "a", "2");
    let gone = drop(&mut store, "c");
    let b = put(&mut store, "b", "1");
    let view = |version| store.at(&secrets(), version).map(|past| seen(&past));
    assert_eq!(view(b), Ok(vec!["a 2".to_owned(), "b 1".to_owned()]));
    assert_eq!(view(gone), Ok(vec!["a 2".to_owned()]));
    assert_eq!(view(changed), Ok(vec!["a 2".to_owned(), "c 1".to_owned()]));
    assert_eq!(view(c), Ok(vec!["a 1".to_owned(), "c 1".to_owned()]));
    assert_eq!(view(a), Err(Compacted { asked: a, oldest: c }));
    assert_eq!(since(&store, a), Err(Compacted { asked: a, oldest: c }));
    assert_eq!(since(&store, c).map(|changes| changes.len()), Ok(3));
}

#[test]
fn a_frozen_cache_outlives_compaction() {
    let mut store = Store::new(1, false);
    let first = put(&mut store, "a", "1");
    store.freeze(&secrets());
    for data in ["2", "3", "4"] {
        put(&mut store, "a", data);
    }
    store.compact(u64::MAX);
    assert_eq!(store.cached(&secrets()), Cached { version: first, last: first });
    assert_eq!(seen(&store.at(&secrets(), first).unwrap()), ["a 1"]);
    store.thaw(&secrets());
    let head = store.head();
    assert_eq!(store.cached(&secrets()), Cached { version: head, last: head });
    assert!(store.at(&secrets(), first).is_err());
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
    store.restore(&backup);
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
