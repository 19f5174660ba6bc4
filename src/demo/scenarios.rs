//! Runs the scenarios, and verifies each result on the server.

use std::collections::BTreeMap;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::cluster::{Answer, Cluster, User};
use super::output::{self, Output, READING_PAUSE};
use super::recorder::Recorder;
use super::shop::{
    Fixture, GONE, Link, OBJECTS, ObjectRef, Operation, PREREQUISITES, SCENARIOS, Scenario, WARNED,
};
use kube_gc_client::OWNER_REF_INVALID_NAMESPACE;
use kube_gc_core::object::{GroupResource, ResourceVersion};

/// What is known of one run in one cluster.
struct Runner<'a> {
    cluster: &'a Cluster,
    recorder: &'a Recorder,
    output: &'a Output,
    /// The uid of each object that was created, by its name for people.
    uids: BTreeMap<String, String>,
    /// The latest version of each type that an answer has shown.
    versions: BTreeMap<GroupResource, ResourceVersion>,
}

/// Creates the shop and runs all scenarios, one after another.
pub async fn run(cluster: &Cluster, recorder: &Recorder, output: &Output) -> Result<(), String> {
    let mut runner = Runner { cluster, recorder, output, uids: BTreeMap::new(), versions: BTreeMap::new() };
    runner.create_shop().await?;
    let (text, objects) = tree();
    output.text(&text);
    output.event("shop", &json!({ "objects": objects }));
    output.pause(2 * READING_PAUSE).await;
    for (number, Scenario { name, title, about, phases }) in (1..).zip(&SCENARIOS) {
        output.text(&output::heading(number, SCENARIOS.len(), title, about));
        output.pause(READING_PAUSE).await;
        let mut results = Vec::new();
        for (operation, expected) in *phases {
            let result = runner.phase(operation, expected).await;
            results.push(result.map_err(|error| format!("scenario {name:?}: {error}"))?);
        }
        output.event("scenario", &json!({ "name": name, "title": title, "about": about, "phases": results }));
        output.pause(READING_PAUSE).await;
    }
    Ok(())
}

impl Runner<'_> {
    async fn create_shop(&mut self) -> Result<(), String> {
        for fixture in PREREQUISITES {
            self.perform(&Operation::Create(fixture)).await?;
        }
        // The collector parks an object that refers to a kind it does not know yet.
        until(async || {
            let monitors = self.cluster.collector().monitors();
            let is_known = monitors.iter().any(|monitor| monitor.resource == "carts" && monitor.synced);
            Ok(is_known.then_some(()).ok_or_else(|| "the collector does not watch carts".to_owned()))
        })
        .await?;
        for fixture in OBJECTS {
            self.perform(&Operation::Create(fixture)).await?;
        }
        until(async || Ok(self.cluster.is_idle(&self.versions).await)).await
    }

    async fn perform(&mut self, operation: &Operation) -> Result<Answer, String> {
        let (object, method, path, body) = match operation {
            Operation::Create(fixture) => {
                (fixture.object, Method::POST, fixture.object.collection(), fixture.body(&self.uids))
            }
            Operation::Delete(object, policy) => {
                let options =
                    json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": policy});
                (*object, Method::DELETE, object.path(), options)
            }
            Operation::RemoveFinalizer(object, _) => {
                (*object, Method::PATCH, object.path(), json!({"metadata": {"finalizers": null}}))
            }
        };
        let answer = self.cluster.user.send_ok(method, &path, Some(&body)).await?;
        let metadata = &answer.body["metadata"];
        if let Some(version) = metadata["resourceVersion"].as_str().and_then(ResourceVersion::parse) {
            self.versions.insert(object.group_resource(), version);
        }
        if let Some(uid) = metadata["uid"].as_str() {
            self.uids.insert(object.to_string(), uid.to_owned());
        }
        Ok(answer)
    }

    /// Carries out an operation and verifies what follows. Returns the result for the JSON output.
    async fn phase(
        &mut self,
        operation: &Operation,
        expected: &[(ObjectRef, &str)],
    ) -> Result<Value, String> {
        let (text, command) = describe(operation);
        self.output.text(&output::operation(&text, command.as_deref()));
        // Discards steps that follow from an earlier operation.
        self.recorder.restart(true);
        let Answer { request, .. } = self.perform(operation).await?;
        // Verifies when nothing is under way: what exists must continue to exist.
        let verified = until(async || {
            let idle = self.cluster.is_idle(&self.versions).await;
            let verified = verify(&self.cluster.user, expected).await?;
            Ok(idle.and(verified))
        })
        .await?;
        let steps = self.recorder.take_steps();
        steps.iter().for_each(|step| self.output.text(&output::step(step)));
        let milliseconds = steps.last().map_or(request.milliseconds, |step| step.milliseconds);
        self.output.text(&output::verified(steps.len(), milliseconds, &verified));
        let mut result = json!({
            "operation": text, "request": request, "steps": steps, "verified": verified, "milliseconds": milliseconds,
        });
        if let Some(command) = command {
            result["command"] = command.into();
        }
        Ok(result)
    }
}

