//! Deliberate mistakes, with which the simulation proves that it would find them.
//!
//! Each mistake is at the one line where somebody could make it. Tests choose one per thread with
//! the feature `mutations`. Without the feature, [`is()`] is `false` at compile time.

/// Declares the mistakes that a crate can make on purpose: the enum `Mutation`, and [`is()`], which asks
/// for one. With the crate's feature `mutations`, `choose` makes one on the current thread; without it,
/// `is` is `false` at compile time.
#[macro_export]
macro_rules! mutations {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// A mistake that somebody might make, for tests.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Mutation {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Mutation {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// What the mistake is, in a sentence.
            pub const fn describe(self) -> &'static str {
                match self {
                    $(Self::$name => concat!($($doc,)+).trim_ascii(),)+
                }
            }
        }

        #[cfg(feature = "mutations")]
        mod chosen {
            use std::cell::Cell;

            use super::Mutation;

            thread_local! {
                static CHOSEN: Cell<Option<Mutation>> = const { Cell::new(None) };
            }

            /// Makes this mistake from now on, on this thread; or none.
            pub fn choose(mutation: Option<Mutation>) {
                CHOSEN.set(mutation);
            }

            /// Whether this mistake is made.
            #[inline]
            pub fn is(mutation: Mutation) -> bool {
                CHOSEN.get() == Some(mutation)
            }
        }

        #[cfg(feature = "mutations")]
        pub use chosen::{choose, is};

        /// Whether this mistake is made; never outside of tests.
        #[cfg(not(feature = "mutations"))]
        #[inline]
        pub const fn is(_: Mutation) -> bool {
            false
        }
    };
}

mutations! {
    /// A DELETE carries no resource version.
    DeleteWithoutVersion,
    /// A DELETE carries no uid.
    DeleteWithoutUid,
    /// After a conflict, a DELETE is sent again whatever has changed.
    DeleteOverChanges,
    /// Any 404 counts as the absence of the object.
    Any404IsAbsence,
    /// The answer to a write proves that an object is absent.
    BelieveAnswersToWrites,
    /// An owner is found if any object has its name.
    AnyUidIsTheOwner,
    /// An owner that is being deleted counts as gone.
    TerminatingIsAbsent,
    /// An owner whose kind is not served counts as gone.
    UnresolvedIsAbsent,
    /// An owner that nothing has ever shown is gone as soon as one look-up does not find it.
    UnbornIsAbsent,
    /// A namespaced owner of a cluster-scoped object counts as gone.
    InvalidScopeIsAbsent,
    /// An owner may live in any namespace.
    IgnoreNamespace,
    /// A list is believed, however old it is.
    TrustOldList,
    /// After a 410 the watch continues from the present, without a list.
    ResumeAfterGap,
    /// That an owner waits for its dependents is confirmed once and for all.
    ConfirmForEver,
    /// Waiting references go without a live look at the solid owner.
    TrustSolidOwner,
    /// Every DELETE has the policy Background.
    AlwaysBackground,
    /// The answer to a patch is not looked at.
    BelieveCodesOfPatches,
    /// Owner references go at whatever version.
    PatchWithoutVersion,
    /// A finalizer goes from whatever has the name.
    FinalizeByName,
    /// The orphan finalizer goes without a look for late dependents.
    SkipOrphanRound,
    /// An API group that was never discovered does not hold owners that orphan their dependents.
    PassOverUndiscovered,
    /// That an owner was orphaned is not remembered.
    ForgetOrphaned,
    /// An owner is not queued when its last blocking dependent is gone.
    DropUnblockWakeUp,
    /// What was proved absent before watches broke still counts as absent.
    KeepAbsences,
    /// A type that is missing in one discovery answer counts as removed.
    RetireAtOnce,
}

/// The variable that names an object over which workers panic. It is the only mistake that a whole
/// process can be told to make, because no input is known that causes a panic.
#[cfg(feature = "mutations")]
pub const PANIC_OVER: &str = "KUBE_GC_PANIC_OVER";

/// Panics, if a test has asked for it over an object of this name.
///
/// # Panics
/// See above.
#[cfg(feature = "mutations")]
pub fn panic_over(name: &str) {
    static NAME: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    let wanted = NAME.get_or_init(|| std::env::var(PANIC_OVER).ok());
    assert!(wanted.as_deref() != Some(name), "{PANIC_OVER} asks for a panic over {name}");
}

/// Panics when a test asks for it: never, outside of tests.
#[cfg(not(feature = "mutations"))]
#[inline]
pub const fn panic_over(_: &str) {}
