//! Why an object is gone, as far as a collector remembers it.

use serde_json::Value;

use super::InsightError;
use super::collector::Collector;
use super::session::{ObjectArgument, Session};
use kube_gc_client::encode;
use kube_gc_core::object::{GroupResource, Identity, Scope};
use kube_gc_core::text::{listed, word};
use kube_gc_insight::{NAMESPACE_CONTROLLER, ObjectName};

/// The most owners of a deleted object that are named.
const NAMED: usize = 3;

/// What `/debug/decisions` has about the last deletion: of which object, when, and the owners that did not keep it.
fn past(page: &Value) -> Option<(String, Vec<&Value>)> {
    let list = |name: &str| page[name].as_array().map(Vec::as_slice).unwrap_or_default();
    let decisions = list("decisions");
    let is_done = |decision: &Value| {
        let outcome = &decision["outcome"];
        decision["action"] == "delete" && (outcome == "deleted" || outcome == "deletion_pending")
    };
    let Some(place) = decisions.iter().position(is_done) else {
        let several = list("deletions").first()?;
        let at = text(several, "at");
        return Some((format!("kube-gc deleted an object of that name at {at}"), vec![&several["owner"]]));
    };
    let (decision, object) = (&decisions[place], &decisions[place]["object"]);
    let is_earlier = decisions[..place].iter().any(|later| later["object"]["uid"] != object["uid"]);
    let earlier = if is_earlier { "an earlier " } else { "" };
    let [resource, name, uid] = ["resource", "name", "uid"].map(|field| text(object, field));
    let what = format!("kube-gc deleted {earlier}{resource}/{name} (uid {uid}) at {}", text(decision, "at"));
    let owners = decision["owners"].as_array().into_iter().flatten();
    Some((what, owners.filter(|owner| owner["class"] != "solid").collect()))
}

fn text(value: &Value, name: &str) -> String {
    word(value[name].as_str().unwrap_or_default()).to_string()
}

/// Why an owner did not keep an object.
fn reason(owner: &Value) -> String {
    let [kind, name, class, evidence] = ["kind", "name", "class", "evidence"].map(|field| text(owner, field));
    let class = match &*class {
        "waiting" => "was waiting for its dependents to go".to_owned(),
        "orphaned" => "had released its dependents".to_owned(),
        "absent" => "did not exist".to_owned(),
        other => format!("was {other}"),
    };
    let evidence = match &*evidence {
        "graph" => "by what the collector had seen before",
        "remembered" => "the API server had said so shortly before",
        "live" => "the API server said so",
        other => other,
    };
    format!("its owner {kind}/{name} {class} ({evidence})")
}

