//! Why an object is gone, as far as a collector remembers it.

use serde_json::Value;

use super::InsightError;
use super::collector::Collector;
use super::session::{ObjectArgument, Session};
use kube_gc_client::encode;
use kube_gc_core::object::{Namespace, Scope};
use kube_gc_core::text::word;

/// When a collector deleted an object, and why, by what `/debug/decisions` has about it.
fn sentence(past: &Value) -> Option<String> {
    let list = |name: &str| past[name].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_done =
        |decision: &&Value| decision["outcome"] == "deleted" || decision["outcome"] == "deletion_pending";
    let single = list("decisions").iter().find(is_done).map(|decision| {
        let owners = decision["owners"].as_array().map(Vec::as_slice).unwrap_or_default();
        (&decision["at"], owners.iter().find(|owner| owner["class"] != "solid"))
    });
    let several = || list("deletions").first().map(|deletions| (&deletions["at"], Some(&deletions["owner"])));
    let (at, owner) = single.or_else(several)?;
    let why = owner.map(|owner| {
        let text = |name: &str| word(owner[name].as_str().unwrap_or_default()).to_string();
        let class = match &*text("class") {
            "waiting" => "was waiting for its dependents to go".to_owned(),
            "orphaned" => "had released its dependents".to_owned(),
            other => format!("was {other}"),
        };
        let evidence = match &*text("evidence") {
            "graph" => "its deletion was seen".to_owned(),
            "remembered" => "it was proved absent shortly before".to_owned(),
            "live" => "the API server said so".to_owned(),
            other => other.to_owned(),
        };
        format!(": its owner {}/{} {class} ({evidence})", text("kind"), text("name"))
    });
    Some(format!("kube-gc deleted it at {}{}", word(at.as_str()?), why.unwrap_or_default()))
}

impl Session {
    /// Says why there is no such object, if the collector remembers that, and else who may know.
    pub(super) async fn why_gone(
        &self,
        collector: Option<&Collector>,
        object: &ObjectArgument,
        none: String,
    ) -> InsightError {
        let ObjectArgument::Named { of_type, namespace, name } = object else {
            return InsightError::NoSuchObject(none);
        };
        let Some(resource) = self.discovered.type_named(of_type) else {
            return InsightError::NoSuchObject(none);
        };
        let namespace = namespace.as_ref().or(self.namespace.as_ref());
        let namespace = namespace.filter(|_| resource.scope == Scope::Namespaced);
        let namespace = namespace.map(Namespace::as_str);
        let group_resource = resource.group_resource.to_string();
        let mut path = "/debug/decisions?action=delete&limit=10".to_owned();
        let parameters =
            [("resource", Some(&*group_resource)), ("name", Some(name)), ("namespace", namespace)];
        for (parameter, value) in parameters {
            let Some(value) = value else { continue };
            path.push_str(&format!("&{parameter}="));
            encode(&mut path, value);
        }
        let past = match collector {
            Some(collector) => self.wait(collector.page::<Value>(&path)).await.ok().flatten(),
            None => None,
        };
        let place = namespace.map(|namespace| format!(", namespace {namespace}")).unwrap_or_default();
        let audit = format!(
            "the API server's audit log says who deleted it: verb delete, resource {group_resource}{place}, name {name}"
        );
        InsightError::NoSuchObject(match (past.as_ref().and_then(sentence), collector) {
            (Some(why), _) => format!("{none}: {why}"),
            (None, Some(_)) => {
                format!("{none}, and the collector does not remember that it deleted it; {audit}")
            }
            (None, None) => format!("{none}; a collector may remember it (--collector), and {audit}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_deletion_that_is_remembered_has_a_time_and_a_cause() {
        let owner = |class: &str| json!({ "kind": "ConfigMap", "name": "five3", "class": class, "evidence": "graph" });
        let decision =
            |outcome: &str, owners: Value| json!({ "at": "noon", "outcome": outcome, "owners": owners });
        let absent =
            "kube-gc deleted it at noon: its owner ConfigMap/five3 was absent (its deletion was seen)";
        for (past, expected) in [
            (
                json!({ "decisions": [decision("deleted", json!([owner("solid"), owner("absent")]))] }),
                Some(absent),
            ),
            (json!({ "deletions": [{ "at": "noon", "owner": owner("absent") }] }), Some(absent)),
            (
                json!({ "decisions": [decision("deletion_pending", json!([owner("waiting")]))] }),
                Some(
                    "kube-gc deleted it at noon: its owner ConfigMap/five3 was waiting for its dependents to go (its deletion was seen)",
                ),
            ),
            (json!({ "decisions": [decision("denied", json!([owner("absent")]))] }), None),
        ] {
            assert_eq!(sentence(&past).as_deref(), expected);
        }
    }
}
