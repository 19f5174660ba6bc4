//! The objects that manifests name.

use serde_json::Value;

use super::ObjectArgument;
use kube_gc_core::object::{Namespace, split_api_version};

impl ObjectArgument {
    /// The objects of YAML or JSON with one or more documents. Nothing but types, namespaces and names is
    /// looked at.
    ///
    /// # Errors
    ///
    /// It is no manifest, or an object in it has no type, no name, or a namespace that cannot be.
    pub fn read_manifest(text: &str) -> Result<Vec<Self>, String> {
        let mut open: Vec<Value> = serde_saphyr::from_multiple(text).map_err(|error| error.to_string())?;
        open.retain(|document| !document.is_null());
        open.reverse();
        let mut objects = Vec::new();
        while let Some(mut item) = open.pop() {
            if let Some(Value::Array(items)) = item.get_mut("items").map(Value::take) {
                open.extend(items.into_iter().rev());
                continue;
            }
            let text = |value: &Value| value.as_str().map(str::to_owned);
            let (kind, name) = (text(&item["kind"]), text(&item["metadata"]["name"]));
            let namespace = text(&item["metadata"]["namespace"]);
            let (Some(kind), Some(version), Some(name)) = (kind, text(&item["apiVersion"]), name) else {
                return Err(format!("object {} has no apiVersion, kind or metadata.name", objects.len() + 1));
            };
            let (group, version) = split_api_version(&version);
            let of_type = format!("{kind}.{version}.{group}");
            objects.push(Self::Named {
                of_type,
                namespace: namespace.as_deref().and_then(Namespace::parse),
                name,
            });
        }
        Ok(objects)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_types_and_names_are_read() {
        let read = |text: &str| {
            let name = |object: ObjectArgument| match object {
                ObjectArgument::Named { of_type, namespace, name } => {
                    format!("{of_type} {}/{name}", namespace.map(|name| name.to_string()).unwrap_or_default())
                }
                ObjectArgument::Uid(uid) => uid.to_string(),
            };
            let objects = ObjectArgument::read_manifest(text)?;
            Ok::<_, String>(objects.into_iter().map(name).collect::<Vec<_>>())
        };
        let yaml = "---\n# a\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: {x: 'y'}}\ndata: {n: 1}\n\
                    ---\napiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: b\n  namespace: shop\n";
        assert_eq!(read(yaml).unwrap(), ["ConfigMap.v1. /a", "Deployment.v1.apps shop/b"]);
        let json = r#"{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"}}]}"#;
        assert_eq!(read(json).unwrap(), ["Pod.v1. /p"]);
        assert_eq!(read("").unwrap(), [""; 0]);
        let incomplete = "has no apiVersion, kind or metadata.name";
        for (text, why) in
            [("kind: Pod", incomplete), ("metadata: {name: a}", incomplete), ("a: [", "line 1")]
        {
            let error = read(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