/// Looks until there is what is wanted. After a minute it is an error that there is something else.
pub async fn until<T>(mut look: impl AsyncFnMut() -> Result<Result<T, String>, String>) -> Result<T, String> {
    const TIMEOUT: Duration = Duration::from_secs(60);
    let deadline = Instant::now() + TIMEOUT;
    loop {
        match look().await? {
            Ok(found) => return Ok(found),
            Err(why) if Instant::now() > deadline => {
                return Err(format!("after {} s: {why}", TIMEOUT.as_secs()));
            }
            Err(_) => sleep(Duration::from_millis(10)).await,
        }
    }
}

/// Compares the server with what is expected of objects. The inner result says what is true, or what is
/// not.
async fn verify(user: &User, expected: &[(ObjectRef, &str)]) -> Result<Result<Vec<String>, String>, String> {
    let (mut right, mut wrong) = (Vec::new(), Vec::new());
    for (object, expected) in expected {
        if *expected == WARNED {
            match warning(user, *object).await? {
                Some(message) => right.push(format!("there is a warning event about {object}: {message}")),
                None => wrong.push(format!("there should be a warning event about {object}")),
            }
            continue;
        }
        let found = user.get(&object.path()).await?.map_or_else(|| GONE.to_owned(), |found| state(&found));
        if found == *expected {
            right.push(format!("{object} {found}"));
        } else {
            wrong.push(format!("{object} {found}, and not: {expected}"));
        }
    }
    Ok(if wrong.is_empty() { Ok(right) } else { Err(wrong.join("; ")) })
}

/// The state of an object, in words.
fn state(object: &Value) -> String {
    let metadata = &object["metadata"];
    if !metadata["deletionTimestamp"].is_null() {
        let finalizers = metadata["finalizers"].as_array().map_or(&[][..], Vec::as_slice);
        let names: Vec<&str> = finalizers.iter().filter_map(Value::as_str).collect();
        return format!("is being deleted and waits for the finalizer {}", names.join(" and "));
    }
    match metadata["ownerReferences"].as_array().map_or(0, Vec::len) {
        0 => "exists and has no owner".to_owned(),
        1 => "exists and has one owner".to_owned(),
        owners => format!("exists and has {owners} owners"),
    }
}

/// The message of the collector's warning event about an object, if there is one.
async fn warning(user: &User, about: ObjectRef) -> Result<Option<String>, String> {
    let path = format!("/api/v1/namespaces/{}/events", about.namespace);
    let events = user.send_ok(Method::GET, &path, None).await?.body;
    let of = |event: &&Value| {
        event["reason"] == OWNER_REF_INVALID_NAMESPACE
            && event["type"] == "Warning"
            && event["involvedObject"]["name"] == about.name
            && event["involvedObject"]["kind"] == about.kind.name
    };
    let event = events["items"].as_array().and_then(|events| events.iter().find(of));
    Ok(event.map(|event| event["message"].as_str().unwrap_or_default().to_owned()))
}

