//! The rules of kube-gc: plain data and pure functions.
//!
//! Nothing here does I/O, reads a clock, spawns a task or knows an actor. Callers pass in
//! what the rules need, the time included, and carry out what the rules return. Tests can
//! therefore run millions of histories in one process.
//!
//! | Module | Contents |
//! |---|---|
//! | [`object`] | what Kubernetes calls things: identities, owner references, resource types, the catalog of served kinds |
//! | [`graph`] | owners and dependents, in partitions: watch events go in, keys to work on come out |
//! | [`verdict`] | what to do about one object, from what the graph and live reads say |
//! | [`mailbox`] | the work queue of a pool: deduplication, backoff, fairness between namespaces |
//! | [`brake`] | optional limits on how much may be deleted |
//! | [`circles`] | the circles in any graph |
//! | [`namespaces`] | the end of a namespace: what is deleted, when it is finalized, what its conditions say |
//! | [`text`] | bounded text for logs, events and pages |
//! | [`mutation`] | deliberate mistakes, with which the simulation shows that it would find them |
//!
//! `graph`, `mailbox` and `brake` build on `object` and know nothing of each other; `verdict`
//! builds on `graph`, and `namespaces` on the backoff of `mailbox`.

#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "a comment has to say more than the name; the crate is not published")]

mod arena;
pub mod brake;
pub mod circles;
pub mod graph;
pub mod mailbox;
pub mod mutation;
pub mod namespaces;
pub mod object;
pub mod text;
pub mod verdict;
