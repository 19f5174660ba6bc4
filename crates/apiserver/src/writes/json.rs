//! JSON patches with the deviations of Kubernetes: a `test` for null and a `copy` accept a missing
//! value, which is null then; an omitted value is null; a `replace` accepts a missing member of an
//! existing object; and negative indices count from the end in `add` and `remove`. (In `replace`
//! and `test`, a real server panics over them.)

use json_patch::PatchOperation;
use serde_json::Value;

/// The maximum number of operations, as on real servers.
const OPERATIONS: usize = 10_000;

/// The maximum total size of a patch's copies, as on real servers. Each copy can double the size of
/// an object.
const COPIED: usize = 3 << 20;

/// The maximum depth, as for request bodies. Each operation can add a level, and very deep values
/// overflow the stack even when they are dropped.
const DEPTH: usize = 128;

/// Why a patch is rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// An operation is malformed or fails.
    Rejected(String),
    /// There are too many operations.
    TooMany(String),
}

/// Applies operations. After an error, the value is unspecified.
///
/// # Errors
///
/// If an operation is malformed or fails, or if there are too many.
pub(super) fn apply(object: &mut Value, operations: Vec<Value>) -> Result<(), Refusal> {
    if operations.len() > OPERATIONS {
        return Err(Refusal::TooMany(format!(
            "The allowed maximum operations in a JSON patch is {OPERATIONS}, got {}",
            operations.len()
        )));
    }
    let mut copied = 0;
    for mut operation in operations {
        let told = operation.to_string();
        if let Some(fields) = operation.as_object_mut() {
            fields.entry("value").or_insert(Value::Null);
        }
        let operation = serde_json::from_value(operation)
            .map_err(|error| Refusal::Rejected(format!("{error}: {told}")))?;
        let Some(operation) = as_by_the_book(object, operation) else { continue };
        if operation.path().is_root() {
            return Err(Refusal::Rejected(format!("the whole document cannot be replaced: {told}")));
        }
        copied += check_size(object, &operation, copied)?;
        json_patch::patch(object, &[operation]).map_err(|error| Refusal::Rejected(error.to_string()))?;
    }
    Ok(())
}

/// Rejects an operation that makes an object too deep or, with earlier copies, too large. Returns
/// the size of its copy.
fn check_size(object: &Value, operation: &PatchOperation, copied: usize) -> Result<usize, Refusal> {
    let (placed, copies) = match operation {
        PatchOperation::Add(add) => (Some(&add.value), false),
        PatchOperation::Replace(replace) => (Some(&replace.value), false),
        PatchOperation::Move(moved) => (object.pointer(moved.from.as_str()), false),
        PatchOperation::Copy(copy) => (object.pointer(copy.from.as_str()), true),
        PatchOperation::Remove(_) | PatchOperation::Test(_) => (None, false),
    };
    let Some(placed) = placed else { return Ok(0) };
    if operation.path().as_str().matches('/').count() + depth(placed) > DEPTH {
        return Err(Refusal::Rejected(format!("it would be more than {DEPTH} levels deep")));
    }
    let size = if copies { placed.to_string().len() } else { 0 };
    if copied + size > COPIED {
        return Err(Refusal::Rejected(format!("its copies add more than {COPIED} bytes")));
    }
    Ok(size)
}

/// The depth of a value.
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(entries) => 1 + entries.iter().map(depth).max().unwrap_or_default(),
        Value::Object(entries) => 1 + entries.values().map(depth).max().unwrap_or_default(),
        _ => 1,
    }
}

/// The equivalent operation of RFC 6902; `None` if there is nothing to do.
fn as_by_the_book(object: &Value, mut operation: PatchOperation) -> Option<PatchOperation> {
    match &mut operation {
        PatchOperation::Add(add) => add.path = from_the_front(object, &add.path, 1),
        PatchOperation::Remove(remove) => remove.path = from_the_front(object, &remove.path, 0),
        PatchOperation::Replace(replace) if is_missing_member(object, &replace.path) => {
            let (path, value) = (replace.path.clone(), replace.value.clone());
            return Some(PatchOperation::Add(json_patch::AddOperation { path, value }));
        }
        PatchOperation::Test(test) if test.value.is_null() && is_missing_member(object, &test.path) => {
            return None;
        }
        PatchOperation::Copy(copy) if is_missing_member(object, &copy.from) => {
            let (path, value) = (copy.path.clone(), Value::Null);
            return Some(PatchOperation::Add(json_patch::AddOperation { path, value }));
        }
        _ => {}
    }
    Some(operation)
}

