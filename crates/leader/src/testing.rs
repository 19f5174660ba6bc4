//! Electors on a Lease in memory, on a clock that tests move.

#![allow(missing_docs, clippy::unwrap_used, reason = "only tests call it")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube_gc_client::{Clock, ReplicaRole, WriteGate};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::decide::is_held_by;
use super::{Elector, LeaseError, Leases, ReplicaId, Timing};

pub const TIMING: Timing = Timing {
    lease_duration: Duration::from_secs(15),
    renew_deadline: Duration::from_secs(10),
    retry_period: Duration::from_secs(2),
};

/// The Lease as the API server has it.
#[derive(Debug, Default)]
pub struct Stored {
    pub lease: Option<Lease>,
    pub version: u64,
    /// Each version and who held it then.
    pub holders: Vec<Option<String>>,
}

impl Stored {
    pub fn write(&mut self, mut lease: Lease) -> Lease {
        self.version += 1;
        lease.metadata.resource_version = Some(self.version.to_string());
        self.holders.push(lease.spec.as_ref().and_then(|spec| spec.holder_identity.clone()));
        self.lease = Some(lease.clone());
        lease
    }
}

/// What happens to the next requests.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Delivery {
    /// They arrive and are answered.
    #[default]
    Open,
    /// They fail at once.
    Refused,
    /// They never arrive, and are never answered.
    Silent,
    /// They take effect, and are never answered.
    AnswerLost,
    /// They take this long to arrive, and the answer as long again.
    Slow(Duration),
}

/// A connection to the API server, which has one Lease.
#[derive(Clone, Debug, Default)]
pub struct Server {
    pub stored: Arc<Mutex<Stored>>,
    pub delivery: Arc<Mutex<Delivery>>,
}

impl Server {
    /// The same Lease through another connection.
    pub fn again(&self) -> Self {
        Self { stored: Arc::clone(&self.stored), delivery: Arc::default() }
    }

    pub fn set_delivery(&self, delivery: Delivery) {
        *self.delivery.lock().unwrap() = delivery;
    }

    pub fn spec(&self) -> LeaseSpec {
        let lease = self.stored.lock().unwrap().lease.clone();
        lease.and_then(|lease| lease.spec).unwrap_or_default()
    }

    pub fn is_held_by(&self, me: &ReplicaId) -> bool {
        is_held_by(&self.spec(), me)
    }

    async fn exchange<T: Send + 'static>(
        &self,
        effect: impl FnOnce(&mut Stored) -> Result<T, LeaseError> + Send + 'static,
    ) -> Result<T, LeaseError> {
        let (delivery, stored) = (*self.delivery.lock().unwrap(), Arc::clone(&self.stored));
        match delivery {
            Delivery::Open => effect(&mut stored.lock().unwrap()),
            Delivery::Refused => Err(LeaseError::Failed("connection refused".into())),
            Delivery::Silent => std::future::pending().await,
            Delivery::AnswerLost => {
                let _ = effect(&mut stored.lock().unwrap());
                std::future::pending().await
            }
            Delivery::Slow(time) => {
                // The request takes effect even if its client no longer waits.
                let exchange = tokio::spawn(async move {
                    sleep(time).await;
                    let result = effect(&mut stored.lock().unwrap());
                    sleep(time).await;
                    result
                });
                exchange.await.unwrap()
            }
        }
    }
}

impl Leases for Server {
    async fn read(&self) -> Result<Option<Lease>, LeaseError> {
        self.exchange(|stored| Ok(stored.lease.clone())).await
    }

    async fn create(&self, lease: Lease) -> Result<Lease, LeaseError> {
        self.exchange(|stored| {
            if stored.lease.is_some() { Err(LeaseError::Conflict) } else { Ok(stored.write(lease)) }
        })
        .await
    }

    async fn replace(&self, lease: Lease) -> Result<Lease, LeaseError> {
        self.exchange(|stored| {
            let version = stored.lease.as_ref().and_then(|lease| lease.metadata.resource_version.clone());
            if version.is_some() && version == lease.metadata.resource_version {
                Ok(stored.write(lease))
            } else {
                Err(LeaseError::Conflict)
            }
        })
        .await
    }
}

/// One replica.
pub struct Replica {
    pub server: Server,
    pub gate: WriteGate,
    pub me: ReplicaId,
    pub ending: CancellationToken,
    pub task: JoinHandle<()>,
}

impl Replica {
    pub fn start(name: &str, server: Server) -> Self {
        Self::start_with(name, server, |elector| elector)
    }

    pub fn start_with(
        name: &str,
        server: Server,
        with: impl FnOnce(Elector<Server>) -> Elector<Server>,
    ) -> Self {
        let clock = Clock::runtime();
        let (gate, me, ending) = (WriteGate::leased(clock), ReplicaId::new(name), CancellationToken::new());
        let elector = Elector::new(server.clone(), me.clone(), TIMING, gate.clone(), clock);
        let task = tokio::spawn(with(elector).run(ending.clone()));
        Self { server, gate, me, ending, task }
    }

    pub fn writes(&self) -> bool {
        self.gate.permit().is_ok()
    }

    pub fn role(&self) -> ReplicaRole {
        self.gate.role().borrow().clone()
    }

    /// How long it took to lead.
    pub async fn leads(&self) -> Duration {
        let start = Instant::now();
        self.gate.role().wait_for(|role| role.writes()).await.unwrap();
        assert!(self.writes());
        start.elapsed()
    }

    pub async fn stands_by(&self) {
        self.gate.role().wait_for(|role| !role.writes()).await.unwrap();
        assert!(!self.writes());
    }

    /// The process was killed.
    pub fn killed(&self) {
        self.task.abort();
    }

    pub async fn ended(self) {
        self.ending.cancel();
        self.task.await.unwrap();
    }
}
