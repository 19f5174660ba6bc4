use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};
use serde_json::json;

use super::*;
use crate::demo::fixtures::{SHOP, WEB, WEB_NEW};
use crate::demo::output::Format;
use crate::demo::scenarios::scenarios;
use crate::http::absent::Absent;
use crate::http::{
    DecisionQuery, DecisionsPage, Ended, ExplanationPage, FindQuery, Follow, FoundPage, GraphFormat,
    IdleReport, MonitorStatus, NeighbourhoodPage, ObjectQuery, QueueStatus, Readiness, StuckPage, StuckQuery,
    SummaryPage, TextStream, Undiscovered,
};
use kube_gc_apiserver::{self, ApiServer};
use kube_gc_core::object::{PropagationPolicy, Uid};

#[test]
fn everything_in_the_shop_is_in_the_tree_once() {
    let shop = shop();
    let mut tree = Vec::new();
    for fixture in shop.iter().filter(|fixture| fixture.owners.is_empty()) {
        add_tree(&shop, fixture, 0, &mut tree);
    }
    let mut objects: Vec<_> = tree.iter().map(|line| line.object.clone()).collect();
    objects.sort();
    let mut expected: Vec<_> = shop.iter().map(|fixture| fixture.object.to_string()).collect();
    expected.sort();
    assert_eq!(objects, expected);
    assert!(tree.iter().any(|line| line.note == "also owned by Deployment api"));
}

#[test]
fn differences_are_described() {
    let object = ObjectRef { kind: Kind::ConfigMap, namespace: SHOP, name: "a" };
    let one = json!({"ownerReferences": [{}]});
    assert_eq!(exists(object, 1, &one), Ok("ConfigMap a exists and has one owner".to_owned()));
    assert_eq!(
        exists(object, 0, &one),
        Err("ConfigMap a should have 0 owner references but has 1".to_owned())
    );
    let dying = json!({"deletionTimestamp": "t", "finalizers": ["x"]});
    assert!(exists(object, 0, &dying).is_err());
    assert!(terminating(object, "x", &dying).is_ok());
    assert!(terminating(object, "y", &dying).is_err());
    assert!(terminating(object, "x", &json!({"finalizers": ["x"]})).is_err());
}

/// A collector that does nothing and reports that it is idle.
struct IdleCollector;

impl Introspection for IdleCollector {
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

    fn search(&self, _: FindQuery) -> BoxFuture<'_, Result<FoundPage, Ended>> {
        std::future::ready(Ok(FoundPage::default())).boxed()
    }

    fn neighbourhood(&self, _: ObjectQuery) -> BoxFuture<'_, Result<Option<NeighbourhoodPage>, Ended>> {
        std::future::ready(Ok(None)).boxed()
    }

    fn follow(&self, _: ObjectQuery) -> Box<dyn Follow> {
        Box::new(Absent)
    }

    fn explain(&self, _: ObjectQuery) -> BoxFuture<'_, Result<Option<ExplanationPage>, Ended>> {
        std::future::ready(Ok(None)).boxed()
    }

    fn summary(&self) -> BoxFuture<'_, Result<SummaryPage, Ended>> {
        std::future::ready(Ok(SummaryPage::default())).boxed()
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
async fn a_scenario_that_does_not_end_as_expected_is_an_error() {
    let server = ApiServer::new(kube_gc_apiserver::Settings::default());
    let user = User::new(server.client());
    let (recorder, mut steps) = Recorder::new(true);
    let mut output = Output::new(Format::Json);
    let mut runner = Runner::new(&user, &recorder, &mut steps, &IdleCollector, &mut output);
    let [namespace, ..] = prerequisites();
    for fixture in [namespace, Fixture::new(WEB), Fixture::new(WEB_NEW).owned_by(WEB)] {
        runner.create(&fixture).await.unwrap();
    }
    let operation = Operation::Delete(WEB, PropagationPolicy::Background);
    let expected = vec![Expectation::Absent(WEB), Expectation::Absent(WEB_NEW)];
    let scenario =
        Scenario { name: "a", title: "t", about: "b", phases: vec![Phase { operation, expected }] };
    let error = runner.run(&scenario).await.unwrap_err();
    assert_eq!(error, "scenario \"a\": after 30 s: ReplicaSet web-6f7d8c should be gone but exists");
}

#[test]
fn every_operation_has_a_description_and_most_have_a_command() {
    let all: Vec<_> = scenarios().into_iter().flat_map(|scenario| scenario.phases).collect();
    let commands: Vec<_> = all.iter().filter_map(|phase| describe(&phase.operation).1).collect();
    assert_eq!(commands[0], "kubectl delete deployment web -n shop --cascade=background");
    assert_eq!(commands.len(), 4);
}
