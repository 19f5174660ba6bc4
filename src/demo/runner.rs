//! Runs the scenarios, and verifies each result on the server.

use std::collections::BTreeMap;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::cluster::{Answer, Cluster, Recorder, Step, User};
use super::output::{self, Output, READING_PAUSE, TreeLine};
use super::shop::{
    Expectation, Fixture, Link, OBJECTS, ObjectRef, Operation, PREREQUISITES, SCENARIOS, Scenario,
};
use crate::api::OWNER_REF_INVALID_NAMESPACE;
use crate::http::IdleQuery;
use kube_gc_core::object::{GroupResource, PropagationPolicy, ResourceVersion};

/// A phase that takes longer has failed.
const TIMEOUT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Runs scenarios one after another in one cluster.
pub struct Runner<'a> {
    cluster: &'a Cluster,
    recorder: &'a Recorder,
    output: &'a mut Output,
    /// The uid of each object that was created, by its name for people.
    uids: BTreeMap<String, String>,
    /// The latest version of each type that an answer has shown.
    versions: BTreeMap<GroupResource, ResourceVersion>,
}

impl<'a> Runner<'a> {
    pub const fn new(cluster: &'a Cluster, recorder: &'a Recorder, output: &'a mut Output) -> Self {
        Self { cluster, recorder, output, uids: BTreeMap::new(), versions: BTreeMap::new() }
    }

    /// Creates the shop and runs all scenarios.
    pub async fn run(mut self) -> Result<(), String> {
        self.create_shop().await?;
        let mut tree = Vec::new();
        for fixture in OBJECTS.iter().filter(|fixture| fixture.owners.is_empty()) {
            add_tree(fixture, 0, &mut tree);
        }
        self.output.text(|| output::tree(&tree));
        self.output.event("shop", &json!({ "objects": tree }));
        self.output.pause(2 * READING_PAUSE).await;
        for (number, scenario) in (1..).zip(&SCENARIOS) {
            let Scenario { name, title, about, phases } = scenario;
            self.output.text(|| output::heading(number, SCENARIOS.len(), title, about));
            self.output.pause(READING_PAUSE).await;
            let mut results = Vec::new();
            for (operation, expected) in *phases {
                let result = self.phase(operation, expected).await;
                results.push(result.map_err(|error| format!("scenario {name:?}: {error}"))?);
            }
            let report = json!({ "name": name, "title": title, "about": about, "phases": results });
            self.output.event("scenario", &report);
            self.output.pause(READING_PAUSE).await;
        }
        Ok(())
    }

    async fn create_shop(&mut self) -> Result<(), String> {
        for fixture in PREREQUISITES {
            self.create(&fixture).await?;
        }
        let deadline = Instant::now() + TIMEOUT;
        // The collector parks an object that refers to a kind it does not know yet.
        loop {
            let monitors = self.cluster.collector().monitors();
            if monitors.iter().any(|monitor| monitor.resource == "carts" && monitor.synced) {
                break;
            }
            poll(deadline, || "the collector does not watch carts".to_owned()).await?;
        }
        for fixture in OBJECTS {
            self.create(&fixture).await?;
        }
        self.wait_until_idle().await
    }

    async fn create(&mut self, fixture: &Fixture) -> Result<Answer, String> {
        let Fixture { object, .. } = fixture;
        let body = fixture.body(&self.uids);
        let body = body.ok_or_else(|| format!("{object} needs its owner to be created first"))?;
        let created = self.cluster.user.send_ok(Method::POST, &object.collection(), Some(&body)).await?;
        let uid = created.body["metadata"]["uid"].as_str().unwrap_or_default();
        self.uids.insert(object.to_string(), uid.to_owned());
        self.note_version(*object, &created);
        Ok(created)
    }

    /// Notes the version in an answer about an object, if there is one.
    fn note_version(&mut self, object: ObjectRef, answer: &Answer) {
        let version = answer.body["metadata"]["resourceVersion"].as_str();
        if let Some(version) = version.and_then(ResourceVersion::parse) {
            self.versions.insert(object.group_resource(), version);
        }
    }

    async fn perform(&mut self, operation: &Operation) -> Result<Answer, String> {
        let user = &self.cluster.user;
        let (object, answer) = match operation {
            Operation::Create(fixture) => return self.create(fixture).await,
            Operation::Delete(object, policy) => (object, user.delete(&object.path(), *policy).await?),
            Operation::RemoveFinalizer(object, _) => {
                let patch = json!({"metadata": {"finalizers": null}});
                (object, user.send_ok(Method::PATCH, &object.path(), Some(&patch)).await?)
            }
        };
        self.note_version(*object, &answer);
        Ok(answer)
    }

