//! The report of a difference.

use std::fmt::Write as _;

use serde_json::Value;

use super::request::{Body, Request, Step};
use super::run::Difference;
use super::scripts::Script;
use super::side::{Answer, Side};

/// How much of an answer is printed.
const SHOWN: usize = 1_800;

fn shown_answer(answer: &Answer) -> String {
    let body = match &answer.events {
        None => short(&answer.body).to_string(),
        Some(events) => events
            .iter()
            .map(|event| {
                let metadata = event["object"]["metadata"].to_string();
                format!("\n      {} {metadata}", event["type"])
            })
            .collect(),
    };
    let cut = body.char_indices().nth(SHOWN).map_or(body.len(), |(at, _)| at);
    format!("{} {}", answer.code, &body[..cut])
}

/// A body in which the items of a list are reduced to their metadata.
fn short(body: &Value) -> Value {
    let mut body = body.clone();
    if let Some(items) = body.get_mut("items").and_then(Value::as_array_mut) {
        for item in items {
            *item = item["metadata"].clone();
        }
    }
    body
}

/// A step in one line.
pub fn shown_step(step: &Step) -> String {
    match step {
        Step::Send(request) => shown_request(request),
        Step::Watch(request, until) => format!("watch {} until {until:?}", shown_request(request)),
        Step::Open(request) => format!("open {}", shown_request(request)),
        Step::Close { opened, until, .. } => format!("close {opened} at {until:?}"),
        Step::Until(request, code, value) => format!("{} until {code} {value:?}", shown_request(request)),
    }
}

fn shown_request(request: &Request) -> String {
    let query: Vec<String> = request.query.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let query = if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) };
    let body = match &request.body {
        Body::None => String::new(),
        Body::Json(value) => format!(" {value}"),
    };
    let form = |name: &str, value: &str| {
        if value == "application/json" { String::new() } else { format!(" {name} {value}") }
    };
    let (accept, content) = (form("accept", &request.accept), form("as", request.content_type));
    format!("{} {}{query}{body}{content}{accept}", request.method, request.path)
}

/// For a script: the difference and the steps before it.
pub fn report_script(sides: [&Side; 2], script: &Script, difference: &Difference) -> String {
    let mut text = format!("\n{}: step {} is answered differently\n", script.name, difference.step);
    let before = script.steps.iter().enumerate().take(difference.step + 1);
    for (index, step) in before.skip(difference.step.saturating_sub(4)) {
        let _ = writeln!(text, "    {index:>3}  {}", shown_step(step));
    }
    for one in difference.differences.iter().take(12) {
        let _ = writeln!(text, "    {one}");
    }
    for (side, answer) in sides.iter().zip([&difference.answers.0, &difference.answers.1]) {
        let _ = writeln!(text, "  {}: {}", side.name, shown_answer(answer));
    }
    text
}
