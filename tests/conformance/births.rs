//! Dependents of owners that are still in admission.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result, ensure};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ApiResource;
use serde_json::json;

use crate::conformance::stage::Stage;
use kube_gc_testkit::cluster::poll;
use kube_gc_testkit::webhook::{Asked, Decision, Denial, Gate, Hook};
use kube_gc_testkit::{Collector, Ns, Obj, Options, Webhook};

kube_gc_testkit::scenarios! {
    dependents_of_owners_in_admission_are_kept,
    a_dependent_of_an_owner_that_admission_denies_is_deleted,
}

const BIRTHS: usize = 20;

/// A validating webhook that creates a dependent of each ConfigMap, and holds the ConfigMap back
/// until the gate opens.
struct Births {
    gate: Gate,
    dependents: Arc<Mutex<Vec<Obj>>>,
    _webhook: Webhook,
}

impl Births {
    async fn begin(stage: &Stage, ns: &Ns, verdict: Decision) -> Result<Self> {
        let webhook = Webhook::start(stage.plane).await?;
        let (gate, dependents) = (Gate::closed(), Arc::<Mutex<Vec<Obj>>>::default());
        let judge = {
            let (ns, gate, dependents) = (ns.clone(), gate.clone(), Arc::clone(&dependents));
            move |asked: Asked| {
                let (ns, gate, verdict) = (ns.clone(), gate.clone(), verdict.clone());
                let dependents = Arc::clone(&dependents);
                async move {
                    match create_dependent(&ns, &asked).await {
                        Ok(created) => {
                            dependents.lock().unwrap_or_else(PoisonError::into_inner).push(created);
                        }
                        Err(error) => return denied(&format!("{error:#}")),
                    }
                    gate.pass().await;
                    verdict
                }
            }
        };
        let resource = ApiResource::erase::<ConfigMap>(&());
        let hook = Hook { mutating: false, resource: &resource, operations: &["CREATE"] };
        webhook.review(&stage.cluster, ns, hook, judge).await?;
        Ok(Self { gate, dependents, _webhook: webhook })
    }

    fn dependents(&self) -> Vec<Obj> {
        self.dependents.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn denied(message: &str) -> Decision {
    Decision::Deny(Denial { message: message.to_owned(), ..Denial::default() })
}

/// Creates a Secret that names the ConfigMap in admission as its owner.
async fn create_dependent(ns: &Ns, asked: &Asked) -> Result<Obj> {
    let reference = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "name": asked.name(), "uid": asked.object["metadata"]["uid"],
    });
    ns.secret(format!("of-{}", asked.name())).owner_reference(reference).create().await
}

/// Waits until look-ups for this many dependents have not found the owner.
async fn wait_for_look_ups(collector: &Collector, dependents: usize) -> Result<()> {
    poll("look-ups of the owners", async || {
        let queues = collector.get_debug("/debug/queues").await?.body;
        Ok(queues.matches("may still be in admission").count() == dependents)
    })
    .await
}

/// Look-ups have found that the owners do not exist, and then they are stored (rule 1.28).
async fn dependents_of_owners_in_admission_are_kept() -> Result<()> {
    let stage = Stage::set().await?;
    // A slow machine must not let the time pass before the gate opens.
    let collector = stage.collector_with(Options::config("[graph]\nbirth_grace = \"10s\"\n")).await?;
    let ns = stage.cluster.namespace().await?;
    let births = Births::begin(&stage, &ns, Decision::Allow).await?;
    let owners = try_join_all((0..BIRTHS).map(|number| ns.configmap(format!("owner-{number}")).create()));
    let stored = async {
        births.gate.arrived(BIRTHS).await?;
        wait_for_look_ups(&collector, BIRTHS).await?;
        births.gate.open();
        anyhow::Ok(())
    };
    let (owners, ()) = futures::try_join!(owners, stored)?;
    stage.cluster.settled(&collector).await?;
    let dependents = births.dependents();
    ensure!(dependents.len() == BIRTHS, "{dependents:?}");
    for dependent in &dependents {
        let now = stage.cluster.get(dependent).await?.with_context(|| format!("{dependent} is gone"))?;
        ensure!(owners.iter().any(|owner| now.owner_uids() == [owner.uid.clone()]), "{now:?}");
    }
    collector.stop().await
}

/// The owner is never stored, so its dependent goes when it is old enough (rule 4.36).
async fn a_dependent_of_an_owner_that_admission_denies_is_deleted() -> Result<()> {
    let stage = Stage::set().await?;
    let collector = stage.collector().await?;
    let ns = stage.cluster.namespace().await?;
    let births = Births::begin(&stage, &ns, denied("not this one")).await?;
    births.gate.open();
    ensure!(ns.configmap("owner").create().await.is_err(), "the owner was stored");
    let dependents = births.dependents();
    poll("the dependent to go", async || Ok(stage.cluster.assert_gone(&dependents).await.is_ok())).await?;
    stage.cluster.settled(&collector).await?;
    collector.stop().await
}
