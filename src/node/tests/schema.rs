//! The JSON of plans, against its schema.

use std::collections::BTreeSet;

use kube_gc_node::Rule;
use serde_json::Value;

use super::*;
use crate::node::Report;

const SCHEMA: &str = include_str!("../../../docs/node-plan.schema.json");

/// Checks a value against the keywords that the schema uses. An unknown keyword is a failure.
fn check(schema: &Value, value: &Value, root: &Value, path: &str) -> Result<(), String> {
    let fail = |why: &str| Err(format!("{path}: {why}: {value}"));
    for (keyword, rule) in schema.as_object().ok_or("a schema is an object")? {
        match keyword.as_str() {
            "$schema" | "$defs" | "title" | "description" => {}
            "$ref" => {
                let pointer =
                    rule.as_str().and_then(|text| text.strip_prefix('#')).ok_or("not a reference")?;
                check(root.pointer(pointer).ok_or("a dangling reference")?, value, root, path)?;
            }
            "anyOf" => {
                let any = rule.as_array().ok_or("not a list")?;
                if !any.iter().any(|one| check(one, value, root, path).is_ok()) {
                    return fail("fits none");
                }
            }
            "type" => {
                let fits = match rule.as_str() {
                    Some("object") => value.is_object(),
                    Some("array") => value.is_array(),
                    Some("string") => value.is_string(),
                    Some("integer") => value.is_i64() || value.is_u64(),
                    Some("number") => value.is_number(),
                    Some("boolean") => value.is_boolean(),
                    Some("null") => value.is_null(),
                    _ => return fail("an unknown type"),
                };
                if !fits {
                    return fail("another type");
                }
            }
            "const" if rule != value => return fail("another value"),
            "const" => {}
            "enum" if !rule.as_array().is_some_and(|all| all.contains(value)) => return fail("not listed"),
            "enum" => {}
            "minimum" => {
                if value.as_f64() < rule.as_f64() {
                    return fail("too small");
                }
            }
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    check(rule, item, root, &format!("{path}[{index}]"))?;
                }
            }
            "required" => {
                for name in rule.as_array().into_iter().flatten().filter_map(Value::as_str) {
                    if value.get(name).is_none() {
                        return fail(&format!("{name} is missing"));
                    }
                }
            }
            "additionalProperties" => {
                let known: BTreeSet<&String> =
                    schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name).collect();
                for (name, _) in value.as_object().into_iter().flatten() {
                    if !known.contains(name) {
                        return fail(&format!("{name} is not in the schema"));
                    }
                }
            }
            "properties" => {
                for (name, schema) in rule.as_object().into_iter().flatten() {
                    if let Some(value) = value.get(name) {
                        check(schema, value, root, &format!("{path}.{name}"))?;
                    }
                }
            }
            other => return Err(format!("the test does not know the keyword {other}")),
        }
    }
    Ok(())
}

fn assert_fits(report: &Report) {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let value = serde_json::to_value(report).unwrap();
    check(&schema, &value, &schema, "$").unwrap();
}

#[tokio::test]
async fn plans_and_results_fit_the_schema() {
    let mut node = Node::new();
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
    assert_fits(&report.with(&carried));
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
        assert!(check(&schema, &wrong, &schema, "$").is_err(), "{wrong}");
    }
}
