//! `kubectl gc`: kubectl finds, runs and completes the plugin.

use std::os::unix::fs::symlink;

use anyhow::{Context as _, Result, ensure};
use tempfile::TempDir;

use super::Ran;
use crate::conformance::stage::Stage;
use kube_gc_testkit::target;

kube_gc_testkit::scenarios! {
    kubectl_runs_the_plugin,
    kubectl_completes_the_plugin,
    shells_complete_the_command_line,
}

/// A directory with the binary under the names that kubectl looks for.
fn plugin() -> Result<TempDir> {
    let directory = TempDir::new()?;
    for name in ["kubectl-gc", "kubectl_complete-gc"] {
        symlink(target::binary(), directory.path().join(name))?;
    }
    Ok(directory)
}

/// Runs a command with the plugin in its `PATH`, and with a home of its own.
async fn run(stage: &Stage, program: &str, arguments: &[&str]) -> Result<Ran> {
    let plugin = plugin()?;
    let path = std::env::var("PATH").context("no PATH")?;
    let output = tokio::process::Command::new(program)
        .args(arguments)
        .env("PATH", format!("{}:{path}", plugin.path().display()))
        .env("HOME", plugin.path())
        .env("KUBECONFIG", stage.plane.kubeconfig())
        .output()
        .await
        .with_context(|| format!("cannot run {program}"))?;
    Ok(Ran {
        code: output.status.code().context("killed")?,
        out: String::from_utf8(output.stdout)?,
        err: String::from_utf8(output.stderr)?,
    })
}

async fn kubectl_runs_the_plugin() -> Result<()> {
    let stage = Stage::set().await?;
    let ns = stage.cluster.namespace().await?;
    let root = ns.configmap("root").create().await?;
    ns.secret("item").owned_by(&root).create().await?;
    let kubectl =
        async |line: &str| run(&stage, "kubectl", &line.split_whitespace().collect::<Vec<_>>()).await;
    let ran = kubectl(&format!("gc tree cm/root -n {} -o name", ns.name())).await?;
    ensure!(ran.code == 0 && ran.out == "configmap/root\nsecret/item\n", "{ran:?}");

    let help = kubectl("gc check --help").await?;
    ensure!(help.code == 0 && help.out.contains("Usage: kubectl gc check [OPTIONS]"), "{help:?}");
    ensure!(
        help.out.contains("    kubectl gc check -n shop\n") && !help.out.contains("kube-gc "),
        "{help:?}"
    );
    let help = kubectl("gc --help").await?;
    ensure!(help.out.contains("Usage: kubectl gc <COMMAND>"), "{help:?}");

    let wrong = kubectl("gc tree cm/root --depht 3").await?;
    ensure!(wrong.code == 2 && wrong.err.contains("Usage: kubectl gc tree"), "{wrong:?}");
    let wrong = kubectl(&format!("gc explain cm/nothing -n {}", ns.name())).await?;
    ensure!(
        wrong.code == 8 && wrong.err.starts_with("kubectl gc: there is no ConfigMap/nothing"),
        "{wrong:?}"
    );
    let list = kubectl("plugin list").await?;
    ensure!(list.out.contains("/kubectl-gc\n"), "{list:?}");
    stage.clear().await
}

async fn kubectl_completes_the_plugin() -> Result<()> {
    let stage = Stage::set().await?;
    let completed = async |words: &[&str]| -> Result<Vec<String>> {
        let ran = run(&stage, "kubectl", &[&["__complete", "gc"][..], words].concat()).await?;
        ensure!(ran.code == 0 && ran.err.contains("ShellCompDirectiveNoFileComp"), "{ran:?}");
        let candidates = ran.out.lines().filter(|line| !line.starts_with(':'));
        Ok(candidates.filter_map(|line| line.split('\t').next()).map(str::to_owned).collect())
    };
    ensure!(completed(&["ch"]).await? == ["check"]);
    ensure!(completed(&[""]).await?.iter().any(|word| word == "tree"));
    ensure!(completed(&["check", "--fail"]).await? == ["--fail-on"]);
    ensure!(completed(&["check", "--fail-on", ""]).await? == ["deletes", "leaks", "odd", "never"]);
    ensure!(completed(&["tree", "-o", "j"]).await? == ["json"]);
    stage.clear().await
}

async fn shells_complete_the_command_line() -> Result<()> {
    let stage = Stage::set().await?;
    let ran = run(&stage, "kubectl-gc", &["completion", "zsh"]).await?;
    ensure!(ran.code == 0 && ran.out.starts_with("#compdef kubectl-gc"), "{ran:?}");
    // bash calls the function that the script has registered, which fills COMPREPLY with what fits.
    let binary = target::binary();
    let script = "PATH=${1%/*}:$PATH; source <(kube-gc completion bash); registered=$(complete -p kube-gc); \
                  function=${registered#*-F }; COMP_WORDS=(kube-gc check --fail-on d); COMP_CWORD=3; \
                  ${function%% *} kube-gc d --fail-on; echo \"${COMPREPLY[@]}\"";
    let binary = binary.to_str().context("not UTF-8")?;
    let ran = run(&stage, "bash", &["-c", script, "bash", binary]).await?;
    ensure!(ran.out == "deletes\n", "{ran:?}");
    let ran = run(&stage, binary, &["completion", "fish"]).await?;
    ensure!(ran.code == 0 && ran.out.contains("--command kube-gc"), "{ran:?}");
    for shell in ["bash", "zsh", "fish"] {
        let script = "_CLAP_COMPLETE_INDEX=3 _KUBE_GC_COMPLETE=$2 \"$1\" -- kube-gc check --fail-on d";
        let ran = run(&stage, "bash", &["-c", script, "bash", binary, shell]).await?;
        ensure!(ran.code == 0 && ran.out.starts_with("deletes"), "{ran:?}");
    }
    let ran =
        run(&stage, "bash", &["-c", "_KUBE_GC_COMPLETE=tcsh \"$1\" -- kube-gc c", "bash", binary]).await?;
    ensure!(ran.code == 2 && ran.err.contains("`bash`, `zsh`, `fish`"), "{ran:?}");
    let ran = run(&stage, binary, &["completion", "tcsh"]).await?;
    ensure!(ran.code == 2, "{ran:?}");
    stage.clear().await
}
