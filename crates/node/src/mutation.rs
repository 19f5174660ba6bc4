//! Deliberate mistakes, with which the random worlds prove that they would find them.
//!
//! There is one for each rule of safety or a few, at the one line where somebody could make it. Tests choose one per thread with
//! the feature `mutations`. Without the feature, [`is()`] is `false` at compile time.

use kube_gc_core::mutations;

mutations! {
    /// A running container is a candidate.
    RunningMayGo,
    /// A pod that is missing in the list is gone, without a live look.
    MissingIsGone,
    /// Answers count although nothing shows that they are about this node.
    TrustUnconfirmed,
    /// Beside a kubelet, the newest dead instance goes.
    NewestDeadMayGo,
    /// A dry run removes.
    ActInDryRun,
    /// A pass removes as many containers as there are.
    NoContainerLimit,
    /// A ready sandbox goes.
    ReadyMayGo,
    /// A sandbox goes with containers in it.
    SandboxWithContainersMayGo,
    /// A log path may lead anywhere.
    TrustLogPath,
    /// Only running containers use their images.
    OnlyRunningUsesImages,
    /// A list in slices is taken for whole.
    TrustSlices,
    /// The second look at a candidate is left out.
    NoSecondLook,
    /// Ages grow by the time of day.
    TrustTimeOfDay,
    /// That somebody has set the clock forward is not noticed.
    ClockIsSteady,
    /// An image that is removed and pulled again keeps its age.
    KeepAgeOfRemoved,
    /// A pass goes on when its limit is reached.
    NoLimitOfRemovals,
    /// What dead containers free is not waited for.
    NoPatienceForLayers,
    /// Pods that have ended hold their images.
    EndedPodsUseImages,
    /// Pods that were never read hold no image.
    UnreadPodsUseNoImages,
    /// The image of sandboxes goes.
    SandboxImageMayGo,
    /// What could not be removed keeps its place before all others.
    FailedKeepTheirPlace,
    /// Images without a name wait for their turn.
    NamelessWait,
    /// Containers that CRI does not list use no images.
    OnlyCriUsesImages,
    /// `--older-than` is not looked at.
    IgnoreOlderThan,
    /// `--label` is not looked at.
    IgnoreLabels,
}
