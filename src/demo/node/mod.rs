//! `kube-gc demo --node`: a container runtime with a full disk, an API server and node collection in
//! one process. There are three scenarios: what would be removed, and why; an image that is used
//! between the plan and its removal; and a disk that is full of something else.
//!
//! | module | content |
//! |---|---|
//! | `fixtures` | the pods, images and containers of the node: data |
//! | `host` | the runtime, the API server, the logs, and the collector on them |
//! | `scenarios` | what happens, and what must have come of it |
//! | `report`, `text` | the results as data, which is also the JSON; as text |

mod fixtures;
mod host;
mod report;
mod scenarios;
mod text;

use serde::Serialize;
use serde_json::{Value, json};

use super::READING_PAUSE;
use super::output::{Format, Output, heading};
use crate::app::{Error, ErrorKind, block_on_one_runtime, termination};
use host::Host;
use report::{Overview, Pass};
use scenarios::Scenario;

/// Runs the demo of node collection.
///
/// # Errors
/// The demo cannot start, or a scenario does not end as expected.
pub fn run(format: Format) -> Result<(), Error> {
    block_on_one_runtime(demo(format))?
}

async fn demo(format: Format) -> Result<(), Error> {
    let terminated = termination()?;
    let output = Output::new(format);
    let result = tokio::select! {
        biased;
        () = async { let _ = terminated.await; } => return Ok(()),
        result = play(&output) => result,
    };
    match &result {
        Ok(()) => output.end(),
        Err(error) => output.failure(error),
    }
    result.map_err(|error| Error::new(ErrorKind::Internal, error))
}

async fn play(output: &Output) -> Result<(), String> {
    let mut host = Host::set_up().await?;
    begin(output, &host.overview());
    output.pause(2 * READING_PAUSE).await;
    for (number, scenario) in (1..).zip(Scenario::ALL) {
        output.write(|| heading(number, Scenario::ALL.len(), scenario.title(), scenario.about()), || None);
        output.pause(READING_PAUSE).await;
        scenario.prepare(&host);
        let (plan, look) = host.look().await?;
        output.write(|| text::plan(&plan), || Some(line("plan", number, scenario, &plan)));
        output.pause(2 * READING_PAUSE).await;
        let pass = host.carry_out(&look).await?;
        let verified = scenario.verify(&host, &plan, &pass)?;
        show_pass(output, number, scenario, &pass, &verified);
        output.pause(READING_PAUSE).await;
    }
    Ok(())
}

fn begin(output: &Output, overview: &Overview) {
    output.write(|| text::begin(overview), || Some(json!({ "event": "node", "node": overview })));
}

fn show_pass(output: &Output, number: usize, scenario: &Scenario, pass: &Pass, verified: &[String]) {
    let content = || json!({ "pass": pass, "verified": verified });
    output.write(|| text::pass(pass, verified), || Some(line("pass", number, scenario, &content())));
}

/// A line of JSON about a scenario.
fn line(event: &str, number: usize, scenario: &Scenario, content: &impl Serialize) -> Value {
    let mut line = json!({ "event": event, "scenario": number, "name": scenario.name() });
    if let (Some(line), Ok(Value::Object(fields))) = (line.as_object_mut(), serde_json::to_value(content)) {
        line.extend(fields);
    }
    line
}
