//! Tests whose process is to come to a bad end: they run as a child of themselves.

use std::process::Command;

/// Set in the child process that is to come to a bad end.
const CHILD: &str = "KUBE_GC_TEST_CHILD";

/// Runs one test of this binary again, as a child that knows it is one, and gives
/// back how it ended and what it said.
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

/// Makes the actor panic that it is sent to.
#[derive(Debug, actix::Message)]
#[rtype(result = "()")]
pub struct Panic;
