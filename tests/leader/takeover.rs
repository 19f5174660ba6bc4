//! The leader fails in some way, and the other replica takes over (rule 8.11).

use std::time::Instant;

use anyhow::{Result, ensure};

use crate::leader::crowd::{Crowd, DEPENDENTS};
use crate::leader::election::Election;
use crate::leader::replica::{Replica, Stage};
use crate::leader::writes::{Write, judge, of};
use kube_gc_testkit::proxy::{Matcher, Request, Verb};

kube_gc_testkit::scenarios! {
    another_replica_finishes_the_cascade_of_a_killed_leader,
    a_leader_that_resumes_after_its_lease_expired_writes_nothing_and_stands_by,
    a_leader_that_cannot_renew_its_lease_stops_writing_before_another_begins,
    a_leader_that_is_terminated_releases_the_lease,
    without_a_lease_nothing_is_written_and_the_reason_is_shown,
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
    scenario: &str,
    (stage, crowd, election): (&Stage, &Crowd, Election),
    terms: &[&str],
    writes: impl FnOnce() -> Result<Vec<Vec<Write>>>,
) -> Result<()> {
    crowd.gone(stage).await?;
    election.went_to(terms).await?;
    judge(scenario, &writes()?, &election.end().await?)
}

/// Waits until this replica leads and has written, and prints the duration.
async fn taken_over(scenario: &str, by: &Replica, since: Instant) -> Result<()> {
    by.leads().await?;
    let leads = since.elapsed();
    by.has_written(1, 0).await?;
    eprintln!("{scenario}: the standby leads after {leads:?} and has written after {:?}", since.elapsed());
    Ok(())
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
    let (mark, writes, since) = (other.proxy.mark(), one.writes()?, Instant::now());
    one.collector.kill()?;
    taken_over("killed", &other, since).await?;
    was_warm(&other, mark)?;
    let writes = || Ok(vec![writes, other.writes()?]);
    judged("killed", (&stage, &crowd, election), &["one", "other"], writes).await?;
    other.collector.stop().await
}

async fn a_leader_that_resumes_after_its_lease_expired_writes_nothing_and_stands_by() -> Result<()> {
    let Scene { stage, election, one, other, crowd } = Scene::set().await?;
    let since = Instant::now();
    one.collector.freeze().await?;
    // Work is left, however long the takeover takes to show.
    let hold = other.proxy.hold(Matcher::verb(Verb::Delete));
    taken_over("frozen", &other, since).await?;
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
    eprintln!("frozen: {} writes arrived after it woke up, of {left} objects left", late.len());
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
    judged("frozen", (&stage, &crowd, election), &["one", "other", "one"], writes).await?;
    one.collector.stop().await
}

fn is_write(request: &Request) -> bool {
    let writes = matches!(request.verb, Verb::Delete | Verb::Patch);
    writes && request.resource != "leases.coordination.k8s.io"
}

/// Nothing but its own clock keeps this replica from writing.
async fn a_leader_that_cannot_renew_its_lease_stops_writing_before_another_begins() -> Result<()> {
    let Scene { stage, election, one, other, crowd } = Scene::set().await?;
    let (mark, since) = (other.proxy.mark(), Instant::now());
    let lease = Matcher::resource("leases.coordination.k8s.io").when(|request| request.name.is_some());
    let hold = one.proxy.hold(lease);
    // The replica notices this itself: nobody tells it.
    one.collector.log_line("this replica has lost the Lease").await?;
    taken_over("lease only", &other, since).await?;
    was_warm(&other, mark)?;
    drop(hold);
    one.stands_by("other").await?;
    let writes = || of(&[&one, &other]);
    judged("lease only", (&stage, &crowd, election), &["one", "other"], writes).await?;
    ensure!(one.writes()?.len() < DEPENDENTS, "it was done before: that proves nothing");
    one.collector.stop().await?;
    other.collector.stop().await
}

async fn a_leader_that_is_terminated_releases_the_lease() -> Result<()> {
    let Scene { stage, election, one, other, crowd } = Scene::set().await?;
    let since = Instant::now();
    one.collector.signal("TERM")?;
    taken_over("ended", &other, since).await?;
    ensure!(one.collector.wait().await?.success());
    let writes = || of(&[&one, &other]);
    judged("ended", (&stage, &crowd, election), &["one", "-", "other"], writes).await?;
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
