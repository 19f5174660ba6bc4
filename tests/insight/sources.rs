//! `--watch`, and Ctrl-C.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

use super::fixtures::World;
use crate::conformance::stage::HOLD;
use kube_gc_testkit::proxy::{Matcher, Proxy, Verb};
use kube_gc_testkit::{Policy, target};

kube_gc_testkit::scenarios! {
    a_watched_tree_follows_a_deletion,
    an_interrupted_read_shows_what_is_known,
}

/// The time limit of each wait.
const DEADLINE: Duration = Duration::from_secs(60);

/// A command that goes on.
struct Running {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Running {
    fn start(kubeconfig: &std::path::Path, line: &str) -> Result<Self> {
        let mut child = Command::new(target::binary())
            .args(line.split_whitespace())
            .env("KUBECONFIG", kubeconfig)
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let lines = BufReader::new(child.stdout.take().context("no output")?).lines();
        Ok(Self { child, lines })
    }

    /// Reads trees until one has these states.
    async fn until(&mut self, states: &[&str]) -> Result<()> {
        let search = async {
            while let Some(line) = self.lines.next_line().await? {
                let tree: Value = serde_json::from_str(&line)?;
                let nodes = tree["nodes"].as_array().context("no nodes")?;
                if nodes.iter().map(|node| &node["state"]).eq(states) {
                    return Ok(());
                }
            }
            anyhow::bail!("it has ended")
        };
        timeout(DEADLINE, search).await.with_context(|| format!("{states:?} did not come"))?
    }

    /// Reads lines until one says this.
    async fn line(&mut self, said: &str) -> Result<()> {
        let search = async {
            while let Some(line) = self.lines.next_line().await? {
                if line.contains(said) {
                    return Ok(());
                }
            }
            anyhow::bail!("it has ended")
        };
        timeout(DEADLINE, search).await.with_context(|| format!("{said:?} did not come"))?
    }

    fn interrupt(&self) -> Result<()> {
        let id = self.child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        Ok(kill_process(id.context("it has ended")?, Signal::INT)?)
    }

    /// The rest of the output and the exit code.
    async fn end(mut self) -> Result<(String, i32)> {
        let mut rest = String::new();
        let read = async {
            while let Some(line) = self.lines.next_line().await? {
                rest.push_str(&line);
                rest.push('\n');
            }
            self.child.wait().await
        };
        let status = timeout(DEADLINE, read).await.context("it does not end")??;
        Ok((rest, status.code().context("killed")?))
    }
}

async fn a_watched_tree_follows_a_deletion() -> Result<()> {
    let world = World::set().await?;
    let (cluster, ns, caller) = world.parts();
    let collector = world.stage.collector().await?;
    for source in ["--from lists".to_owned(), format!("--collector http://{}", collector.debug_address())] {
        let root = ns.configmap("root").create().await?;
        let held = ns.secret("held").owned_by(&root).blocking().finalizer(HOLD).create().await?;
        cluster.settled(&collector).await?;
        let line = format!("tree cm/root -n {} --watch -o json {source}", ns.name());
        let mut first = Running::start(caller.kubeconfig, &line)?;
        let mut second = Running::start(caller.kubeconfig, &line)?;
        for running in [&mut first, &mut second] {
            running.until(&["live", "live"]).await?;
        }
        let mut table = Running::start(caller.kubeconfig, &line.replace("-o json", ""))?;
        table.line("live").await?;
        cluster.delete(&root, Policy::Foreground).await?;
        for running in [&mut first, &mut second] {
            running.until(&["deletingDependents", "terminating"]).await?;
        }
        table.line("Dependents left: 1 of 1 counted.").await?;
        first.interrupt()?;
        let (_, code) = first.end().await?;
        ensure!(code == 0, "{source}: {code} after Ctrl-C");
        cluster.set_finalizers(&held, &[]).await?;
        cluster.settled(&collector).await?;
        let (_, code) = second.end().await?;
        ensure!(code == 0, "{source}: {code} after the object is gone");
        let (rest, code) = table.end().await?;
        ensure!(code == 0 && rest.ends_with("ConfigMap/root is gone\n"), "{source}: {code} {rest}");
    }
    collector.stop().await
}

/// The read of an owner does not end.
async fn an_interrupted_read_shows_what_is_known() -> Result<()> {
    let world = World::set().await?;
    let (_, ns, _) = world.parts();
    let owner = ns.configmap("owner").create().await?;
    ns.secret("item").owned_by(&owner).create().await?;
    let proxy = Proxy::start(world.stage.plane).await?;
    let mut reads = proxy.hold(Matcher::object(Verb::Get, &owner));
    let line = format!("explain secret/item -n {} -o json", ns.name());
    let running = Running::start(proxy.kubeconfig(), &line)?;
    let held = reads.next().await?;
    running.interrupt()?;
    let (out, code) = running.end().await?;
    let explanation: Value = serde_json::from_str(&out).with_context(|| out.clone())?;
    ensure!(code == 7 && explanation["dependsOnUnseen"] == true, "{code} {out}");
    ensure!(explanation["incomplete"][0]["why"] == "interrupted", "{out}");
    drop(held);
    Ok(())
}
