//! `kube-gc demo --node`: a container runtime with a full disk, an API server and node collection in
//! one process, and three acts: what would go and why; something that begins to be used meanwhile;
//! and a disk that is full of something else.
//!
//! | module | content |
//! |---|---|
//! | `fixtures` | the pods, images and containers of the node: data |
//! | `host` | the runtime, the API server, the logs, and the collector on them |
//! | `acts` | what happens, and what must have come of it |
//! | `report`, `text` | the results as data, which is also the JSON; as text |

mod acts;
mod fixtures;
mod host;
mod report;
mod text;

use serde::Serialize;
use serde_json::{Value, json};

use super::READING_PAUSE;
use super::output::{Format, Output};
use crate::app::{Error, ErrorKind, block_on_one_runtime, termination};
use acts::Act;
use host::Host;
use report::{Overview, Pass};

/// Runs the demo of node collection.
///
/// # Errors
/// The demo cannot start, or an act does not end as expected.
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
    for (number, act) in (1..).zip(Act::ALL) {
        output.write(|| text::act(number, Act::ALL.len(), act.title(), act.about()), || None);
        output.pause(READING_PAUSE).await;
        act.prepare(&host);
        let (plan, look) = host.look().await?;
        output.write(|| text::plan(&plan), || Some(line("plan", number, act, &plan)));
        output.pause(2 * READING_PAUSE).await;
        let pass = host.carry_out(&look).await?;
        let verified = act.verify(&host, &plan, &pass)?;
        show_pass(output, number, act, &pass, &verified);
        output.pause(READING_PAUSE).await;
    }
    Ok(())
}

fn begin(output: &Output, overview: &Overview) {
    output.write(|| text::begin(overview), || Some(json!({ "event": "node", "node": overview })));
}

fn show_pass(output: &Output, number: usize, act: &Act, pass: &Pass, verified: &[String]) {
    let content = || json!({ "pass": pass, "verified": verified });
    output.write(|| text::pass(pass, verified), || Some(line("pass", number, act, &content())));
}

/// A line of JSON about an act.
fn line(event: &str, number: usize, act: &Act, content: &impl Serialize) -> Value {
    let mut line = json!({ "event": event, "act": number, "name": act.name() });
    if let (Some(line), Ok(Value::Object(fields))) = (line.as_object_mut(), serde_json::to_value(content)) {
        line.extend(fields);
    }
    line
}
