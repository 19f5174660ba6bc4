//! The rules of kube-gc: plain data and pure functions.
//!
//! Nothing here does I/O, reads a clock, spawns a task or knows an actor. What the
//! rules need comes in as arguments, and what they want done goes out as values, so that
//! tests can try them by the million.

#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "a comment has to say more than the name; the crate is not published")]

pub mod brake;
pub mod graph;
pub mod mailbox;
pub mod mutation;
pub mod object;
pub mod text;
pub mod verdict;
