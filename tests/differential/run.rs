//! Runs a script on two servers step by step, and compares the answers.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;

use super::compare::compare;
use super::mapping::Mapping;
use super::request::{Answers, Step};
use super::scripts::Script;
use super::side::{Answer, Opened, Side};

/// How much of an answer is printed.
const SHOWN: usize = 1_800;

/// Runs a script whose names begin with this. Returns a report for each step with different answers.
pub async fn run(sides: [&Side; 2], script: &Script, name: &str) -> Vec<String> {
    let [left, right] = sides;
    let mut mapping = Mapping::new(began(sides));
    let mut answers = [(); 2].map(|()| Answers { run: name.to_owned(), bodies: Vec::new() });
    let mut open: BTreeMap<usize, [Option<Opened>; 2]> = BTreeMap::new();
    let mut reports = Vec::new();
    for (index, step) in script.steps.iter().enumerate() {
        let closed = match step {
            Step::Close { opened, .. } => open.remove(opened),
            _ => None,
        };
        let [left_closed, right_closed] = closed.unwrap_or_default();
        let sent = Instant::now();
        let ((left_answer, left_opened), (right_answer, right_opened)) = futures::future::join(
            left.step(step, &answers[0], left_closed),
            right.step(step, &answers[1], right_closed),
        )
        .await;
        open.insert(index, [left_opened, right_opened]);
        if matches!(step, Step::Send(_)) {
            mapping.took(sent.elapsed());
        }
        let differences = compare(&mut mapping, &left_answer, &right_answer);
        if !differences.is_empty() {
            reports.push(report(sides, script, index, [&left_answer, &right_answer], &differences));
        }
        answers[0].bodies.push(left_answer.body);
        answers[1].bodies.push(right_answer.body);
    }
    reports
}

/// The second on both servers, because times are compared relative to the beginning.
fn began(sides: [&Side; 2]) -> [i64; 2] {
    let now = |side: &Side| (side.now)().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    loop {
        let before = Instant::now();
        let began = sides.map(|side| i64::try_from(now(side)).unwrap());
        if before.elapsed() < Duration::from_millis(100) {
            return began;
        }
    }
}

/// The differences, the answers and the steps before them.
fn report(
    sides: [&Side; 2],
    script: &Script,
    index: usize,
    answers: [&Answer; 2],
    differences: &[String],
) -> String {
    let mut text = format!("\n{}: step {index} is answered differently\n", script.name);
    for (number, step) in script.steps.iter().enumerate().take(index + 1).skip(index.saturating_sub(4)) {
        let _ = writeln!(text, "    {number:>3}  {step}");
    }
    for one in differences.iter().take(12) {
        let _ = writeln!(text, "    {one}");
    }
    for (side, Answer { code, body, events, .. }) in sides.iter().zip(answers) {
        let body =
            events.as_ref().map_or_else(|| body.to_string(), |events| Value::from(&events[..]).to_string());
        let cut = body.char_indices().nth(SHOWN).map_or(body.len(), |(at, _)| at);
        let _ = writeln!(text, "  {}: {code} {}", side.name, &body[..cut]);
    }
    text
}
