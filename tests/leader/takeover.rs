//! The leader fails in some way, and the other replica takes over (rule 8.11).

use anyhow::{Result, ensure};

use crate::leader::election::{Election, Write, judge};
use crate::leader::replica::{Replica, Stage};
use kube_gc_testkit::cluster::{create_all, poll};
use kube_gc_testkit::proxy::{Matcher, Request, Verb};
use kube_gc_testkit::{Obj, Policy};

kube_gc_testkit::scenarios! {
    another_replica_finishes_the_cascade_of_a_killed_leader,
    a_leader_that_resumes_after_its_lease_expired_writes_nothing_and_stands_by,
    a_leader_that_is_terminated_releases_the_lease,
    without_a_lease_nothing_is_written_and_the_reason_is_shown,
}

/// The number of dependents: seconds of work for a replica.
const DEPENDENTS: usize = 200;

/// An owner and many dependents.
struct Crowd {
    owner: Obj,
    dependents: Vec<Obj>,
}

impl Crowd {
    async fn gathered(stage: &Stage, name: &str) -> Result<Self> {
        let owner = stage.ns.configmap(name).create().await?;
        let one = |number: usize| stage.ns.secret(format!("{name}-{number}")).owned_by(&owner);
        let dependents = create_all((0..DEPENDENTS).map(one)).await?;
        Ok(Self { owner, dependents })
    }

    /// Deletes the owner and waits until this replica is in the middle of the cascade. Its proxy
    /// runs on the thread of the test, so no progress is made while the test does not wait.
    async fn dispersing(&self, stage: &Stage, by: &Replica) -> Result<()> {
        let deletions = Matcher::verb(Verb::Delete).of("secrets");
        let before = by.proxy.all(&deletions).len();
        stage.cluster.delete(&self.owner, Policy::Background).await?;
        let what = format!("{} to delete ten", by.name);
        poll(&what, async || Ok(by.proxy.all(&deletions).len() >= before + 10)).await
    }

    /// Waits until all of them are gone.
    async fn gone(&self, stage: &Stage) -> Result<()> {
        poll("the dependents to be gone", async || Ok(self.left(stage).await? == 0)).await?;
        stage.cluster.assert_gone(&self.dependents).await
    }

    /// The number of remaining objects.
    async fn left(&self, stage: &Stage) -> Result<usize> {
        let left = stage.cluster.list(&self.dependents[0].resource, Some(stage.ns.name())).await?;
        Ok(left.iter().filter(|left| self.dependents.iter().any(|one| one.uid == left.uid)).count())
    }
}

/// Two replicas, of which the first leads and is in the middle of a cascade.
struct Scene {
    stage: Stage,
    election: Election,
    one: Replica,
    other: Replica,
    crowd: Crowd,
}

impl Scene {
    async fn set() -> Result<Self> {
        let stage = Stage::set().await?;
        let election = Election::watch(&stage);
        let one = stage.replica("one").await?;
        one.leads().await?;
        let other = stage.replica("other").await?;
        other.stands_by("one").await?;
        let crowd = Crowd::gathered(&stage, "crowd").await?;
        crowd.dispersing(&stage, &one).await?;
        Ok(Self { stage, election, one, other, crowd })
    }
}

/// Fails unless the cascade ends, these held the Lease, and each write was allowed.
async fn judged(
    (stage, crowd, election): (&Stage, &Crowd, Election),
    terms: &[&str],
    writes: impl FnOnce() -> Result<Vec<Vec<Write>>>,
) -> Result<()> {
    crowd.gone(stage).await?;
    election.went_to(terms).await?;
    judge(&writes()?, &election.end().await?)
}

/// Waits until this replica leads and has written.
async fn taken_over(by: &Replica) -> Result<()> {
    by.leads().await?;
    by.has_written(1, 0).await
}

/// A standby already watches everything, so it lists nothing when it takes over.
fn was_warm(standby: &Replica, mark: usize) -> Result<()> {
    let lists = standby.proxy.since(mark, &Matcher::verb(Verb::List).when(Request::is_full_list));
    ensure!(lists.is_empty(), "it has listed to take over: {lists:?}");
    Ok(())
}

