//! Plays the acts, and holds each to what must be true on the server in the end.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use super::acts::{Act, Deed, Expectation, Scene};
use super::narrator::Narrator;
use super::recorder::Recorder;
use super::shop::{Item, ground, shop};
use super::story;
use super::things::{Kind, Thing};
use super::user::{Answered, User};
use crate::http::{IdleQuery, Introspection};
use kube_gc_core::object::{GroupResource, ResourceVersion};

/// After this long, an act has failed.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two looks at the server.
const LOOK: Duration = Duration::from_millis(10);

/// The stage and who is on it.
pub struct Theatre<'a> {
    pub user: &'a User,
    pub recorder: &'a Recorder,
    pub steps: &'a mut mpsc::UnboundedReceiver<story::Step>,
    pub collector: &'a dyn Introspection,
    pub narrator: &'a mut Narrator,
    /// Of everything that was created.
    pub uids: BTreeMap<Thing, String>,
    /// The last version of each type that the user was shown.
    pub shown: BTreeMap<GroupResource, ResourceVersion>,
}

impl Theatre<'_> {
    /// Builds the shop, and draws it.
    pub async fn build(&mut self) -> Result<Vec<story::Drawn>, String> {
        for item in ground() {
            self.create(&item).await?;
        }
        let deadline = Instant::now() + PATIENCE;
        // A reference to a kind that the collector does not know yet would be parked.
        while !self
            .collector
            .monitors()
            .await
            .iter()
            .any(|monitor| monitor.resource == "carts" && monitor.synced)
        {
            self.in_time(deadline, || "the collector does not watch carts".to_owned()).await?;
        }
        let shop = shop();
        for item in &shop {
            self.create(item).await?;
        }
        self.settle().await?;
        let mut drawn = Vec::new();
        for item in shop.iter().filter(|item| item.owners.is_empty()) {
            draw(&shop, item, 0, &mut drawn);
        }
        Ok(drawn)
    }

    async fn create(&mut self, item: &Item) -> Result<Answered, String> {
        let body = item.body(&self.uids);
        let body = body.ok_or_else(|| format!("{} is to be created before its owner", item.thing))?;
        let created = self.user.create(item.thing, &body).await?;
        let uid = created.body["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        self.uids.insert(item.thing, uid);
        self.was_shown(item.thing, &created);
        Ok(created)
    }

    /// Notes the version in an answer about a thing, if there is one.
    fn was_shown(&mut self, thing: Thing, answered: &Answered) {
        let version = answered.body["metadata"]["resourceVersion"].as_str();
        if let Some(version) = version.and_then(ResourceVersion::parse) {
            self.shown.insert(thing.kind.group_resource(), version);
        }
    }

    /// Plays one act.
    pub async fn play(&mut self, act: &Act) -> Result<story::Act, String> {
        let mut played =
            story::Act { name: act.name, title: act.title, about: act.about, scenes: Vec::new() };
        for scene in &act.scenes {
            let scene = self.scene(scene).await.map_err(|error| format!("act {:?}: {error}", act.name))?;
            played.scenes.push(scene);
        }
        Ok(played)
    }

    async fn scene(&mut self, scene: &Scene) -> Result<story::Scene, String> {
        let (deed, command) = described(&scene.deed);
        self.narrator.deed(&deed, command.as_deref());
        // What is still to be told follows from something earlier.
        while self.steps.try_recv().is_ok() {}
        self.recorder.begin();
        let answered = match &scene.deed {
            Deed::Delete(thing, policy) => self.user.delete(&thing.path(), *policy).await?,
            Deed::Release(thing, _) => self.user.release(*thing).await?,
            Deed::Create(item) => self.create(item).await?,
        };
        if let Deed::Delete(thing, _) | Deed::Release(thing, _) = &scene.deed {
            self.was_shown(*thing, &answered);
        }
        let mut steps = Vec::new();
        self.wait(&scene.then, &mut steps).await?;
        self.settle().await?;
        self.hear(&mut steps);
        // Once more, now that nothing is under way: what lives must live on.
        let mut verified = Vec::new();
        for expectation in &scene.then {
            verified.push(self.look(*expectation).await??);
        }
        let milliseconds = steps.last().map_or(answered.request.milliseconds, |step| step.milliseconds);
        let played = story::Scene { deed, command, request: answered.request, steps, verified, milliseconds };
        self.narrator.verified(&played);
        Ok(played)
    }

    /// Waits until all of it is true, telling what is heard meanwhile.
    async fn wait(
        &mut self,
        expectations: &[Expectation],
        steps: &mut Vec<story::Step>,
    ) -> Result<(), String> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let mut missing = Vec::new();
            for expectation in expectations {
                missing.extend(self.look(*expectation).await?.err());
            }
            self.hear(steps);
            let Some(first) = missing.first() else {
                self.narrator.waits(None);
                return Ok(());
            };
            self.narrator.waits(Some(first));
            self.in_time(deadline, || missing.join("; ")).await?;
        }
    }

    fn hear(&mut self, steps: &mut Vec<story::Step>) {
        while let Ok(step) = self.steps.try_recv() {
            self.narrator.step(&step);
            steps.push(step);
        }
    }

    /// A pause between two looks; an error once there were enough of them.
    async fn in_time(&self, deadline: Instant, why: impl FnOnce() -> String) -> Result<(), String> {
        if Instant::now() > deadline {
            return Err(format!("after {} s: {}", PATIENCE.as_secs(), why()));
        }
        sleep(LOOK).await;
        Ok(())
    }

    /// Waits until the collector has seen what the user has, and has nothing left to do.
    pub async fn settle(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + PATIENCE;
        let query = IdleQuery { seen: self.shown.clone().into_iter().collect(), parked_ok: true };
        loop {
            let report = self.collector.idle(query.clone()).await;
            if report.idle {
                return Ok(());
            }
            self.in_time(deadline, || format!("the collector is busy: {}", report.reasons.join("; ")))
                .await?;
        }
    }

    /// What is true on the server, or what should be and is not.
    async fn look(&self, expectation: Expectation) -> Result<Result<String, String>, String> {
        Ok(match expectation {
            Expectation::Gone(thing) => match self.user.get(&thing.path()).await? {
                None => Ok(format!("{thing} is gone")),
                Some(_) => Err(format!("{thing} should be gone and is there")),
            },
            Expectation::Lives(thing, owners) => match self.user.get(&thing.path()).await? {
                None => Err(format!("{thing} should live and is gone")),
                Some(object) => lives(thing, owners, &object["metadata"]),
            },
            Expectation::Held(thing, finalizer) => match self.user.get(&thing.path()).await? {
                None => Err(format!("{thing} should be held by {finalizer} and is gone")),
                Some(object) => held(thing, finalizer, &object["metadata"]),
            },
            Expectation::Warned(thing) => match self.user.warning(thing).await? {
                None => Err(format!("there should be a warning event about {thing}")),
                Some(message) => Ok(format!("there is a warning event about {thing}: {message}")),
            },
        })
    }
}

