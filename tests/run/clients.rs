//! Programs in other languages start a collector: the Go module, the pytest fixture, and the
//! examples of docs/testing.md.
//!
//! A scenario whose language is not installed is skipped and says so. With
//! `KUBE_GC_CLIENTS=required`, as in continuous integration, that is a failure.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use kube_gc_testkit::{Turn, target};
use tempfile::TempDir;
use tokio::process::Command;

kube_gc_testkit::scenarios! {
    the_go_module_works,
    the_go_examples_of_the_page_work,
    the_pytest_fixture_works,
    the_python_example_of_the_page_works,
}

/// The replacements that the page tells the reader to make, and that of envtest.
const REQUIREMENTS: [(&str, &str); 2] = [
    ("kube-gc.io/kubegc", "contrib/go"),
    ("sigs.k8s.io/controller-runtime", "contrib/go/testdata/controller-runtime"),
];

fn repository(path: &str) -> PathBuf {
    target::repository().join(path)
}

/// A directory with the binary, as `KUBEBUILDER_ASSETS` names one.
fn assets() -> Result<TempDir> {
    let directory = TempDir::new()?;
    symlink(target::binary(), directory.path().join("kube-gc"))?;
    Ok(directory)
}

/// The first of these programs that is in `PATH`, or nothing if the scenario is skipped.
fn installed(scenario: &str, programs: &[&'static str]) -> Result<Option<&'static str>> {
    let path = std::env::var_os("PATH").context("no PATH")?;
    let found = programs
        .iter()
        .find(|program| std::env::split_paths(&path).any(|directory| directory.join(program).is_file()));
    if found.is_none() {
        let missing = format!("{} is not installed (tests/prerequisites.sh clients)", programs.join(" or "));
        let is_required = std::env::var_os("KUBE_GC_CLIENTS").is_some_and(|value| value == "required");
        ensure!(!is_required, "{scenario} cannot run, although KUBE_GC_CLIENTS=required: {missing}");
        eprintln!("skipped: {scenario}: {missing}");
    }
    Ok(found.copied())
}

/// Runs a program in a directory, and returns what it prints. It must succeed.
async fn run(
    program: &str,
    arguments: &[&str],
    directory: &Path,
    variables: &[(&str, &Path)],
) -> Result<String> {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(directory)
        // Nothing is fetched, and no cache is written into the repository.
        .envs([("GOFLAGS", "-mod=mod"), ("GOPROXY", "off"), ("GOTOOLCHAIN", "local"), ("GOWORK", "off")])
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .envs(variables.iter().copied())
        .kill_on_drop(true)
        .output()
        .await
        .with_context(|| format!("cannot run {program}"))?;
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "{program} {arguments:?}: {}\n{out}{err}", output.status);
    Ok(out.into_owned())
}

/// The code of a block of the page that names its file in the first line.
fn example(page: &str, language: &str, file: &str) -> Result<String> {
    let mark = if language == "go" { "//" } else { "#" };
    let (_, rest) =
        page.split_once(&format!("```{language}\n{mark} {file}\n")).with_context(|| format!("no {file}"))?;
    let (code, _) = rest.split_once("```\n").with_context(|| format!("{file} does not end"))?;
    Ok(code.to_owned())
}

fn page() -> Result<String> {
    std::fs::read_to_string(repository("docs/testing.md")).context("docs/testing.md")
}

async fn the_go_module_works() -> Result<()> {
    let Some(go) = installed("the_go_module_works", &["go"])? else { return Ok(()) };
    let module = repository("contrib/go");
    let unformatted = run("gofmt", &["-l", "."], &module, &[]).await?;
    ensure!(unformatted.is_empty(), "run gofmt -w on {unformatted}");
    run(go, &["vet", "./..."], &module, &[]).await?;

    let turn = Turn::take().await?;
    let assets = assets()?;
    let variables =
        [("KUBE_GC_TEST_KUBECONFIG", turn.plane().kubeconfig()), ("KUBEBUILDER_ASSETS", assets.path())];
    let said = run(go, &["test", "-count=1", "-v", "./..."], &module, &variables).await?;
    ensure!(said.contains("--- PASS: TestACascade") && !said.contains("--- SKIP"), "{said}");
    Ok(())
}

/// A module that may use the one of this repository.
fn module(name: &str) -> Result<TempDir> {
    let directory = TempDir::new()?;
    let mut manifest = format!("module example.com/{name}\n\ngo 1.19\n");
    for (required, path) in REQUIREMENTS {
        let path = repository(path);
        manifest += &format!("\nrequire {required} v0.1.0\n\nreplace {required} => {}\n", path.display());
    }
    std::fs::write(directory.path().join("go.mod"), manifest)?;
    Ok(directory)
}

async fn the_go_examples_of_the_page_work() -> Result<()> {
    let Some(go) = installed("the_go_examples_of_the_page_work", &["go"])? else { return Ok(()) };
    let page = page()?;
    let readme = std::fs::read_to_string(repository("contrib/go/README.md"))?;
    let (shop, suite) = (module("shop")?, module("controllers")?);
    std::fs::write(shop.path().join("cascade_test.go"), example(&page, "go", "cascade_test.go")?)?;
    std::fs::write(suite.path().join("suite_test.go"), example(&readme, "go", "suite_test.go")?)?;
    for directory in [&shop, &suite] {
        let unformatted = run("gofmt", &["-l", "."], directory.path(), &[]).await?;
        ensure!(unformatted.is_empty(), "not formatted: {unformatted}");
        // With a stand-in for envtest, which is not in this repository.
        run(go, &["vet", "."], directory.path(), &[]).await?;
    }
    let turn = Turn::take().await?;
    let assets = assets()?;
    let variables = [("KUBECONFIG", turn.plane().kubeconfig()), ("KUBEBUILDER_ASSETS", assets.path())];
    let said = run(go, &["test", "-count=1", "-v", "."], shop.path(), &variables).await?;
    ensure!(said.contains("--- PASS: TestADependentGoesWithItsOwner"), "{said}");

    // A test of the suite that needs a collector and starts none.
    std::fs::write(suite.path().join("owners_test.go"), OF_THE_SUITE)?;
    let said = run(go, &["test", "-count=1", "-v", "."], suite.path(), &variables).await?;
    ensure!(said.contains("--- PASS: TestAForegroundDeletionEnds"), "{said}");
    Ok(())
}

/// Only a collector removes the finalizer of a foreground deletion, for which kubectl waits.
const OF_THE_SUITE: &str = r#"package controllers

import (
	"os/exec"
	"testing"
)

func TestAForegroundDeletionEnds(t *testing.T) {
	for _, args := range [][]string{
		{"create", "configmap", "of-the-suite"},
		{"delete", "configmap", "of-the-suite", "--cascade=foreground", "--timeout=30s"},
	} {
		if output, err := exec.Command("kubectl", args...).CombinedOutput(); err != nil {
			t.Fatalf("kubectl %v: %v: %s", args, err, output)
		}
	}
}
"#;

async fn the_pytest_fixture_works() -> Result<()> {
    pytest("the_pytest_fixture_works", &repository("contrib/python"), "test_a_cascade").await
}

async fn the_python_example_of_the_page_works() -> Result<()> {
    let directory = TempDir::new()?;
    let page = page()?;
    for file in ["conftest.py", "test_cascade.py"] {
        std::fs::write(directory.path().join(file), example(&page, "python", file)?)?;
    }
    std::fs::copy(repository("contrib/python/kube_gc.py"), directory.path().join("kube_gc.py"))?;
    pytest("the_python_example_of_the_page_works", directory.path(), "test_a_dependent").await
}

/// Runs the tests in a directory. One of them begins with this name.
async fn pytest(scenario: &str, directory: &Path, test: &str) -> Result<()> {
    let Some(pytest) = installed(scenario, &["pytest", "pytest-3"])? else { return Ok(()) };
    let turn = Turn::take().await?;
    let assets = assets()?;
    let variables = [("KUBECONFIG", turn.plane().kubeconfig()), ("KUBEBUILDER_ASSETS", assets.path())];
    let arguments = ["-v", "-p", "no:cacheprovider", "--rootdir=."];
    let said = run(pytest, &arguments, directory, &variables).await?;
    ensure!(said.contains(&format!("::{test}")) && !said.contains("SKIPPED"), "{said}");
    Ok(())
}
