use std::process::Command;

use actix::{Context, Handler, System};

use crate::actors::supervision::{FATAL_EXIT_CODE, Threads};

/// Set in the child process that is to come to a bad end.
const CHILD: &str = "KUBE_GC_TEST_CHILD";

/// Runs one test of this binary again, as a child that knows it is one, and gives
/// back how it ended and what it said.
fn as_child(test: &str) -> (Option<i32>, String) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

#[derive(actix::Message)]
#[rtype(result = "()")]
struct Panic;

impl Handler<Panic> for crate::actors::graph::GraphActor {
    type Result = ();

    fn handle(&mut self, _: Panic, _: &mut Context<Self>) {
        panic!("half an update");
    }
}

#[test]
fn a_panic_in_a_partition_ends_the_process() {
    if is_child() {
        System::new().block_on(async {
            let partition = super::start_partition();
            let _ = partition.send(Panic).await;
            // The answer may come before the end does.
            std::future::pending::<()>().await;
        });
        return;
    }
    let (code, said) = as_child("actors::tests::graph::a_panic_in_a_partition_ends_the_process");
    assert_eq!(code, Some(FATAL_EXIT_CODE), "{said}");
    assert!(said.contains("half an update"), "{said}");
    assert!(said.contains("not to be trusted"), "{said}");
}

#[test]
fn a_thread_that_ends_ends_the_process() {
    if is_child() {
        System::new().block_on(async {
            let threads = Threads::default();
            let thread = threads.start("graph partition 0").unwrap();
            thread.stop();
            std::future::pending::<()>().await;
        });
        return;
    }
    let (code, said) = as_child("actors::tests::graph::a_thread_that_ends_ends_the_process");
    assert_eq!(code, Some(FATAL_EXIT_CODE), "{said}");
    assert!(said.contains("graph partition 0"), "{said}");
}
