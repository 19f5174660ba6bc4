//! Tests whose process must fail: they run themselves again in a child process.

use std::process::Command;

/// Set in the child process.
const CHILD: &str = "KUBE_GC_TEST_CHILD";

/// Runs one test of this binary in a child process. Returns its exit code and its standard error.
pub fn as_child(test: &str) -> (Option<i32>, String) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

pub fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

messages!(Panic => ());

/// Makes the receiving actor panic.
#[derive(Debug)]
pub struct Panic;
