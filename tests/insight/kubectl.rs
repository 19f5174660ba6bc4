//! `kubectl gc`: kubectl finds, runs and completes the plugin.

use std::os::unix::fs::symlink;

use anyhow::{Context as _, Result, ensure};
use tempfile::TempDir;

use super::Ran;
use crate::conformance::stage::Stage;
use kube_gc_testkit::{Policy, Scope, target};

kube_gc_testkit::scenarios! {
    kubectl_runs_the_plugin,
    the_command_that_removes_a_finalizer_fits_each_object,
    kubectl_completes_the_plugin,
    shells_complete_the_command_line,
    types_are_those_that_kubectl_means,
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

/// The command at the end of a line of advice that begins so.
pub fn command<'a>(answer: &'a Ran, begin: &str) -> Result<&'a str> {
    let mut advice = answer.out.lines().filter(|line| line.starts_with(begin));
    let command = advice.next().and_then(|advice| advice.find(": kubectl ").map(|at| &advice[at + 2..]));
    command.with_context(|| format!("no command after {begin:?}: {answer:?}"))
}

/// Runs what an answer advises.
pub async fn in_shell(stage: &Stage, command: &str) -> Result<Ran> {
    run(stage, "bash", &["-o", "pipefail", "-c", command]).await
}

/// Runs a command line, and fails unless it ends with this exit code and says all of this.
async fn says(stage: &Stage, line: &str, code: i32, said: &[&str]) -> Result<()> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let ran = run(stage, words[0], &words[1..]).await?;
    let text = format!("{}{}", ran.out, ran.err);
    ensure!(ran.code == code && said.iter().all(|said| text.contains(said)), "{line}: {ran:?}");
    Ok(())
}

async fn kubectl_runs_the_plugin() -> Result<()> {
    let stage = Stage::set().await?;
    let ns = stage.cluster.namespace().await?;
    let root = ns.configmap("root").create().await?;
    ns.secret("item").owned_by(&root).create().await?;
    let usage = "Usage: kubectl gc check [OPTIONS]";
    let in_ns = |line: &str| format!("{line} -n {}", ns.name());
    for (line, code, said) in [
        (in_ns("kubectl gc tree cm/root -o name"), 0, &["configmap/root\nsecret/item\n"][..]),
        ("kubectl gc check --help".to_owned(), 0, &[usage, "    kubectl gc check -n shop\n"]),
        ("kubectl gc --help".to_owned(), 0, &["Usage: kubectl gc <COMMAND>"]),
        ("kubectl gc tree cm/root --depht 3".to_owned(), 2, &["Usage: kubectl gc tree"]),
        (in_ns("kubectl gc explain cm/nothing"), 8, &["kubectl gc: configmaps \"nothing\" not found"]),
        ("kubectl plugin list".to_owned(), 0, &["/kubectl-gc\n"]),
    ] {
        says(&stage, &line, code, said).await?;
    }
    Ok(())
}

/// Whatever the place of the finalizer in the list of an object.
async fn the_command_that_removes_a_finalizer_fits_each_object() -> Result<()> {
    let stage = Stage::set().await?;
    let (cluster, ns) = (&stage.cluster, stage.cluster.namespace().await?);
    let (one, two) = ("one.example.net/x", "two.example.net/x");
    let a = ns.configmap("a").finalizer(one).finalizer(two).create().await?;
    let b = ns.configmap("b").finalizer(two).finalizer(one).create().await?;
    cluster.delete_all(&[a.clone(), b.clone()], Policy::Background).await?;
    let ran = run(&stage, "kubectl", &["gc", "explain", "cm/a", "-n", ns.name()]).await?;
    let of_a = command(&ran, &format!("Removing {one} by hand"))?.to_owned();
    for (object, command) in [(&b, of_a.replace(" a ", " b ").replace(&a.uid, &b.uid)), (&a, of_a)] {
        // Another object may have the name by then.
        for (command, is_done) in [(command.replace(&object.uid, "x"), false), (command, true)] {
            let ran = in_shell(&stage, &command).await?;
            let left = cluster.fresh(object).await?.finalizers().contains(&one);
            ensure!((ran.code == 0, left) == (is_done, !is_done), "{command}: {ran:?}");
        }
        ensure!(cluster.fresh(object).await?.finalizers() == [two], "{object}");
        cluster.set_finalizers(object, &[]).await?;
    }
    Ok(())
}

