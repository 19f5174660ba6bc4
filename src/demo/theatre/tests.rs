use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};
use serde_json::json;

use super::*;
use crate::cli::OutputFormat;
use crate::demo::acts::acts;
use crate::demo::shop::{WEB, WEB_NEW};
use crate::demo::things::SHOP;
use crate::http::{
    DecisionQuery, DecisionsPage, Ended, GraphFormat, IdleReport, MonitorStatus, QueueStatus, Readiness,
    StuckPage, StuckQuery, TextStream, Undiscovered,
};
use kube_gc_apiserver::{self, Embedded};
use kube_gc_core::object::{PropagationPolicy, Uid};

#[test]
fn everything_in_the_shop_is_drawn_once() {
    let shop = shop();
    let mut drawn = Vec::new();
    for item in shop.iter().filter(|item| item.owners.is_empty()) {
        draw(&shop, item, 0, &mut drawn);
    }
    let mut objects: Vec<_> = drawn.iter().map(|drawn| drawn.object.clone()).collect();
    objects.sort();
    let mut expected: Vec<_> = shop.iter().map(|item| item.thing.to_string()).collect();
    expected.sort();
    assert_eq!(objects, expected);
    assert!(drawn.iter().any(|drawn| drawn.note == "also owned by Deployment api"));
}

#[test]
fn what_is_not_as_it_must_be_is_said() {
    let thing = Thing { kind: Kind::ConfigMap, namespace: SHOP, name: "a" };
    let one = json!({"ownerReferences": [{}]});
    assert_eq!(lives(thing, 1, &one), Ok("ConfigMap a lives, and has one owner".to_owned()));
    assert_eq!(lives(thing, 0, &one), Err("ConfigMap a should have 0 owner references and has 1".to_owned()));
    let dying = json!({"deletionTimestamp": "t", "finalizers": ["x"]});
    assert!(lives(thing, 0, &dying).is_err());
    assert!(held(thing, "x", &dying).is_ok());
    assert!(held(thing, "y", &dying).is_err());
    assert!(held(thing, "x", &json!({"finalizers": ["x"]})).is_err());
}

/// A collector that does nothing, and says that it has nothing to do.
struct Idler;

impl Introspection for Idler {
    fn monitors(&self) -> BoxFuture<'_, Vec<MonitorStatus>> {
        std::future::ready(Vec::new()).boxed()
    }

    fn undiscovered(&self) -> Vec<Undiscovered> {
        Vec::new()
    }

    fn graph(&self, _: GraphFormat) -> TextStream {
        futures::stream::empty().boxed()
    }

    fn component(&self, _: Vec<Uid>, _: GraphFormat) -> BoxFuture<'_, Result<Option<String>, Ended>> {
        std::future::ready(Ok(None)).boxed()
    }

    fn decisions(&self, _: &DecisionQuery) -> DecisionsPage {
        DecisionsPage::default()
    }

    fn stuck(&self, _: StuckQuery) -> BoxFuture<'_, Result<StuckPage, Ended>> {
        std::future::ready(Ok(StuckPage::default())).boxed()
    }

    fn idle(&self, query: IdleQuery) -> BoxFuture<'_, IdleReport> {
        std::future::ready(IdleReport::judge(&query, BTreeMap::new(), 0, &[], Vec::new())).boxed()
    }

    fn queues(&self) -> BoxFuture<'_, Vec<QueueStatus>> {
        std::future::ready(Vec::new()).boxed()
    }

    fn readiness(&self) -> Readiness {
        Readiness::default()
    }
}

#[tokio::test(start_paused = true)]
async fn an_act_that_does_not_end_as_it_must_is_an_error() {
    let server = Embedded::new(kube_gc_apiserver::Settings::default());
    let user = User::new(server.client());
    let (recorder, mut steps) = Recorder::new(true);
    let mut narrator = Narrator::new(OutputFormat::Json);
    let mut theatre = Theatre {
        user: &user,
        recorder: &recorder,
        steps: &mut steps,
        collector: &Idler,
        narrator: &mut narrator,
        uids: BTreeMap::new(),
        shown: BTreeMap::new(),
    };
    let [namespace, ..] = ground();
    for item in [namespace, Item::new(WEB), Item::new(WEB_NEW).owned_by(WEB)] {
        theatre.create(&item).await.unwrap();
    }
    let deed = Deed::Delete(WEB, PropagationPolicy::Background);
    let then = vec![Expectation::Gone(WEB), Expectation::Gone(WEB_NEW)];
    let act = Act { name: "a", title: "t", about: "b", scenes: vec![Scene { deed, then }] };
    let error = theatre.play(&act).await.unwrap_err();
    assert_eq!(error, "act \"a\": after 30 s: ReplicaSet web-6f7d8c should be gone and is there");
}

#[test]
fn every_deed_has_words_and_most_a_command() {
    let all: Vec<_> = acts().into_iter().flat_map(|act| act.scenes).collect();
    let commands: Vec<_> = all.iter().filter_map(|scene| described(&scene.deed).1).collect();
    assert_eq!(commands[0], "kubectl delete deployment web -n shop --cascade=background");
    assert_eq!(commands.len(), 4);
}