    /// Carries out an operation and verifies what follows. Returns the result for the JSON output.
    async fn phase(&mut self, operation: &Operation, expected: &[Expectation]) -> Result<Value, String> {
        let (text, command) = describe(operation);
        self.output.text(|| output::operation(&text, command.as_deref()));
        // Discards steps that follow from an earlier operation.
        self.recorder.restart();
        let Answer { request, .. } = self.perform(operation).await?;
        let mut steps: Vec<Step> = Vec::new();
        let mut receive = |output: &mut Output, missing: Option<&str>| {
            for step in self.recorder.take_steps() {
                output.text(|| output::step(&step));
                steps.push(step);
            }
            match missing {
                Some(missing) => output.waiting_for(missing),
                None => output.clear_progress(),
            }
        };
        wait_for(&self.cluster.user, expected, |missing| receive(self.output, missing)).await?;
        self.wait_until_idle().await?;
        receive(self.output, None);
        // Verifies again when nothing is under way: what exists must continue to exist.
        let mut verified = Vec::new();
        for expectation in expected {
            verified.push(verify(&self.cluster.user, *expectation).await??);
        }
        let milliseconds = steps.last().map_or(request.milliseconds, |step| step.milliseconds);
        self.output.text(|| output::verified(steps.len(), milliseconds, &verified));
        let mut result = json!({
            "operation": text, "request": request, "steps": steps, "verified": verified, "milliseconds": milliseconds,
        });
        if let Some(command) = command {
            result["command"] = command.into();
        }
        Ok(result)
    }

    /// Waits until the collector has seen all that the user has, and has nothing left to do.
    async fn wait_until_idle(&self) -> Result<(), String> {
        let deadline = Instant::now() + TIMEOUT;
        let query = IdleQuery { seen: self.versions.clone().into_iter().collect(), parked_ok: true };
        loop {
            let report = self.cluster.collector().idle(query.clone()).await;
            if report.idle {
                return Ok(());
            }
            poll(deadline, || format!("the collector is busy: {}", report.reasons.join("; "))).await?;
        }
    }
}

impl User {
    pub async fn delete(&self, path: &str, policy: PropagationPolicy) -> Result<Answer, String> {
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": policy});
        self.send_ok(Method::DELETE, path, Some(&options)).await
    }

    /// The message of the collector's warning event about an object, if there is one.
    async fn warning(&self, about: ObjectRef) -> Result<Option<String>, String> {
        let path = format!("/api/v1/namespaces/{}/events", about.namespace);
        let events = self.send_ok(Method::GET, &path, None).await?.body;
        let of = |event: &&Value| {
            event["reason"] == OWNER_REF_INVALID_NAMESPACE
                && event["type"] == "Warning"
                && event["involvedObject"]["name"] == about.name
                && event["involvedObject"]["kind"] == about.kind.name
        };
        let event = events["items"].as_array().and_then(|events| events.iter().find(of));
        Ok(event.map(|event| event["message"].as_str().unwrap_or_default().to_owned()))
    }
}

/// Waits until all expectations are met, and reports after each look what is missing.
async fn wait_for(
    user: &User,
    expected: &[Expectation],
    mut looked: impl FnMut(Option<&str>),
) -> Result<(), String> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let mut missing = Vec::new();
        for expectation in expected {
            missing.extend(verify(user, *expectation).await?.err());
        }
        looked(missing.first().map(String::as_str));
        if missing.is_empty() {
            return Ok(());
        }
        poll(deadline, || missing.join("; ")).await?;
    }
}

/// Pauses until the next check, or fails with this reason after the deadline.
async fn poll(deadline: Instant, why: impl FnOnce() -> String) -> Result<(), String> {
    if Instant::now() > deadline {
        return Err(format!("after {} s: {}", TIMEOUT.as_secs(), why()));
    }
    sleep(POLL_INTERVAL).await;
    Ok(())
}

/// Compares an expectation with the server. The inner result describes what is true, or how it
/// differs.
async fn verify(user: &User, expectation: Expectation) -> Result<Result<String, String>, String> {
    Ok(match expectation {
        Expectation::Absent(object) => match user.get(&object.path()).await? {
            None => Ok(format!("{object} is gone")),
            Some(_) => Err(format!("{object} should be gone but exists")),
        },
        Expectation::Exists(object, owners) => match user.get(&object.path()).await? {
            None => Err(format!("{object} should exist but is gone")),
            Some(content) => exists(object, owners, &content["metadata"]),
        },
        Expectation::Terminating(object, finalizer) => match user.get(&object.path()).await? {
            None => Err(format!("{object} should wait for the finalizer {finalizer} but is gone")),
            Some(content) => terminating(object, finalizer, &content["metadata"]),
        },
        Expectation::Warned(object) => match user.warning(object).await? {
            None => Err(format!("there should be a warning event about {object}")),
            Some(message) => Ok(format!("there is a warning event about {object}: {message}")),
        },
    })
}

