//! Which dead containers, pod sandboxes, logs and images of a Kubernetes node may go, and why.
//!
//! The kubelet collects them by rules that it neither shows nor explains. This crate has these
//! rules as pure functions, each with its number and its source, and rules of its own that make a
//! removal safe. It reads no clock, no file and no socket: callers pass in what a container
//! runtime, the API server and the file system say, and carry out the [`Plan`] that comes back.
//!
//! ```
//! use kube_gc_node::{Files, Inputs, Ledger, Moment, PodView, Rules, RuntimeView, Timestamp, Tried, plan};
//!
//! let (runtime, files, tried) = (&RuntimeView::default(), &Files::default(), &Tried::default());
//! let now = Timestamp::from_secs(1_700_000_000);
//! let mut ledger = Ledger::default();
//! ledger.observe(runtime, &PodView::None, &Moment { wall: now, ..Moment::default() });
//! let (pods, rules) = (&PodView::None, &Rules::default());
//! let plan = plan(&Inputs { runtime, pods, files, ledger: &ledger, rules, tried, now });
//! assert!(plan.removals.is_empty());
//! ```
//!
//! | Module | Contents |
//! |---|---|
//! | [`view`] | what is there: containers, sandboxes, images, pods, files |
//! | [`time`] | moments, and what the clocks of a host say of them |
//! | [`ledger`] | how long ago an image was first seen and last used |
//! | [`rules`] | the settings |
//! | [`rule`] | the numbers, texts and sources of the rules, and what they decide |
//! | [`pods`] | C3, C4: which pods are gone |
//! | [`containers`] | C1, C2, C5 to C7 |
//! | [`sandboxes`] | S1 |
//! | [`logs`] | C8, L1, L2: which files may go, and what the names of their directories say |
//! | [`images`] | I2 to I6: which images go, and in which order |
//! | [`users`] | I1: which image is used, and by what name |
//! | [`pressure`] | I4, P1: how full the file system is, and when to stop |
//! | [`mod@plan`] | an entry for each item, with rule, reason and bytes |
//! | [`pass`] | what happens while a plan is carried out |
//! | [`recheck`] | the second look at a candidate, right before its removal |
//! | [`safety`] | what no plan may ever break, as checks that share no code with the rules |
//! | [`mutation`] | mistakes on purpose, with which tests show that they would be found |

#![forbid(unsafe_code)]

pub mod containers;
pub mod images;
pub mod ledger;
pub mod logs;
pub mod mutation;
pub mod pass;
pub mod plan;
pub mod pods;
pub mod pressure;
pub mod recheck;
pub mod rule;
pub mod rules;
pub mod safety;
pub mod sandboxes;
#[cfg(any(test, feature = "test-util"))]
pub mod testing;
pub mod time;
pub mod users;
pub mod view;

pub use ledger::Ledger;
pub use plan::{Inputs, Plan, Tried, plan};
pub use recheck::{Refusal, still_removable};
pub use rule::Rule;
pub use rules::Rules;
pub use time::{Clock, Moment, Timestamp};
pub use view::{Files, PodRef, PodView, RuntimeView};