async fn another_replica_finishes_the_cascade_of_a_killed_leader() -> Result<()> {
    let Scene { stage, election, one, other, crowd } = Scene::set().await?;
    ensure!(other.writes()?.is_empty(), "a standby has written: {:?}", other.writes()?);
    let (mark, writes) = (other.proxy.mark(), one.writes()?);
    one.collector.kill()?;
    taken_over(&other).await?;
    was_warm(&other, mark)?;
    let writes = || Ok(vec![writes, other.writes()?]);
    judged((&stage, &crowd, election), &["one", "other"], writes).await?;
    other.collector.stop().await
}

async fn a_leader_that_resumes_after_its_lease_expired_writes_nothing_and_stands_by() -> Result<()> {
    let Scene { stage, election, one, other, crowd } = Scene::set().await?;
    one.collector.freeze().await?;
    // Work is left, however long the takeover takes to show.
    let hold = other.proxy.hold(Matcher::verb(Verb::Delete));
    taken_over(&other).await?;
    let left = crowd.left(&stage).await?;
    ensure!(left > 0, "there is nothing left for it to do wrong");
    let mark = one.proxy.mark();
    one.collector.signal("CONT")?;
    one.stands_by("other").await?;
    hold.release();
    crowd.gone(&stage).await?;

    // Requests that its workers had sent before it was suspended may arrive now. They carry
    // preconditions.
    let late = one.proxy.since(mark, &Matcher::default().when(is_write));
    for exchange in &late {
        let request = &exchange.request;
        let bound = match request.verb {
            Verb::Delete => request.precondition_uid().and(request.precondition_version()),
            _ => request.patched_uid().and(request.patched_version()),
        };
        ensure!(bound.is_some(), "it is bound to nothing: {request}");
    }
    ensure!(late.len() <= 25, "more than one for each worker: {late:?}");

    // Its graph is still valid, so it can take over again.
    let crowd = Crowd::gathered(&stage, "another").await?;
    crowd.dispersing(&stage, &other).await?;
    let writes = other.writes()?;
    other.collector.kill()?;
    one.leads().await?;
    let writes = || Ok(vec![one.writes()?, writes]);
    judged((&stage, &crowd, election), &["one", "other", "one"], writes).await?;
    one.collector.stop().await
}

fn is_write(request: &Request) -> bool {
    let writes = matches!(request.verb, Verb::Delete | Verb::Patch);
    writes && request.resource != "leases.coordination.k8s.io"
}

async fn a_leader_that_is_terminated_releases_the_lease() -> Result<()> {
    let Scene { stage, election, one, other, crowd } = Scene::set().await?;
    one.collector.signal("TERM")?;
    taken_over(&other).await?;
    ensure!(one.collector.wait().await?.success());
    let writes = || Ok(vec![one.writes()?, other.writes()?]);
    judged((&stage, &crowd, election), &["one", "-", "other"], writes).await?;
    // It has ended, so this only suppresses its log.
    one.collector.kill()?;
    other.collector.stop().await
}

async fn without_a_lease_nothing_is_written_and_the_reason_is_shown() -> Result<()> {
    let stage = Stage::set().await?;
    let replica = Replica::start(stage.plane, "one", "there-is-no-such-namespace").await?;
    let line = replica.collector.log_line("cannot access the Lease").await?;
    ensure!(line.contains("there-is-no-such-namespace"), "{line}");
    // It is ready, because it is a standby and another replica may lead.
    replica.collector.ready().await?;
    let crowd = Crowd::gathered(&stage, "crowd").await?;
    let garbage = crowd.left(&stage).await?;
    ensure!(replica.leadership().await? == "[+]leadership: standby, leader unknown ok");
    ensure!(replica.writes()?.is_empty() && garbage == crowd.left(&stage).await?);
    ensure!(replica.collector.metric("kube_gc_leader").await? == 0.0);
    replica.collector.stop().await
}