fn exists(object: ObjectRef, owners: usize, metadata: &Value) -> Result<String, String> {
    let found = metadata["ownerReferences"].as_array().map_or(0, Vec::len);
    if !metadata["deletionTimestamp"].is_null() {
        return Err(format!("{object} should exist but is being deleted"));
    }
    match owners {
        _ if found != owners => {
            Err(format!("{object} should have {owners} owner references but has {found}"))
        }
        0 => Ok(format!("{object} exists and has no owner")),
        1 => Ok(format!("{object} exists and has one owner")),
        _ => Ok(format!("{object} exists and has {owners} owners")),
    }
}

fn terminating(object: ObjectRef, finalizer: &str, metadata: &Value) -> Result<String, String> {
    if !metadata["deletionTimestamp"].is_null() && metadata["finalizers"] == json!([finalizer]) {
        Ok(format!("{object} is being deleted and waits for the finalizer {finalizer}"))
    } else {
        Err(format!("{object} should be in deletion and wait for the finalizer {finalizer} only"))
    }
}

/// Describes an operation, with the equivalent command if there is one.
fn describe(operation: &Operation) -> (String, Option<String>) {
    let named = |object: &ObjectRef| {
        let ObjectRef { kind, namespace, name } = object;
        format!("{} {name} -n {namespace}", kind.kubectl)
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

/// Adds an object and, below it, its dependents. An object with two owners is below the first one.
fn add_tree(fixture: &Fixture, depth: usize, lines: &mut Vec<TreeLine>) {
    let Fixture { object, owners, finalizers } = fixture;
    let mut notes: Vec<String> =
        owners.iter().skip(1).map(|(owner, _)| format!("also owned by {owner}")).collect();
    notes.extend(
        owners.iter().any(|(_, link)| *link == Link::Blocking).then(|| "blocks its owner".to_owned()),
    );
    notes.extend(finalizers.iter().map(|finalizer| format!("finalizer {finalizer}")));
    lines.push(TreeLine { object: object.to_string(), depth, note: notes.join(", ") });
    let owned = |other: &&Fixture| other.owners.first().is_some_and(|(owner, _)| owner == object);
    for other in OBJECTS.iter().filter(owned) {
        add_tree(other, depth + 1, lines);
    }
}

#[cfg(test)]
mod tests {
    use kube_gc_apiserver::ApiServer;

    use super::*;

    #[test]
    fn everything_in_the_shop_is_in_the_tree_once() {
        let mut tree = Vec::new();
        for fixture in OBJECTS.iter().filter(|fixture| fixture.owners.is_empty()) {
            add_tree(fixture, 0, &mut tree);
        }
        let mut objects: Vec<_> = tree.iter().map(|line| line.object.clone()).collect();
        objects.sort();
        let mut expected: Vec<_> = OBJECTS.iter().map(|fixture| fixture.object.to_string()).collect();
        expected.sort();
        assert_eq!(objects, expected);
        assert!(tree.iter().any(|line| line.note == "also owned by Deployment api"));
    }

    #[test]
    fn differences_are_described() {
        let object = OBJECTS[9].object;
        let one = json!({"ownerReferences": [{}]});
        assert_eq!(exists(object, 1, &one), Ok("ConfigMap prices exists and has one owner".to_owned()));
        assert_eq!(
            exists(object, 0, &one),
            Err("ConfigMap prices should have 0 owner references but has 1".to_owned())
        );
        let dying = json!({"deletionTimestamp": "t", "finalizers": ["x"]});
        assert!(exists(object, 0, &dying).is_err());
        assert!(terminating(object, "x", &dying).is_ok());
        assert!(terminating(object, "y", &dying).is_err());
        assert!(terminating(object, "x", &json!({"finalizers": ["x"]})).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_scenario_that_does_not_end_as_expected_is_an_error() {
        let user = User(ApiServer::new(kube_gc_apiserver::Settings::default()).client());
        let [object, gone] = [OBJECTS[13], OBJECTS[9]].map(|fixture| fixture.object);
        let namespace = PREREQUISITES[0];
        let uids = BTreeMap::new();
        for fixture in [namespace, OBJECTS[13]] {
            let body = fixture.body(&uids).unwrap();
            user.send_ok(Method::POST, &fixture.object.collection(), Some(&body)).await.unwrap();
        }
        let expected = [Expectation::Absent(gone), Expectation::Absent(object)];
        let error = wait_for(&user, &expected, |_| {}).await.unwrap_err();
        assert_eq!(error, "after 30 s: ConfigMap opening-hours should be gone but exists");
    }

    #[test]
    fn every_operation_has_a_description_and_most_have_a_command() {
        let operations = SCENARIOS.iter().flat_map(|scenario| scenario.phases);
        let commands: Vec<_> = operations.filter_map(|(operation, _)| describe(operation).1).collect();
        assert_eq!(commands[0], "kubectl delete deployment web -n shop --cascade=background");
        assert_eq!(commands.len(), 4);
    }
}
