//! Annotations of the Lease.

use std::fmt;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use k8s_openapi::api::coordination::v1::Lease;

/// Passes state to the next leader, and takes commands from people, through annotations of the
/// Lease. The elector calls these methods, so they must be quick. Without an implementation, they do
/// nothing.
pub trait LeaseAnnotations: fmt::Debug + Send + Sync {
    /// This replica is the leader and has just read or written the Lease.
    fn read(&self, _lease: &Lease) {}

    /// This replica is about to take a Lease that its holder has not released.
    fn inherit(&self, _lease: &Lease) {}

    /// This replica is about to write the Lease as its holder.
    fn write(&self, _lease: &mut Lease) {}

    /// This replica is about to release the Lease.
    fn erase(&self, _lease: &mut Lease) {}

    /// Another replica is the leader.
    fn deposed(&self) {}

    /// Resolves when there is something to write soon.
    fn news(&self) -> BoxFuture<'_, ()> {
        std::future::pending().boxed()
    }
}

/// No annotations.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoAnnotations;

impl LeaseAnnotations for NoAnnotations {}
