//! Runs the scenarios, and verifies each result on the server.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, sleep};

use super::fixtures::{Fixture, Kind, ObjectRef, prerequisites, shop};
use super::output::Output;
use super::recorder::Recorder;
use super::report;
use super::scenarios::{Expectation, Operation, Phase, Scenario};
use super::user::{Answer, User};
use crate::http::{IdleQuery, Introspection};
use kube_gc_core::object::{GroupResource, ResourceVersion};

/// A phase that takes longer has failed.
const TIMEOUT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Runs scenarios one after another in one environment.
pub struct Runner<'a> {
    user: &'a User,
    recorder: &'a Recorder,
    steps: &'a mut UnboundedReceiver<report::Step>,
    collector: &'a dyn Introspection,
    pub output: &'a mut Output,
    /// The uid of each object that was created.
    uids: BTreeMap<ObjectRef, String>,
    /// The latest version of each type that an answer has shown.
    versions: BTreeMap<GroupResource, ResourceVersion>,
}

impl<'a> Runner<'a> {
    pub fn new(
        user: &'a User,
        recorder: &'a Recorder,
        steps: &'a mut UnboundedReceiver<report::Step>,
        collector: &'a dyn Introspection,
        output: &'a mut Output,
    ) -> Self {
        Self { user, recorder, steps, collector, output, uids: BTreeMap::new(), versions: BTreeMap::new() }
    }

    /// Creates the shop. Returns its objects as a tree.
    pub async fn set_up(&mut self) -> Result<Vec<report::TreeLine>, String> {
        for fixture in prerequisites() {
            self.create(&fixture).await?;
        }
        let deadline = Instant::now() + TIMEOUT;
        // The collector parks an object that refers to a kind it does not know yet.
        while !self
            .collector
            .monitors()
            .await
            .iter()
            .any(|monitor| monitor.resource == "carts" && monitor.synced)
        {
            self.poll(deadline, || "the collector does not watch carts".to_owned()).await?;
        }
        let shop = shop();
        for fixture in &shop {
            self.create(fixture).await?;
        }
        self.wait_until_idle().await?;
        let mut lines = Vec::new();
        for fixture in shop.iter().filter(|fixture| fixture.owners.is_empty()) {
            add_tree(&shop, fixture, 0, &mut lines);
        }
        Ok(lines)
    }

    async fn create(&mut self, fixture: &Fixture) -> Result<Answer, String> {
        let body = fixture.body(&self.uids);
        let body = body.ok_or_else(|| format!("{} needs its owner to be created first", fixture.object))?;
        let created = self.user.create(fixture.object, &body).await?;
        let uid = created.body["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        self.uids.insert(fixture.object, uid);
        self.note_version(fixture.object, &created);
        Ok(created)
    }

    /// Notes the version in an answer about an object, if there is one.
    fn note_version(&mut self, object: ObjectRef, answer: &Answer) {
        let version = answer.body["metadata"]["resourceVersion"].as_str();
        if let Some(version) = version.and_then(ResourceVersion::parse) {
            self.versions.insert(object.kind.group_resource(), version);
        }
    }

    /// Runs one scenario.
    pub async fn run(&mut self, scenario: &Scenario) -> Result<report::Scenario, String> {
        let Scenario { name, title, about, phases } = scenario;
        let mut report = report::Scenario { name, title, about, phases: Vec::new() };
        for phase in phases {
            let phase = self.run_phase(phase).await;
            report.phases.push(phase.map_err(|error| format!("scenario {name:?}: {error}"))?);
        }
        Ok(report)
    }

    async fn run_phase(&mut self, phase: &Phase) -> Result<report::Phase, String> {
        let (operation, command) = describe(&phase.operation);
        self.output.operation(&operation, command.as_deref());
        // Discards steps that follow from an earlier operation.
        while self.steps.try_recv().is_ok() {}
        self.recorder.restart();
        let answer = match &phase.operation {
            Operation::Delete(object, policy) => self.user.delete(&object.path(), *policy).await?,
            Operation::RemoveFinalizer(object, _) => self.user.remove_finalizers(*object).await?,
            Operation::Create(fixture) => self.create(fixture).await?,
        };
        if let Operation::Delete(object, _) | Operation::RemoveFinalizer(object, _) = &phase.operation {
            self.note_version(*object, &answer);
        }
        let mut steps = Vec::new();
        self.wait_for(&phase.expected, &mut steps).await?;
        self.wait_until_idle().await?;
        self.receive_steps(&mut steps);
        // Verifies again when nothing is under way: what exists must continue to exist.
        let mut verified = Vec::new();
        for expectation in &phase.expected {
            verified.push(self.verify(*expectation).await??);
        }
        let milliseconds = steps.last().map_or(answer.request.milliseconds, |step| step.milliseconds);
        let report =
            report::Phase { operation, command, request: answer.request, steps, verified, milliseconds };
        self.output.verified(&report);
        Ok(report)
    }

    /// Waits until all expectations are met. Writes the collector's steps meanwhile.
    async fn wait_for(
        &mut self,
        expected: &[Expectation],
        steps: &mut Vec<report::Step>,
    ) -> Result<(), String> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let mut missing = Vec::new();
            for expectation in expected {
                missing.extend(self.verify(*expectation).await?.err());
            }
            self.receive_steps(steps);
            let Some(first) = missing.first() else {
                self.output.clear_progress();
                return Ok(());
            };
            self.output.waiting_for(first);
            self.poll(deadline, || missing.join("; ")).await?;
        }
    }

    fn receive_steps(&mut self, steps: &mut Vec<report::Step>) {
        while let Ok(step) = self.steps.try_recv() {
            self.output.step(&step);
            steps.push(step);
        }
    }

    /// Pauses until the next check, or fails with this reason after the deadline.
    async fn poll(&self, deadline: Instant, why: impl FnOnce() -> String) -> Result<(), String> {
        if Instant::now() > deadline {
            return Err(format!("after {} s: {}", TIMEOUT.as_secs(), why()));
        }
        sleep(POLL_INTERVAL).await;
        Ok(())
    }

    /// Waits until the collector has seen all that the user has, and has nothing left to do.
    async fn wait_until_idle(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + TIMEOUT;
        let query = IdleQuery { seen: self.versions.clone().into_iter().collect(), parked_ok: true };
        loop {
            let report = self.collector.idle(query.clone()).await;
            if report.idle {
                return Ok(());
            }
            self.poll(deadline, || format!("the collector is busy: {}", report.reasons.join("; "))).await?;
        }
    }

    /// Compares an expectation with the server. The inner result describes what is true, or how it
    /// differs.
    async fn verify(&self, expectation: Expectation) -> Result<Result<String, String>, String> {
        Ok(match expectation {
            Expectation::Absent(object) => match self.user.get(&object.path()).await? {
                None => Ok(format!("{object} is gone")),
                Some(_) => Err(format!("{object} should be gone but exists")),
            },
            Expectation::Exists(object, owners) => match self.user.get(&object.path()).await? {
                None => Err(format!("{object} should exist but is gone")),
                Some(content) => exists(object, owners, &content["metadata"]),
            },
            Expectation::Terminating(object, finalizer) => match self.user.get(&object.path()).await? {
                None => Err(format!("{object} should wait for the finalizer {finalizer} but is gone")),
                Some(content) => terminating(object, finalizer, &content["metadata"]),
            },
            Expectation::Warned(object) => match self.user.warning(object).await? {
                None => Err(format!("there should be a warning event about {object}")),
                Some(message) => Ok(format!("there is a warning event about {object}: {message}")),
            },
        })
    }
}

