//! The JSON of plans, against its schema.

use kube_gc_node::Rule;
use kube_gc_testkit::schema::check;
use serde_json::Value;

use super::*;

const SCHEMA: &str = include_str!("../../../docs/node-plan.schema.json");

fn assert_fits(report: &Report) {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let value = serde_json::to_value(report).unwrap();
    check(&schema, &value).unwrap();
}

#[tokio::test]
async fn plans_and_results_fit_the_schema() {
    let mut node = Node::set_up();
    let living = node.pod().await;
    node.containers(&living, 3, ContainerState::ContainerRunning);
    let gone = node.gone_pod();
    let of_gone = node.containers(&gone, 2, ContainerState::ContainerExited);
    let images = node.images(18, 50);
    let fail = || server::Effect::Fail(server::Code::Unknown, "device busy".to_owned());
    node.server.fault(server::Fault::about(Rpc::RemoveContainer, &of_gone[1], fail()));
    node.server.fault(server::Fault::about(Rpc::RemoveImage, &images[0], fail()));
    let (look, carried) = node.pass().await;
    let report = Report::new(&node.options(), "fake 1".to_owned(), &look);
    assert_fits(&report);
    assert_fits(&report.with(carried));
    node.rules.dry_run = true;
    node.knows_pods = false;
    node.rules.images.high = 100;
    let look = node.look().await;
    let report = Report::new(&node.options(), "fake 1".to_owned(), &look);
    assert!(report.dry_run.is_some());
    assert_fits(&report);
}

#[test]
fn the_schema_lists_every_rule_and_a_value_of_another_type_does_not_fit() {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let rules: Vec<&str> = Rule::ALL.iter().map(|rule| rule.number()).collect();
    assert_eq!(schema["$defs"]["rule"]["enum"], serde_json::json!(rules));
    for wrong in [serde_json::json!({}), serde_json::json!([]), serde_json::json!({ "version": 2 })] {
        assert!(check(&schema, &wrong).is_err(), "{wrong}");
    }
}
