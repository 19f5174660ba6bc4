//! The JSON output: one object per line, whose `event` names its type.

use serde::Serialize;
use serde_json::{Value, json};

use crate::demo::report::{Endpoints, Load, Scenario, TreeLine};

fn line(event: &str, content: &impl Serialize) -> Value {
    let mut line = json!({ "event": event });
    if let (Some(line), Ok(Value::Object(fields))) = (line.as_object_mut(), serde_json::to_value(content)) {
        line.extend(fields);
    }
    line
}

pub fn begin(endpoints: &Endpoints) -> Value {
    line("begin", endpoints)
}

pub fn tree(lines: &[TreeLine]) -> Value {
    line("shop", &json!({ "objects": lines }))
}

pub fn scenario(scenario: &Scenario) -> Value {
    line("scenario", scenario)
}

pub fn load(load: &Load) -> Value {
    line("load", load)
}

pub fn keeps_running(endpoints: &Endpoints) -> Value {
    line("stay", endpoints)
}

pub fn failure(message: &str) -> Value {
    line("fail", &json!({ "message": message }))
}

pub fn end() -> Value {
    line("end", &json!({}))
}