/// Describes an operation, with the equivalent command if there is one.
fn describe(operation: &Operation) -> (String, Option<String>) {
    let named = |ObjectRef { kind, namespace, name }: &ObjectRef| {
        format!("{} {name} -n {namespace}", kind.name.to_lowercase())
    };
    match operation {
        Operation::Delete(object, policy) => {
            let policy = policy.as_str().to_lowercase();
            let command = format!("kubectl delete {} --cascade={policy}", named(object));
            (format!("{object} is deleted"), Some(command))
        }
        Operation::RemoveFinalizer(object, finalizer) => {
            let patch = r#"{"metadata":{"finalizers":null}}"#;
            let command = format!("kubectl patch {} --type=merge -p '{patch}'", named(object));
            (format!("The finalizer {finalizer} is removed from {object}"), Some(command))
        }
        Operation::Create(Fixture { object, owners, .. }) => {
            let owners: Vec<_> = owners.iter().map(|(owner, _)| owner.to_string()).collect();
            (format!("{object} is created with the owner {}", owners.join(" and ")), None)
        }
    }
}

/// The objects of the shop as a tree: as text, and for the JSON output.
fn tree() -> (String, Vec<Value>) {
    let mut text = "The objects of the shop, each below its owner:\n\n".to_owned();
    let mut objects = Vec::new();
    for root in OBJECTS.iter().filter(|fixture| fixture.owners.is_empty()) {
        add_tree(root, 0, "  ", "  ", &mut text, &mut objects);
    }
    (text, objects)
}

/// Adds an object and, below it, its dependents. An object with two owners is below the first one.
/// `prefix` leads to the object, and `below` to what is below it.
fn add_tree(
    fixture: &Fixture,
    depth: usize,
    prefix: &str,
    below: &str,
    text: &mut String,
    objects: &mut Vec<Value>,
) {
    let Fixture { object, owners, finalizers } = fixture;
    let mut notes: Vec<String> =
        owners.iter().skip(1).map(|(owner, _)| format!("also owned by {owner}")).collect();
    notes.extend(
        owners.iter().any(|(_, link)| *link == Link::Blocking).then(|| "blocks its owner".to_owned()),
    );
    notes.extend(finalizers.iter().map(|finalizer| format!("finalizer {finalizer}")));
    let note = notes.join(", ");
    text.push_str(&output::tree_line(prefix, object, &note));
    let mut line = json!({ "object": object.to_string(), "depth": depth });
    if !note.is_empty() {
        line["note"] = note.into();
    }
    objects.push(line);
    let owned = |other: &&Fixture| other.owners.first().is_some_and(|(owner, _)| owner == object);
    let mut dependents = OBJECTS.iter().filter(owned).peekable();
    while let Some(dependent) = dependents.next() {
        let (branch, line) =
            if dependents.peek().is_some() { ("├─ ", "│  ") } else { ("└─ ", "   ") };
        let (prefix, below) = (format!("{below}{branch}"), format!("{below}{line}"));
        add_tree(dependent, depth + 1, &prefix, &below, text, objects);
    }
}

#[cfg(test)]
mod tests {
    use kube_gc_apiserver::ApiServer;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_scenario_that_does_not_end_as_expected_is_an_error() {
        let user = User(ApiServer::new(kube_gc_apiserver::Settings::default()).client());
        let [object, gone] = [OBJECTS[13], OBJECTS[9]].map(|fixture| fixture.object);
        for fixture in [PREREQUISITES[0], OBJECTS[13]] {
            let body = fixture.body(&BTreeMap::new());
            user.send_ok(Method::POST, &fixture.object.collection(), Some(&body)).await.unwrap();
        }
        let error = until(async || verify(&user, &[(gone, GONE), (object, GONE)]).await).await.unwrap_err();
        assert_eq!(error, "after 60 s: ConfigMap opening-hours exists and has no owner, and not: is gone");
    }
}
