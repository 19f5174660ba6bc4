//! What the collector costs the API server, by the API server's own counters,
//! and what orphaning costs the collector.

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ApiResource;

use crate::conformance::policies_orphan::released;
use crate::conformance::stage::{Stage, clear, configmaps, crowd};
use kube_gc_testkit::{Collector, Ns, Options, Policy, RequestCounts};

kube_gc_testkit::scenarios! {
    a_background_deletion_costs_one_request_for_each_dependent,
    a_foreground_deletion_costs_one_request_for_each_dependent,
    orphaning_costs_one_patch_for_each_dependent_and_no_memory,
}

/// What every owner here has of dependents.
const DEPENDENTS: usize = 5000;
/// What may be needed once, whatever the number of dependents.
const HANDFUL: u64 = 5;
/// Lists of one confirmation round, and of a monitor that has to start again:
/// at most twenty pages of 500 each.
const LISTS: u64 = 2 * 21;

/// How much higher, in KiB, the peak above the start may be with twenty times the
/// dependents: less than half a KiB for each dependent more. One patch under way
/// takes many times that (its future, its request, its answer), so
/// this fails when they are started all at once, and also when what the graph
/// says of the dependents is copied as a whole. The rest is room for buffers that
/// happen to be fuller and for the heap's fragments.
const ALLOWANCE: u64 = 4096;

/// Two percent more than a number.
const fn almost(count: usize) -> u64 {
    (count + count / 50) as u64
}

/// What happened between the deletion of an owner and the end of its effects.
struct Cost {
    ns: Ns,
    requests: RequestCounts,
    /// By how many KiB the collector was larger in between than at the start.
    rise: u64,
}

impl Cost {
    fn verb(&self, verb: &str) -> u64 {
        self.requests.get(verb, "configmaps")
    }

    fn all_verbs(&self) -> u64 {
        ["GET", "LIST", "WATCH", "POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"]
            .iter()
            .map(|verb| self.verb(verb))
            .sum()
    }
}

/// The kernel's account of a process's memory, from some moment on.
struct Memory {
    pid: u32,
    at_the_start: u64,
}

impl Memory {
    fn mark(collector: &Collector) -> Result<Self> {
        let pid = collector.pid();
        // Sets the peak to the present size: proc(5).
        std::fs::write(format!("/proc/{pid}/clear_refs"), "5")?;
        Ok(Self { pid, at_the_start: status(pid, "VmRSS")? })
    }

    /// From the moment of the mark to the peak since, in KiB.
    fn rise(&self) -> Result<u64> {
        Ok(status(self.pid, "VmHWM")?.saturating_sub(self.at_the_start))
    }
}

/// A field of `/proc/PID/status`, in KiB.
fn status(pid: u32, field: &str) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    let value = line.and_then(|line| line.trim().strip_suffix(" kB"));
    Ok(value.with_context(|| format!("no {field}"))?.parse()?)
}

/// Deletes a Secret that owns many ConfigMaps. In the meantime nobody but the
/// collector sends a request about ConfigMaps.
async fn cost_of(
    stage: &Stage,
    collector: &Collector,
    policy: Policy,
    dependents: usize,
    blocking: bool,
) -> Result<Cost> {
    let cluster = &stage.cluster;
    let ns = cluster.namespace().await?;
    let owner = ns.secret("owner").create().await?;
    crowd(&ns, &owner, dependents, blocking).await?;
    cluster.settled(collector).await?;
    // From now on `settled` writes markers to Secrets only; "idle" includes
    // that the watches have shown what the collector itself has written.
    cluster.forget(&ApiResource::erase::<ConfigMap>(&()));

    let memory = Memory::mark(collector)?;
    let before = cluster.request_counts().await?;
    cluster.delete(&owner, policy).await?;
    cluster.settled(collector).await?;
    let requests = cluster.request_counts().await?.since(&before);
    cluster.assert_gone([&owner]).await?;
    Ok(Cost { ns, requests, rise: memory.rise()? })
}

/// At most 1.02 requests for each collected object, and no GET (rule 4.30).
async fn a_background_deletion_costs_one_request_for_each_dependent() -> Result<()> {
    let stage = Stage::set().await?;
    let collector = stage.collector().await?;
    let cost = cost_of(&stage, &collector, Policy::Background, DEPENDENTS, false).await?;
    ensure!(configmaps(&stage.cluster, &cost.ns).await? == 0);
    ensure!(cost.verb("DELETE") >= DEPENDENTS as u64, "not counted: {:?}", cost.requests);
    ensure!(cost.all_verbs() <= almost(DEPENDENTS), "{:?}", cost.requests);
    ensure!(cost.verb("GET") <= HANDFUL, "{:?}", cost.requests);
    collector.stop().await
}

/// The same in the foreground, plus a handful (rule 4.30).
async fn a_foreground_deletion_costs_one_request_for_each_dependent() -> Result<()> {
    let stage = Stage::set().await?;
    let collector = stage.collector().await?;
    let cost = cost_of(&stage, &collector, Policy::Foreground, DEPENDENTS, true).await?;
    ensure!(configmaps(&stage.cluster, &cost.ns).await? == 0);
    ensure!(cost.verb("DELETE") >= DEPENDENTS as u64, "not counted: {:?}", cost.requests);
    ensure!(cost.all_verbs() <= almost(DEPENDENTS) + HANDFUL, "{:?}", cost.requests);
    ensure!(cost.verb("GET") <= HANDFUL, "{:?}", cost.requests);
    collector.stop().await
}

/// At most 1.02 PATCHes for each dependent, and memory that does not grow with their
/// number (rule 5.3).
async fn orphaning_costs_one_patch_for_each_dependent_and_no_memory() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    // What is free stays with the process. Else how much of it is given back to the system
    // depends on how long the test takes, and is needed again.
    let collector = stage
        .collector_with(Options::env("_RJEM_MALLOC_CONF", "dirty_decay_ms:-1,narenas:1,tcache:false"))
        .await?;
    let mut rises = Vec::new();
    // The first time touches code and fills pools and buffers.
    for dependents in [500, 500, 2 * DEPENDENTS] {
        let cost = cost_of(&stage, &collector, Policy::Orphan, dependents, true).await?;
        rises.push(cost.rise);
        ensure!(released(cluster, &cost.ns).await? == dependents);
        let patches = cost.verb("PATCH");
        ensure!(patches >= dependents as u64, "not counted: {:?}", cost.requests);
        ensure!(patches <= almost(dependents), "{:?}", cost.requests);
        ensure!(cost.verb("GET") <= HANDFUL && cost.verb("DELETE") == 0, "{:?}", cost.requests);
        ensure!(cost.verb("LIST") <= LISTS, "{:?}", cost.requests);
        clear(cluster, &cost.ns).await?;
    }
    eprintln!("peaks above the start, in KiB: {rises:?}");
    let more = rises[2].saturating_sub(rises[1]);
    ensure!(more <= ALLOWANCE, "{more} KiB more for twenty times the dependents: {rises:?}");
    collector.stop().await
}
