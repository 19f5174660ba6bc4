//! The synthetic cluster of the benchmark is consistent, and a collector's graph of it has the
//! expected size.

// The benchmark's own files, some of which are not tested.
#![allow(dead_code, unused_imports)]
#![allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]

#[path = "../benches/scale/cluster/mod.rs"]
mod cluster;
#[path = "../benches/scale/feeder/mod.rs"]
mod feeder;
#[path = "../benches/end_to_end/contestants/kube_gc.rs"]
mod kube_gc;
#[path = "../benches/end_to_end/proc.rs"]
mod linux;
#[path = "../benches/scale/proc.rs"]
mod proc;
#[path = "../benches/scale/scenarios/mod.rs"]
mod scenarios;
#[path = "../benches/scale/subject.rs"]
mod subject;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use ::kube_gc::benching;
use anyhow::{Context as _, Error, Result, ensure};
use serde_json::Value;

use self::cluster::{BLOCK, Cluster, Custom, Number, POD, Type, event, number_of, object, protobuf};
use self::feeder::WatchEncoding;
use self::subject::{GraphThreads, Setup, Subject};

/// Three namespaces, one of which has two blocks, and some custom objects.
const CLUSTER: Cluster =
    Cluster { blocks: 4, merged: 2, custom: Custom { types: 3, objects: 100, owners: 4 } };

/// Objects that are created later.
const LATER: u64 = 20;

fn all(cluster: &Cluster) -> impl Iterator<Item = Number> {
    (0..cluster.end().0 + LATER).map(Number).filter(|&number| cluster.is_possible(number))
}

fn shown(cluster: &Cluster, number: Number) -> Result<Value> {
    let mut text = String::new();
    object(&mut text, cluster, number, 7);
    serde_json::from_str(&text).with_context(|| text)
}

#[test]
fn generated_objects_are_metadata_with_references_to_other_objects() -> Result<()> {
    let (mut edges, mut uids, mut names) = (0, BTreeSet::new(), BTreeSet::new());
    for number in all(&CLUSTER) {
        let value = shown(&CLUSTER, number)?;
        let metadata = &value["metadata"];
        let uid = metadata["uid"].as_str().context("no uid")?;
        assert_eq!(uid::parse(uid), Some(uid.to_owned()), "not canonical");
        assert_eq!(number_of(uid), Some(number));
        assert!(uids.insert(uid.to_owned()));
        let resource = CLUSTER.resource(number);
        let full = (resource, metadata["namespace"].to_string(), metadata["name"].to_string());
        assert!(names.insert(full), "two objects have one name: {metadata}");
        assert_eq!(metadata["namespace"].is_string(), resource.called().namespaced);
        let none = Vec::new();
        for reference in metadata["ownerReferences"].as_array().unwrap_or(&none) {
            edges += u64::from(number < CLUSTER.end());
            let owner = reference["uid"].as_str().and_then(number_of).context("no owner")?;
            let owned_by = shown(&CLUSTER, owner)?;
            let called = CLUSTER.resource(owner).called();
            assert_eq!(reference["name"], owned_by["metadata"]["name"]);
            assert_eq!(reference["kind"], called.kind);
            let same = owned_by["metadata"]["namespace"] == metadata["namespace"];
            assert!(same || !called.namespaced, "an owner in another namespace: {metadata}");
        }
    }
    assert_eq!(edges, CLUSTER.edges());
    assert_eq!(all(&CLUSTER).count() as u64 - LATER, CLUSTER.objects());
    Ok(())
}

/// As the collector decodes them. Fields that it does not read may differ.
#[test]
fn events_say_the_same_in_both_encodings() -> Result<()> {
    for number in all(&CLUSTER) {
        for happened in ["ADDED", "MODIFIED", "DELETED"] {
            let (mut json, mut frame) = (String::new(), Vec::new());
            event(&mut json, &CLUSTER, number, happened, 7);
            protobuf::event(&mut frame, &CLUSTER, number, happened, 7);
            let of_json = benching::watch([json.as_bytes()].into_iter()).map_err(Error::msg)?;
            let of_frame = benching::watch_protobuf([&*frame].into_iter()).map_err(Error::msg)?;
            assert_eq!(of_json.len(), 1);
            assert_eq!(of_json, of_frame, "{json}");
        }
    }
    Ok(())
}

/// Reads uids as the collector does.
mod uid {
    pub(super) fn parse(text: &str) -> Option<String> {
        ::kube_gc_core::object::Uid::parse(text).filter(|_| text.len() == 36).map(|uid| uid.to_string())
    }
}

