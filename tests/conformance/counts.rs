//! The number of requests that the collector sends, by the API server's own counters, and the
//! memory that orphaning needs.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ApiResource;

use crate::conformance::policies_orphan::released;
use crate::conformance::stage::{Stage, clear, configmaps, crowd, status};
use kube_gc_testkit::{Collector, Ns, Options, Policy, RequestCounts};

kube_gc_testkit::scenarios! {
    a_deletion_costs_one_request_for_each_dependent,
    orphaning_costs_one_patch_for_each_dependent_and_no_memory,
}

/// The number of dependents of each owner.
const DEPENDENTS: usize = 5000;
/// The requests that are allowed once, independent of the number of dependents.
const HANDFUL: u64 = 5;
/// The lists of one confirmation round, and of a monitor that restarts: at most twenty pages of 500
/// each.
const LISTS: u64 = 2 * 21;

/// How much higher, in KiB, the peak may be with twice the dependents: less than 2 KiB for each of the
/// 5,000 more. One patch in flight takes 9 KiB (its future, request and answer), so this fails if all
/// patches start at once. On a busy machine, 2.5 MiB are used: fuller buffers, and fragmentation of the
/// heap.
const ALLOWANCE: u64 = 8192;

/// A number plus two percent.
const fn almost(count: usize) -> u64 {
    (count + count / 50) as u64
}

/// The cost of a deletion until all its effects are complete.
struct Cost {
    ns: Ns,
    requests: RequestCounts,
    /// The growth of the collector's memory at its peak, in KiB.
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

/// Deletes a Secret that owns many ConfigMaps. During that time, only the collector sends requests
/// about ConfigMaps.
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
    // From now on, `settled` writes markers to Secrets only. "Idle" includes that the watches have
    // shown the collector's own writes.
    cluster.forget(&ApiResource::erase::<ConfigMap>(&()));

    // Resets the peak to the current size: proc(5).
    std::fs::write(format!("/proc/{}/clear_refs", collector.pid()), "5")?;
    let at_the_start = status(collector, "VmRSS")?;
    let before = cluster.request_counts().await?;
    cluster.delete(&owner, policy).await?;
    cluster.settled(collector).await?;
    let requests = cluster.request_counts().await?.since(&before);
    cluster.assert_gone([&owner]).await?;
    Ok(Cost { ns, requests, rise: status(collector, "VmHWM")?.saturating_sub(at_the_start) })
}

/// At most 1.02 requests for each collected object, in the foreground plus a handful, and no GET (rule 4.30).
async fn a_deletion_costs_one_request_for_each_dependent() -> Result<()> {
    let stage = Stage::set().await?;
    let collector = stage.collector().await?;
    for (policy, blocking, more) in [(Policy::Background, false, 0), (Policy::Foreground, true, HANDFUL)] {
        let cost = cost_of(&stage, &collector, policy, DEPENDENTS, blocking).await?;
        ensure!(configmaps(&stage.cluster, &cost.ns).await? == 0);
        ensure!(cost.verb("DELETE") >= DEPENDENTS as u64, "not counted: {:?}", cost.requests);
        ensure!(cost.all_verbs() <= almost(DEPENDENTS) + more, "{policy:?}: {:?}", cost.requests);
        ensure!(cost.verb("GET") <= HANDFUL, "{policy:?}: {:?}", cost.requests);
    }
    collector.stop().await
}

/// At most 1.02 PATCHes for each dependent, and memory that does not grow with their
/// number (rule 5.3).
async fn orphaning_costs_one_patch_for_each_dependent_and_no_memory() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    // Freed memory stays with the process. Otherwise, the result would depend on how much is
    // returned to the system by then.
    let collector = stage
        .collector_with(Options::env("_RJEM_MALLOC_CONF", "dirty_decay_ms:-1,narenas:1,tcache:false"))
        .await?;
    let mut rises = Vec::new();
    // The first run loads code and fills pools and buffers, among them the windows of the watches.
    // Each run has twice the dependents of the one before, so that none starts with freed room that
    // would hide what it needs.
    for dependents in [DEPENDENTS / 2, DEPENDENTS, 2 * DEPENDENTS] {
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
    ensure!(more <= ALLOWANCE, "{more} KiB more for twice the dependents: {rises:?}");
    collector.stop().await
}