async fn kubectl_completes_the_plugin() -> Result<()> {
    let stage = Stage::set().await?;
    let ns = stage.cluster.namespace().await?;
    for name in ["web-a", "web-b", "other"] {
        ns.configmap(name).create().await?;
    }
    for (words, expected) in [
        (&["tree", "configma"][..], &["configmaps"][..]),
        (&["tree", "-n", ns.name(), "cm/web"], &["cm/web-a", "cm/web-b"]),
        (&["plan", "-n", ns.name(), "cm", "oth"], &["other"]),
        (&["plan", "-n", ns.name(), "cm", "other", "web"], &["web-a", "web-b"]),
        (&["plan", "-n", ns.name(), "cm/other", "cm/web-a", "configma"], &["configmaps"]),
        (&["plan", "-l", "app=web", "cm,configma"], &["cm,configmaps"]),
        (&["plan", "-l", "app=web", "cm", "configma"], &["configmaps"]),
        (&["plan", "-f", "Cargo.t"], &["Cargo.toml"]),
        (&["plan", "-f", "crates/ins"], &["crates/insight/"]),
        (&["stuck", "-n", ns.name()], &[ns.name()]),
        (&["ch"], &["check"]),
        (&["check", "--fail"], &["--fail-on"]),
        (&["check", "--fail-on", ""], &["deletes", "leaks", "odd", "never"]),
        (&["tree", "-o", "j"], &["json"]),
    ] {
        let ran = run(&stage, "kubectl", &[&["__complete", "gc"][..], words].concat()).await?;
        ensure!(ran.code == 0 && ran.err.contains("ShellCompDirectiveNoFileComp"), "{ran:?}");
        let candidates = ran.out.lines().filter(|line| !line.starts_with(':'));
        ensure!(
            candidates.filter_map(|line| line.split('\t').next()).eq(expected.iter().copied()),
            "{ran:?}"
        );
    }
    Ok(())
}

async fn shells_complete_the_command_line() -> Result<()> {
    let stage = Stage::set().await?;
    // bash calls the function that the script has registered, which fills COMPREPLY with what fits.
    let binary = target::binary();
    let script = "PATH=${1%/*}:$PATH; source <(kube-gc completion bash); registered=$(complete -p kube-gc); \
                  function=${registered#*-F }; COMP_WORDS=(kube-gc check --fail-on d); COMP_CWORD=3; \
                  ${function%% *} kube-gc d --fail-on; echo \"${COMPREPLY[@]}\"";
    let binary = binary.to_str().context("not UTF-8")?;
    let ran = run(&stage, "bash", &["-c", script, "bash", binary]).await?;
    ensure!(ran.out == "deletes\n", "{ran:?}");
    for shell in ["bash", "zsh", "fish"] {
        let script = "_CLAP_COMPLETE_INDEX=3 _KUBE_GC_COMPLETE=$2 \"$1\" -- kube-gc check --fail-on d";
        let ran = run(&stage, "bash", &["-c", script, "bash", binary, shell]).await?;
        ensure!(ran.code == 0 && ran.out.starts_with("deletes"), "{ran:?}");
    }
    for (line, code, said) in [
        ("kubectl-gc completion zsh".to_owned(), 0, "#compdef kubectl-gc"),
        (format!("{binary} completion fish"), 0, "--command kube-gc"),
        (format!("env _KUBE_GC_COMPLETE=tcsh {binary} -- kube-gc c"), 2, "`bash`, `zsh`, `fish`"),
        (format!("{binary} completion tcsh"), 2, "tcsh"),
    ] {
        says(&stage, &line, code, &[said]).await?;
    }
    Ok(())
}

/// A name of a type goes before a short name of another, in whatever group.
async fn types_are_those_that_kubectl_means() -> Result<()> {
    let stage = Stage::set().await?;
    let ns = stage.cluster.namespace().await?;
    ns.configmap("x").create().await?;
    ns.secret("x").create().await?;
    // The short name of PodDisruptionBudgets.
    let shadow = stage.cluster.crd("pdb.shadow.example.org", Scope::Namespaced, &["v1"]).await?;
    ns.object(shadow.resource(), "x").create().await?;
    for of in
        ["pdb", "Pdb", "pdb.shadow.example.org", "pdb.v1.shadow.example.org", "cm", "ConfigMap", "secret"]
    {
        let get = ["get", of, "x", "-o", "name", "-n", ns.name()];
        let plan = [&["gc", "plan"][..], &get[1..]].concat();
        let [kubectl, ours] = [run(&stage, "kubectl", &get).await?, run(&stage, "kubectl", &plan).await?];
        ensure!(kubectl.code == 0 && ours.out == kubectl.out, "{of}: {kubectl:?}, {ours:?}");
    }
    Ok(())
}
