use actix::{Context, Handler, System};

use super::child::{Panic, as_child, is_child};
use crate::actors::supervision::{FATAL_EXIT_CODE, Threads};
use kube_gc_core::graph::PartitionId;

impl Handler<Panic> for crate::actors::graph::GraphActor {
    type Result = ();

    fn handle(&mut self, _: Panic, _: &mut Context<Self>) {
        panic!("half an update");
    }
}

/// Rule 8.13.
#[test]
fn a_panic_in_a_partition_ends_the_process() {
    if is_child() {
        System::new().block_on(async {
            let partition = super::start_partition(PartitionId(0));
            let _ = partition.send(Panic).await;
            // The answer may arrive before the process ends.
            std::future::pending::<()>().await;
        });
        return;
    }
    let (code, said) = as_child("actors::tests::graph::a_panic_in_a_partition_ends_the_process");
    assert_eq!(code, Some(FATAL_EXIT_CODE), "{said}");
    assert!(said.contains("half an update"), "{said}");
    assert!(said.contains("can no longer be trusted"), "{said}");
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
