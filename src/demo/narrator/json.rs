//! The story for machines: one JSON object per line, of which `event` says what
//! it is.

use serde::Serialize;
use serde_json::{Value, json};

use crate::demo::story::{Act, Drawn, Load, Places};

fn line(event: &str, what: &impl Serialize) -> Value {
    let mut line = json!({ "event": event });
    if let (Some(line), Ok(Value::Object(fields))) = (line.as_object_mut(), serde_json::to_value(what)) {
        line.extend(fields);
    }
    line
}

pub fn begins(places: &Places) -> Value {
    line("begin", places)
}

pub fn shop(drawn: &[Drawn]) -> Value {
    line("shop", &json!({ "objects": drawn }))
}

pub fn act(act: &Act) -> Value {
    line("act", act)
}

pub fn load(load: &Load) -> Value {
    line("load", load)
}

pub fn stays(places: &Places) -> Value {
    line("stay", places)
}

pub fn fails(message: &str) -> Value {
    line("fail", &json!({ "message": message }))
}

pub fn ends() -> Value {
    line("end", &json!({}))
}