impl Session {
    /// Says why there is no such object, if the collector remembers that, and else who may know.
    pub(super) async fn why_gone(
        &self,
        collector: Option<&Collector>,
        object: &ObjectArgument,
        none: InsightError,
    ) -> InsightError {
        let mut path = "/debug/decisions?limit=10".to_owned();
        let mut add = |parameter: &str, value: &str| {
            path.push_str(&format!("&{parameter}="));
            encode(&mut path, value);
        };
        let (mut audit, mut emptied, mut nowhere) = (String::new(), None, None);
        match object {
            ObjectArgument::Uid(uid) => add("uid", &uid.to_string()),
            ObjectArgument::Named { of_type, namespace, name } => {
                let Some(resource) = self.discovered.type_named(of_type) else { return none };
                let GroupResource { group, resource: plural } = &resource.group_resource;
                audit = format!(
                    "the API server's audit log says who deleted it: resource {plural}, apiGroup \"{group}\", "
                );
                add("resource", &resource.group_resource.to_string());
                let namespace = namespace.as_ref().or(self.namespace.as_ref());
                if let Some(namespace) = namespace.filter(|_| resource.scope == Scope::Namespaced) {
                    add("namespace", namespace.as_str());
                    audit.push_str(&format!("namespace {namespace}, "));
                    match self.namespace_named(namespace).await {
                        Ok(found) => {
                            let ends = found.is_some_and(|(_, live)| live.facts.being_deleted);
                            emptied = ends.then_some(namespace);
                        }
                        Err(error) => nowhere = Some(error),
                    }
                }
                add("name", name);
                audit.push_str(&format!(
                    "verb delete and name {name}, or verb deletecollection, which has no name"
                ));
            }
        }
        let page = match collector {
            Some(collector) => self.wait(collector.page::<Value>(&path)).await.ok().flatten(),
            None => None,
        };
        if let Some((what, owners)) = page.as_ref().and_then(past) {
            let why = listed("; ", owners.len(), owners.iter().take(NAMED).map(|owner| reason(owner)));
            let absent = owners.into_iter().find(|owner| owner["class"] == "absent");
            let found = match absent.and_then(|owner| self.owner_of_gone(object, owner)) {
                Some(owner) => self.whereabouts(&owner).await,
                None => None,
            };
            // Somebody else may have deleted one that was created after that.
            let later =
                (!audit.is_empty()).then(|| format!("; if one was created after that and is gone, {audit}"));
            let (found, later) = (found.unwrap_or_default(), later.unwrap_or_default());
            return InsightError::NoSuchObject(format!("{none}: {what}: {why}{found}{later}"));
        }
        if let Some(nowhere) = nowhere {
            return nowhere;
        }
        match none {
            InsightError::NoSuchObject(none) if !audit.is_empty() => {
                let who = match (emptied, collector) {
                    (Some(namespace), of) => {
                        let itself = of.is_some_and(|of| of.finishes_namespaces);
                        let who = if itself { "the collector that answers" } else { NAMESPACE_CONTROLLER };
                        format!(
                            ": namespace {namespace} is being deleted, and {who} deletes what is in it and remembers \
                             no single object"
                        )
                    }
                    (None, Some(of)) if of.is_standby => {
                        ", and a standby answers, which does not know what the leader deleted: ask the leader"
                            .to_owned()
                    }
                    (None, Some(_)) => ", and the collector does not remember that it deleted it".to_owned(),
                    (None, None) => "; a collector may remember it (--collector)".to_owned(),
                };
                InsightError::NoSuchObject(format!("{none}{who}; if it ever existed, {audit}"))
            }
            none => none,
        }
    }

    /// The owner that an object has named that is gone.
    fn owner_of_gone(&self, object: &ObjectArgument, owner: &Value) -> Option<Identity> {
        let ObjectArgument::Named { namespace, .. } = object else { return None };
        let namespace = namespace.as_ref().or(self.namespace.as_ref()).map(ToString::to_string);
        let [api_version, kind, name, uid] =
            ["api_version", "kind", "name", "uid"].map(|field| text(owner, field));
        self.identity(&ObjectName { api_version, kind, namespace, name, uid, resource: None })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_deletion_that_is_remembered_has_a_time_and_a_cause_and_no_more_than_is_proved() {
        let owner = |class: &str| json!({ "kind": "ConfigMap", "name": "five3", "class": class, "evidence": "graph" });
        let decision = |outcome: &str, uid: &str, classes: &[&str]| {
            let object = json!({ "resource": "pods", "name": "x", "uid": uid });
            let owners: Vec<Value> = classes.iter().map(|class| owner(class)).collect();
            json!({ "at": "noon", "action": "delete", "outcome": outcome, "object": object, "owners": owners })
        };
        let absent = "its owner ConfigMap/five3 did not exist (by what the collector had seen before)";
        let waiting = "its owner ConfigMap/five3 was waiting for its dependents to go (by what the collector had seen \
                       before)";
        let of = |decisions: &[Value]| json!({ "decisions": decisions });
        for (page, what, why) in [
            (of(&[decision("deleted", "u", &["solid", "absent"])]), "pods/x (uid u)", vec![absent]),
            (
                of(&[decision("deleted", "u", &["absent", "waiting"])]),
                "pods/x (uid u)",
                vec![absent, waiting],
            ),
            (
                json!({ "deletions": [{ "at": "noon", "owner": owner("absent") }] }),
                "an object of that name",
                vec![absent],
            ),
            // A later one of the same name was seen.
            (
                of(&[decision("denied", "v", &[]), decision("deletion_pending", "u", &["waiting"])]),
                "an earlier pods/x (uid u)",
                vec![waiting],
            ),
        ] {
            let (said, owners) = past(&page).unwrap();
            assert_eq!(said, format!("kube-gc deleted {what} at noon"));
            assert_eq!(owners.into_iter().map(reason).collect::<Vec<_>>(), why);
        }
        assert_eq!(past(&of(&[decision("denied", "u", &["absent"])])), None);
    }
}
