//! JSON patches, with the liberties that Kubernetes takes: what is tested to be null
//! may be missing, what is copied may be, too, and is null then, a value that is not
//! given is null, what is replaced may be missing in an object that is there, and
//! negative indices count from the end where something is added or removed. (A real
//! server panics where something is to be replaced or tested there.)

use json_patch::PatchOperation;
use serde_json::Value;

/// Carries out operations. What an error leaves behind is of no use.
///
/// # Errors
///
/// Which operation is none, or cannot be carried out.
pub(super) fn apply(object: &mut Value, operations: Vec<Value>) -> Result<(), String> {
    for mut operation in operations {
        let told = operation.to_string();
        if let Some(fields) = operation.as_object_mut() {
            fields.entry("value").or_insert(Value::Null);
        }
        let operation = serde_json::from_value(operation).map_err(|error| format!("{error}: {told}"))?;
        let Some(operation) = as_by_the_book(object, operation) else { continue };
        if operation.path().is_root() {
            return Err(format!("the whole cannot be changed: {told}"));
        }
        json_patch::patch(object, &[operation]).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// The operation of RFC 6902 that does the same; none if there is nothing to do.
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

/// Whether the path's parent is an object that has no such member.
fn is_missing_member(object: &Value, path: &Pointer) -> bool {
    let Some((parent, _)) = path.as_str().rsplit_once('/') else { return false };
    object.pointer(parent).is_some_and(Value::is_object) && object.pointer(path.as_str()).is_none()
}

/// The path with a negative index at its end counted from the front, in a list that
/// is about to be this much longer.
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
    fn what_is_missing_is_null() {
        let unchanged = patched(&json!([]));
        assert_eq!(patched(&json!([{"op": "test", "path": "/a/c", "value": null}])), unchanged);
        assert_eq!(patched(&json!([{"op": "test", "path": "/a/b", "value": null}])), None);
        assert_eq!(patched(&json!([{"op": "test", "path": "/x/c", "value": null}])), None);
        assert_eq!(patched(&json!([{"op": "test", "path": "/a/c", "value": 1}])), None);
    }

    #[test]
    fn what_is_missing_is_replaced() {
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
}