#[test]
fn pages_of_a_list_show_every_object_once() {
    let end = Number(CLUSTER.end().0 + LATER);
    let mut listed = BTreeSet::new();
    for resource in CLUSTER.types() {
        let list: Vec<Number> = CLUSTER.list(resource, Number(0), end).collect();
        assert!(list.is_sorted());
        assert!(list.iter().all(|&number| CLUSTER.resource(number) == resource));
        for from in [0, 1, 399, 801, 850] {
            let rest: Vec<Number> = CLUSTER.list(resource, Number(from), end).collect();
            assert_eq!(rest, list[list.partition_point(|number| number.0 < from)..]);
        }
        listed.extend(list);
    }
    assert_eq!(listed, all(&CLUSTER).collect());
}

#[test]
fn a_deleted_namespace_loses_all_its_objects() -> Result<()> {
    let mut content: Vec<Number> = CLUSTER.of_merged().collect();
    let namespace = shown(&CLUSTER, content.pop().context("nothing")?)?;
    let mut of: BTreeMap<String, usize> = BTreeMap::new();
    for number in (0..CLUSTER.end().0).map(Number).filter(|&number| CLUSTER.is_possible(number)) {
        *of.entry(shown(&CLUSTER, number)?["metadata"]["namespace"].to_string()).or_default() += 1;
    }
    // It also contains custom objects, but these are never deleted.
    let custom = (0..100).filter(|index| index / 3 % 4 < 2).count();
    assert_eq!(of[&namespace["metadata"]["name"].to_string()] - custom, content.len());
    Ok(())
}

#[test]
fn every_pod_is_deleted_exactly_once() {
    let (cluster, turns) = (Cluster::of(5 * BLOCK), 5 * 64);
    let victims: BTreeSet<Number> = (0..turns).map(|turn| cluster.victim(turn)).collect();
    assert_eq!(victims.len() as u64, turns);
    assert!(victims.iter().all(|&number| cluster.resource(number) == POD && number < cluster.end()));
    assert_eq!(cluster.victim(turns), cluster.end(), "then those that were created");
}

/// The binary of the tests, because the figures do not matter here.
const PROGRAM: &str = env!("CARGO_BIN_EXE_kube-gc");

async fn start(cluster: Cluster, encoding: WatchEncoding) -> Result<Subject> {
    let setup = Setup { watch_encoding: encoding, partitions: Some(3), graph: GraphThreads::Own };
    Subject::start(Path::new(PROGRAM), cluster, setup).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_holds_all_listed_objects_and_follows_events() -> Result<()> {
    for encoding in [WatchEncoding::Protobuf, WatchEncoding::Json] {
        holds_and_follows(encoding).await.with_context(|| format!("{encoding:?}"))?;
    }
    Ok(())
}

async fn holds_and_follows(encoding: WatchEncoding) -> Result<()> {
    let cluster = Cluster { merged: 0, ..CLUSTER };
    let subject = start(cluster, encoding).await?;
    // Both compare the graph with the content of the cluster.
    let size = scenarios::size(&subject).await?;
    assert_eq!((size.objects, size.edges), (cluster.objects(), cluster.edges()));
    ensure!(size.name_bytes > 0 && size.json_bytes > 300 * size.objects, "{size:?}");
    let churn = scenarios::churn(&subject, Duration::from_secs(1)).await?;
    ensure!(churn.pods >= 400, "too few: {}", churn.pods);
    let updates = scenarios::updates(&subject, Duration::from_secs(1)).await?;
    ensure!(updates.per_second > 100.0 && updates.cores > 0.0, "{updates:?}");
    let saturation = scenarios::saturation(&subject, 3000).await?;
    ensure!(saturation.per_second() > 100.0, "{saturation:?}");
    assert_eq!(subject.feeder.deleted(), 0, "nothing there is garbage");
    subject.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_frees_the_objects_of_a_deleted_namespace() -> Result<()> {
    let cluster = Cluster { blocks: 20, merged: 10, ..Cluster::default() };
    let subject = start(cluster, WatchEncoding::default()).await?;
    scenarios::size(&subject).await?;
    let deletion = scenarios::namespace(&subject, Duration::ZERO).await?;
    assert_eq!(deletion.objects, 10 * (BLOCK - 2) + 1);
    ensure!(deletion.graph_after < deletion.graph_before, "{deletion:?}");
    subject.stop().await
}

/// A type that the feeder does not serve.
const NOTHING: Type = Type(0);

#[tokio::test]
async fn the_feeder_reports_requests_that_it_does_not_serve() -> Result<()> {
    let feeder = feeder::Feeder::start(Cluster::of(BLOCK), WatchEncoding::default()).await?;
    feeder.understood_all()?;
    let kubeconfig = feeder.kubeconfig();
    let server =
        kubeconfig.split('\'').nth(1).and_then(|url| url.strip_prefix("http://")).context("no URL")?;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut stream = tokio::net::TcpStream::connect(server).await?;
    let path = format!("/api/v1/{}/none", NOTHING.called().plural);
    stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    ensure!(answer.starts_with("HTTP/1.0 501 "), "{answer}");
    let error = feeder.understood_all().unwrap_err().to_string();
    ensure!(error.contains(&path), "{error}");
    Ok(())
}
