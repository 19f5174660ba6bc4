//! Streamed lists: the first events of a watch, up to a bookmark.

use anyhow::{Result, ensure};

use crate::faults::stage::{Stage, requests};
use kube_gc_testkit::Policy;
use kube_gc_testkit::proxy::{Matcher, Request, Verb, WatchEnd};

kube_gc_testkit::scenarios! {
    an_object_missing_from_a_streamed_list_is_gone,
    a_streamed_list_that_breaks_off_proves_nothing,
}

/// An owner goes while its type is not watched (rule 1.30). Its list comes as a stream in which
/// objects repeat, and the stream goes on as the watch. Fails if the bookmark does not end the list.
async fn an_object_missing_from_a_streamed_list_is_gone() -> Result<()> {
    let stage = Stage::set().await?;
    let ns = &stage.ns;
    let collector = stage.collector().await?;
    let owner = ns.secret("owner").create().await?;
    let dependent = ns.configmap("dependent").owned_by(&owner).create().await?;
    let solid = ns.secret("solid").create().await?;
    let kept = ns.configmap("kept").owned_by(&solid).create().await?;
    stage.cluster.settled(&collector).await?;
    stage.proxy.echo(3);
    let mark = stage.proxy.mark();
    let mut lists = stage.proxy.hold(Matcher::verb(Verb::List).of("secrets"));
    ensure!(stage.proxy.cut(Some("secrets"), WatchEnd::Expired) == 1);
    let list = lists.next().await?;
    ensure!(list.request.is_streamed_list(), "{}", list.request);
    stage.cluster.delete(&owner, Policy::Background).await?;
    list.pass();
    drop(lists);
    stage.gone(&dependent).await?;
    stage.assert_owners(&kept, &[&solid]).await?;

    stage.cluster.delete(&solid, Policy::Background).await?;
    stage.gone(&kept).await?;
    let others = requests(stage.proxy.since(mark, &Matcher::verb(Verb::Watch).of("secrets")));
    ensure!(others.is_empty(), "{others:#?}");
    collector.stop().await
}

/// A stream that ends in any way before it has shown an owner does not show that the owner is gone
/// (rule 1.31). Fails if the end of a stream ends the list.
async fn a_streamed_list_that_breaks_off_proves_nothing() -> Result<()> {
    let stage = Stage::set().await?;
    let ns = &stage.ns;
    let collector = stage.collector().await?;
    let owner = ns.secret("owner").create().await?;
    let dependent = ns.configmap("dependent").owned_by(&owner).create().await?;
    let mark = stage.proxy.mark();
    let ends = [WatchEnd::Cleanly, WatchEnd::Abruptly, WatchEnd::Expired];
    for end in ends {
        stage.cluster.settled(&collector).await?;
        let held = stage.proxy.hold_events(Matcher::resource("secrets").within(ns.name()).named("owner"));
        ensure!(stage.proxy.cut(Some("secrets"), WatchEnd::Expired) == 1);
        held.caught().await?;
        ensure!(stage.proxy.cut(Some("secrets"), end) == 1);
    }
    stage.cluster.settled(&collector).await?;
    stage.assert_owners(&dependent, &[&owner]).await?;
    ensure!(stage.of(Verb::Delete, &dependent).is_empty(), "the collector tried to delete {dependent}");
    let streams = Matcher::verb(Verb::List).of("secrets").when(Request::is_streamed_list);
    let streams = requests(stage.proxy.since(mark, &streams));
    ensure!(streams.len() >= ends.len(), "{streams:#?}");

    stage.cluster.delete(&owner, Policy::Background).await?;
    stage.gone(&dependent).await?;
    collector.stop().await
}
