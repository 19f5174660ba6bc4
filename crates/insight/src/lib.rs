//! Questions of people about the graph, and their answers.
//!
//! An answer is computed by the collector's own rules: [`verdict`](kube_gc_core::verdict) decides on
//! what a [`Partition`](kube_gc_core::graph::Partition) shows, so no answer can differ from what the
//! collector would do. Nothing here writes, and nothing here does I/O.
//!
//! A question is a function of what is known ([`Knowledge`]). If something is missing, [`ask`]
//! returns what the question [needs](Need) instead of an answer. The caller finds that out, tells
//! the knowledge ([`Fact`]), and asks again. It does not matter to a question whether its facts
//! come from the partitions of a running collector or from lists that a command has just read
//! ([`LocalGraph`]).
//!
//! | Files | Contents |
//! |---|---|
//! | `knowledge`, `local` | facts, needs, and a graph that is filled from lists |
//! | `classify` | the class of an owner reference, and the evidence for it |
//! | `neighbourhood`, `page`, `worst`, `layout` | what belongs to an object, in pages, the worst of it, and its rows as a tree |
//! | `document` | answers as JSON |
//! | `namespace`, `contents` | what is left in a namespace that is being deleted |
//! | `check` | what is wrong with owner references |
//! | `plan` | what a deletion does to every object |
//! | `remaining`, `stuck` | what was deleted long ago, by what holds it |
//! | `explain`, `judge`, `chain`, `finalizers`, `sentence` | why an object is still there, and what holds it |

#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "a comment has to say more than the name; the crate is not published")]

mod chain;
mod check;
mod classify;
mod contents;
mod document;
mod explain;
mod finalizers;
mod judge;
mod knowledge;
mod layout;
mod local;
mod name;
mod namespace;
mod neighbourhood;
mod page;
mod plan;
mod remaining;
mod sentence;
mod stuck;
#[cfg(test)]
mod tests;
mod worst;

pub use chain::{Chain, ChainLink, Hold, Leaf};
pub use check::{
    CheckEffect, CheckReport, CheckedObject, Circles, Class, EffectCounts, Finding, Survey, Suspect,
    check_object,
};
pub use classify::{Evidence, JudgedReference, classify};
pub use contents::{HeldObjects, NamespaceCondition, NamespaceContents, NamespaceReport, TypeLeft};
pub use document::Document;
pub use explain::{Explanation, Outcome, explain};
pub use finalizers::{FinalizerReport, FinalizerUse, known_finalizer};
pub use knowledge::{
    AbsenceEvidence, Asker, Details, Fact, FinalizerSetter, Knowledge, Live, LiveObject, Need, ask,
};
pub use layout::{Row, RowKind, rows};
pub use local::{LocalGraph, fact, facts};
pub use name::{ObjectName, Unseen};
pub use namespace::explain_namespace;
pub use neighbourhood::{Edge, More, Neighbourhood, NeighbourhoodQuery, Shown, State, neighbourhood};
pub use page::{join, page};
pub use plan::{Cascade, Effect, Forecast, Plan, PlanQuery, PlannedObject, TypeEffects, Walk, plan};
pub use remaining::Remaining;
pub use stuck::{StuckGroup, StuckReport, stuck};
pub use worst::{Standing, Worst};