/// Whether the parent of the path is an object without this member.
fn is_missing_member(object: &Value, path: &Pointer) -> bool {
    let Some((parent, _)) = path.as_str().rsplit_once('/') else { return false };
    object.pointer(parent).is_some_and(Value::is_object) && object.pointer(path.as_str()).is_none()
}

/// The path with a negative last index counted from the front, in a list that is about to grow by
/// this much.
fn from_the_front(object: &Value, path: &Pointer, longer: usize) -> Pointer {
    let counted = || {
        let (parent, last) = path.as_str().rsplit_once('/')?;
        let back: usize = last.strip_prefix('-')?.parse().ok()?;
        let length = object.pointer(parent)?.as_array()?.len() + longer;
        format!("{parent}/{}", length.checked_sub(back)?).parse().ok()
    };
    counted().unwrap_or_else(|| path.clone())
}

type Pointer = json_patch::jsonptr::PointerBuf;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn patched(patch: &Value) -> Option<Value> {
        let mut object = json!({"a": {"b": 1}, "list": [1, 2, 3]});
        apply(&mut object, patch.as_array().unwrap().clone()).ok().map(|()| object)
    }

    #[test]
    fn missing_values_are_null() {
        let unchanged = patched(&json!([]));
        assert_eq!(patched(&json!([{"op": "test", "path": "/a/c", "value": null}])), unchanged);
        assert_eq!(patched(&json!([{"op": "test", "path": "/a/b", "value": null}])), None);
        assert_eq!(patched(&json!([{"op": "test", "path": "/x/c", "value": null}])), None);
        assert_eq!(patched(&json!([{"op": "test", "path": "/a/c", "value": 1}])), None);
    }

    #[test]
    fn missing_values_are_added() {
        let replaced = patched(&json!([{"op": "replace", "path": "/a/c", "value": 2}])).unwrap();
        assert_eq!(replaced["a"], json!({"b": 1, "c": 2}));
        assert_eq!(patched(&json!([{"op": "replace", "path": "/x/c", "value": 2}])), None);
        assert_eq!(patched(&json!([{"op": "remove", "path": "/a/c"}])), None);
    }

    #[test]
    fn negative_indices_count_from_the_end() {
        let list = |patch: Value| patched(&patch).map(|object| object["list"].clone());
        assert_eq!(list(json!([{"op": "remove", "path": "/list/-1"}])), Some(json!([1, 2])));
        assert_eq!(list(json!([{"op": "add", "path": "/list/-1", "value": 4}])), Some(json!([1, 2, 3, 4])));
        assert_eq!(list(json!([{"op": "add", "path": "/list/-", "value": 4}])), Some(json!([1, 2, 3, 4])));
        assert_eq!(list(json!([{"op": "add", "path": "/list/-4", "value": 4}])), Some(json!([4, 1, 2, 3])));
        assert_eq!(list(json!([{"op": "remove", "path": "/list/-4"}])), None);
    }

    #[test]
    fn no_patch_nests_an_object_too_deeply_to_be_dropped() {
        let deeper = json!({"op": "copy", "from": "/a", "path": "/a/a"});
        let mut object = json!({"a": {}});
        let refused = apply(&mut object, vec![deeper.clone(); OPERATIONS]).unwrap_err();
        assert!(matches!(refused, Refusal::Rejected(_)), "{refused:?}");
        assert!(depth(&object) <= DEPTH, "{}", depth(&object));
        let mut object = json!({"a": {}});
        assert_eq!(apply(&mut object, vec![deeper; 100]), Ok(()));
        assert!(depth(&object) > 100);
        let path = "/a".repeat(DEPTH);
        assert!(apply(&mut object, vec![json!({"op": "add", "path": path, "value": {"a": {}}})]).is_err());
    }

    #[test]
    fn no_patch_grows_an_object_without_bound() {
        let mut object = json!({"a": {"text": "x".repeat(1000)}});
        let doubling = (0..64).map(|number| {
            let path = format!("/a/copy{number}");
            json!({"op": "copy", "from": "/a", "path": path})
        });
        let refused = apply(&mut object, doubling.collect()).unwrap_err();
        assert!(matches!(refused, Refusal::Rejected(_)), "{refused:?}");
        assert!(object.to_string().len() < 2 * COPIED);
        let nothing = json!({"op": "test", "path": "/none", "value": null});
        assert_eq!(apply(&mut object, vec![nothing.clone(); OPERATIONS]), Ok(()));
        let refused = apply(&mut object, vec![nothing; OPERATIONS + 1]).unwrap_err();
        assert!(matches!(refused, Refusal::TooMany(_)), "{refused:?}");
    }
}
