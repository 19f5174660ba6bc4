//! The Metrics actor: samples what cannot be counted when it happens.

use std::time::Duration;

use actix::{Actor, ActorFutureExt as _, AsyncContext as _, Context, WrapFuture as _};

use super::supervision::task;

/// The interval at which gauges are set. Prometheus scrapes less often.
const EVERY: Duration = Duration::from_secs(1);

/// What the actor samples.
pub trait Sample: Clone + Send + Unpin + 'static {
    fn sample(&mut self) -> impl Future<Output = ()> + Send;
}

/// Exports queue depths, the size of the graph and the state of the monitors.
#[derive(Debug)]
pub struct MetricsActor<S>(pub S);

impl<S: Sample> MetricsActor<S> {
    fn sample(&mut self, ctx: &mut Context<Self>) {
        let mut sampler = self.0.clone();
        let sampling = task(async move {
            sampler.sample().await;
            sampler
        });
        let sampling = sampling.into_actor(self).map(|sampled, actor: &mut Self, ctx| {
            match sampled {
                Ok(sampler) => actor.0 = sampler,
                Err(error) => tracing::error!(
                    %error,
                    "cannot sample the metrics of queues, types and graph; kube-gc tries again"
                ),
            }
            // A delay, not a fixed schedule: samples that were missed during a pause are not made up for.
            ctx.run_later(EVERY, Self::sample);
        });
        ctx.spawn(sampling);
    }
}

impl<S: Sample> Actor for MetricsActor<S> {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.run_later(EVERY, Self::sample);
    }
}
