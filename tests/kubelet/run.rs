//! One world, collected by both.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use kube_gc::internals::node::{NodeCollector, PassResult, PodSource, now};
use kube_gc_cri::server::{Code, CriServer, Effect, Fault, Settings, World};
use kube_gc_cri::testing::{Kubelet, KubeletPass};
use kube_gc_cri::{ApiVersion, Client, Rpc};
use kube_gc_node::Ledger;
use kube_gc_node::pass::Scope;
use kube_gc_node::plan::What;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::case::{Case, PAUSE};
use super::{pods, server};

/// What both collect on.
pub struct Stage {
    kubelet: Kubelet,
    runtime: Arc<CriServer>,
    root: TempDir,
}

/// What is left after one of them has collected, and in which order it went.
#[derive(Debug, PartialEq, Eq)]
pub struct Left {
    pub containers: BTreeSet<String>,
    pub sandboxes: BTreeSet<String>,
    pub images: BTreeSet<String>,
    pub files: BTreeSet<String>,
    /// Which containers were removed, in which order, also where the removal failed.
    pub removed_containers: Vec<String>,
    pub removed_images: Vec<String>,
}

/// What both have left.
pub struct Both {
    pub case: Case,
    pub kubelet: Left,
    pub ours: Left,
    /// What kube-gc says about each item, for people.
    pub reasons: Vec<String>,
}

impl Stage {
    pub async fn set() -> Result<Self> {
        let program = Kubelet::program().await?;
        let root = tempfile::Builder::new().prefix("kube-gc-kubelet-").tempdir()?;
        // A kubelet may remove files where it runs: all of them, if a container has no log path.
        let elsewhere = root.path().join("elsewhere");
        std::fs::create_dir(&elsewhere)?;
        std::env::set_current_dir(elsewhere)?;
        let settings = Settings {
            // The kubelet 1.20.2 speaks nothing newer.
            versions: vec![ApiVersion::V1Alpha2],
            sandbox_image: PAUSE.to_owned(),
            ..Settings::default()
        };
        let runtime = Arc::new(CriServer::start(settings, World::default())?);
        Ok(Self { kubelet: Kubelet::start(&program)?, runtime, root })
    }

    /// Lets both collect the world of this seed.
    pub async fn run(&mut self, seed: u64) -> Result<Both> {
        let root = self.root.path().to_string_lossy().into_owned();
        let case = Case::random(seed, &root, now().wall);
        let kubelet = self.kubelet(&case).await.context("the kubelet")?;
        let (ours, reasons) = self.ours(&case).await.context("kube-gc")?;
        Ok(Both { case, kubelet, ours, reasons })
    }

    /// Shows a runtime as it was at another time.
    fn show(&self, world: &World) {
        self.runtime.clear_faults();
        self.runtime.world(|now| *now = world.clone());
    }

    /// Puts the world of a case in place, with its files and its faults.
    fn begin(&self, case: &Case) -> Result<()> {
        case.files.plant()?;
        self.show(&case.world());
        for (rpc, about) in &case.faults {
            let failure = Effect::Fail(Code::Unknown, "it fails in this world".to_owned());
            self.runtime.fault(Fault::about(*rpc, about, failure));
        }
        self.runtime.clear_journal();
        Ok(())
    }

    fn left(&self, case: &Case) -> Result<Left> {
        let ids = |ids: Vec<&String>| ids.into_iter().cloned().collect();
        let (containers, sandboxes, images) = self.runtime.world(|world| {
            (
                ids(world.containers().map(|container| &container.id).collect()),
                ids(world.sandboxes().map(|sandbox| &sandbox.id).collect()),
                ids(world.images().map(|image| &image.id).collect()),
            )
        });
        Ok(Left {
            containers,
            sandboxes,
            images,
            files: case.files.left()?,
            removed_containers: self.runtime.calls(Rpc::RemoveContainer),
            removed_images: self.runtime.calls(Rpc::RemoveImage),
        })
    }

    async fn kubelet(&mut self, case: &Case) -> Result<Left> {
        let endpoint = self.runtime.endpoint().clone();
        self.kubelet.set_up(&endpoint, self.root.path(), &case.kubelet).await?;
        for world in &case.history {
            self.show(world);
            // It looks at images only when it collects some. So it finds the disk full, and cannot.
            let failure = Effect::Fail(Code::Unknown, "it is only to look".to_owned());
            self.runtime.fault(Fault::every(Rpc::RemoveImage, failure));
            let look = KubeletPass { images: true, pressure: true, capacity: 1, ..KubeletPass::default() };
            self.kubelet.pass(&look).await?;
        }
        self.begin(case)?;
        let (capacity, available) = self.runtime.world(|world| (world.capacity, world.available()));
        let pass = KubeletPass {
            containers: true,
            images: true,
            pressure: case.pressure,
            pods: pods::exist(&case.pods),
            terminated: pods::terminated(&case.pods),
            sources_ready: true,
            capacity,
            available,
        };
        self.kubelet.pass(&pass).await?;
        self.left(case)
    }

    /// kube-gc on this runtime, beside an API server with the pods of the case.
    async fn ours(&self, case: &Case) -> Result<(Left, Vec<String>)> {
        let client = Client::connect(self.runtime.endpoint(), kube_gc_cri::Settings::default()).await?;
        let source = Some(PodSource::new(server::client(&case.pods), "node-1"));
        let collector = NodeCollector::new(client, case.rules.clone(), false, source, Ledger::default());
        let mut collector = collector.with_disk(Arc::<CriServer>::clone(&self.runtime));
        for world in &case.history {
            self.show(world);
            collector.look(now()).await?;
        }
        self.begin(case)?;
        let look = collector.look(now()).await?;
        ensure!(look.notes.is_empty(), "{:?}", look.notes);
        let reasons = look.plan.entries.iter().map(|entry| {
            format!("{:?} {} {:?} {}: {}", entry.what, entry.id, entry.decision, entry.rule, entry.reason)
        });
        let reasons = reasons.collect();
        let carried = collector.carry_out(&look, Scope::All, &CancellationToken::new()).await?;
        ensure!(carried.interrupted.is_none(), "{:?}", carried.interrupted);
        let mut left = self.left(case)?;
        left.removed_containers = in_order(&carried, What::Container, &left.removed_containers);
        left.removed_images = in_order(&carried, What::Image, &left.removed_images);
        Ok((left, reasons))
    }
}

/// What was asked of the runtime, in the order of the pass. The runtime may hear of several removals at
/// the same time in another order.
fn in_order(carried: &PassResult, what: What, asked: &[String]) -> Vec<String> {
    let ids = carried.items.iter().filter(|record| record.candidate.what() == what);
    let ids = ids.map(|record| record.candidate.id().to_owned());
    ids.filter(|id| asked.contains(id)).collect()
}
