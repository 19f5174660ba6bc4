//! A process at its limit of open files.

use std::fs::File;
use std::process::Command;

use super::*;

const RAISE: &str = "raise the limit of open files (`ulimit -n`)";

/// Whether this process may open few files. If not, another one runs the test that may.
fn has_few_files(test: &str, limit: usize) -> bool {
    const FEW: &str = "KUBE_GC_TEST_FEW_FILES";
    if std::env::var_os(FEW).is_some() {
        return true;
    }
    let again = format!("ulimit -n {limit}; exec \"$0\" --exact library::files::{test}");
    let binary = std::env::current_exe().unwrap();
    let output = Command::new("sh").args(["-c", &again]).arg(binary).env(FEW, "").output().unwrap();
    let (shown, errors) = (String::from_utf8(output.stdout), String::from_utf8(output.stderr));
    let shown = shown.unwrap();
    assert!(output.status.success() && shown.contains("1 passed"), "{shown}{errors:?}");
    false
}

/// All files that may still be opened.
fn all_files() -> Vec<File> {
    std::iter::from_fn(|| File::open("/dev/null").ok()).collect()
}

#[test]
fn a_server_that_lacks_files_says_so() {
    if !has_few_files("a_server_that_lacks_files_says_so", 100) {
        return;
    }
    run(runtime(), async {
        log("info");
        let (serving, _) = serve(Scheme::Http).await;
        let mut files = all_files();
        files.pop();
        let _waits = TcpStream::connect(serving.address()).unwrap();
        until("a line", async || !lines(RAISE).is_empty()).await;
    });
}

#[test]
fn a_wait_of_a_process_that_lacks_files_ends_with_an_error_that_says_so() {
    if !has_few_files("a_wait_of_a_process_that_lacks_files_ends_with_an_error_that_says_so", 256) {
        return;
    }
    run(runtime(), async {
        let (_serving, config) = serve(Scheme::Http).await;
        let collector = Collector::builder(config.clone()).start().await.unwrap();
        collector.wait_idle().await.unwrap();
        let mut files = all_files();
        let error = collector.wait_seen("configmaps", "999999").await.unwrap_err();
        assert!(error.to_string().contains(RAISE), "{error}");
        // Wherever a start reaches the limit.
        while let Err(error) = Collector::builder(config.clone()).start().await {
            assert!(error.to_string().contains(RAISE), "{} files: {error}", files.len());
            files.pop();
        }
        drop(files);
        collector.wait_idle().await.unwrap();
    });
}