fn lives(thing: Thing, owners: usize, metadata: &Value) -> Result<String, String> {
    let found = metadata["ownerReferences"].as_array().map_or(0, Vec::len);
    if !metadata["deletionTimestamp"].is_null() {
        return Err(format!("{thing} should live and is being deleted"));
    }
    if found != owners {
        return Err(format!("{thing} should have {owners} owner references and has {found}"));
    }
    Ok(match owners {
        0 => format!("{thing} lives, and is nobody's"),
        1 => format!("{thing} lives, and has one owner"),
        _ => format!("{thing} lives, and has {owners} owners"),
    })
}

fn held(thing: Thing, finalizer: &str, metadata: &Value) -> Result<String, String> {
    let alone = metadata["finalizers"].as_array().is_some_and(|all| all.len() == 1 && all[0] == finalizer);
    if alone && !metadata["deletionTimestamp"].is_null() {
        Ok(format!("{thing} is being deleted, and held by the finalizer {finalizer}"))
    } else {
        Err(format!("{thing} should be held by {finalizer} while it is being deleted"))
    }
}

/// A deed in words, and what to type to do the same.
fn described(deed: &Deed) -> (String, Option<String>) {
    let elsewhere = |thing: &Thing| {
        if thing.namespace.is_empty() { String::new() } else { format!(" -n {}", thing.namespace) }
    };
    match deed {
        Deed::Delete(thing, policy) => {
            let policy = policy.as_str().to_lowercase();
            let kind = thing.kind.kubectl();
            let (name, at) = (thing.name, elsewhere(thing));
            let command = format!("kubectl delete {kind} {name}{at} --cascade={policy}");
            (format!("{thing} is deleted"), Some(command))
        }
        Deed::Release(thing, finalizer) => {
            let (kind, name, at) = (thing.kind.kubectl(), thing.name, elsewhere(thing));
            let patch = r#"{"metadata":{"finalizers":null}}"#;
            let command = format!("kubectl patch {kind} {name}{at} --type=merge -p '{patch}'");
            (format!("The finalizer {finalizer} of {thing} is taken away"), Some(command))
        }
        Deed::Create(item) => {
            let owners: Vec<_> = item.owners.iter().map(|owner| owner.thing.to_string()).collect();
            (format!("{} is created, with {} as its owner", item.thing, owners.join(" and ")), None)
        }
    }
}

/// Draws an object, and below it what it owns; what has two owners below the first.
fn draw(shop: &[Item], item: &Item, depth: usize, drawn: &mut Vec<story::Drawn>) {
    let mut notes = Vec::new();
    for owner in item.owners.iter().skip(1) {
        notes.push(format!("also owned by {}", owner.thing));
    }
    if item.owners.iter().any(|owner| owner.blocking) && item.thing.kind == Kind::ConfigMap {
        notes.push("blocks its owner".to_owned());
    }
    notes.extend(item.finalizers.iter().map(|finalizer| format!("held by {finalizer}")));
    drawn.push(story::Drawn { object: item.thing.to_string(), depth, note: notes.join(", ") });
    let owned = |other: &&Item| other.owners.first().is_some_and(|owner| owner.thing == item.thing);
    for other in shop.iter().filter(owned) {
        draw(shop, other, depth + 1, drawn);
    }
}

#[cfg(test)]
mod tests;
