use std::sync::Arc;

use actix::System;

use super::child::{as_child, is_child};
use crate::actors::absent_owner_cache::AbsentOwnerCache;
use crate::actors::graph::Question;
use crate::actors::supervision::{FATAL_EXIT_CODE, Threads};
use kube_gc_core::graph::PartitionId;

/// Rule 8.13.
#[test]
fn a_panic_in_a_partition_ends_the_process() {
    if is_child() {
        System::new().block_on(async {
            let thread = Threads::default().start("graph partition 0").unwrap();
            let cache = Arc::new(AbsentOwnerCache::new(10));
            let partition = super::start_partition(Some(&thread), PartitionId(0), cache);
            partition.do_send(Question::new(|_, _| panic!("half an update")));
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