fn exists(object: ObjectRef, owners: usize, metadata: &Value) -> Result<String, String> {
    let found = metadata["ownerReferences"].as_array().map_or(0, Vec::len);
    if !metadata["deletionTimestamp"].is_null() {
        return Err(format!("{object} should exist but is being deleted"));
    }
    if found != owners {
        return Err(format!("{object} should have {owners} owner references but has {found}"));
    }
    Ok(match owners {
        0 => format!("{object} exists and has no owner"),
        1 => format!("{object} exists and has one owner"),
        _ => format!("{object} exists and has {owners} owners"),
    })
}

fn terminating(object: ObjectRef, finalizer: &str, metadata: &Value) -> Result<String, String> {
    let alone = metadata["finalizers"].as_array().is_some_and(|all| all.len() == 1 && all[0] == finalizer);
    if alone && !metadata["deletionTimestamp"].is_null() {
        Ok(format!("{object} is being deleted and waits for the finalizer {finalizer}"))
    } else {
        Err(format!("{object} should be in deletion and wait for the finalizer {finalizer} only"))
    }
}

/// Describes an operation, with the equivalent command if there is one.
fn describe(operation: &Operation) -> (String, Option<String>) {
    let namespace = |object: &ObjectRef| match object.namespace {
        "" => String::new(),
        namespace => format!(" -n {namespace}"),
    };
    match operation {
        Operation::Delete(object, policy) => {
            let policy = policy.as_str().to_lowercase();
            let (kind, name, namespace) = (object.kind.kubectl(), object.name, namespace(object));
            let command = format!("kubectl delete {kind} {name}{namespace} --cascade={policy}");
            (format!("{object} is deleted"), Some(command))
        }
        Operation::RemoveFinalizer(object, finalizer) => {
            let (kind, name, namespace) = (object.kind.kubectl(), object.name, namespace(object));
            let patch = r#"{"metadata":{"finalizers":null}}"#;
            let command = format!("kubectl patch {kind} {name}{namespace} --type=merge -p '{patch}'");
            (format!("The finalizer {finalizer} is removed from {object}"), Some(command))
        }
        Operation::Create(fixture) => {
            let owners: Vec<_> = fixture.owners.iter().map(|owner| owner.object.to_string()).collect();
            (format!("{} is created with the owner {}", fixture.object, owners.join(" and ")), None)
        }
    }
}

/// Adds an object and, below it, its dependents. An object with two owners is below the first one.
fn add_tree(shop: &[Fixture], fixture: &Fixture, depth: usize, lines: &mut Vec<report::TreeLine>) {
    let mut notes = Vec::new();
    for owner in fixture.owners.iter().skip(1) {
        notes.push(format!("also owned by {}", owner.object));
    }
    if fixture.owners.iter().any(|owner| owner.blocking) && fixture.object.kind == Kind::ConfigMap {
        notes.push("blocks its owner".to_owned());
    }
    notes.extend(fixture.finalizers.iter().map(|finalizer| format!("finalizer {finalizer}")));
    lines.push(report::TreeLine { object: fixture.object.to_string(), depth, note: notes.join(", ") });
    let owned = |other: &&Fixture| other.owners.first().is_some_and(|owner| owner.object == fixture.object);
    for other in shop.iter().filter(owned) {
        add_tree(shop, other, depth + 1, lines);
    }
}

#[cfg(test)]
mod tests;
