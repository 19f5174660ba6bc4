//! Objects with thousands of owner references. The API server accepts them from any tenant who
//! may create ConfigMaps.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::contestants::process::Process;
use crate::figure::Contestant;
use crate::objects::{Mode, config_map, make_all, make_family, make_namespace};
use crate::observe::emptied;
use crate::row::Measured;
use crate::stage::Stage;
use crate::statistics::Spread;

/// The number of these objects.
pub const OBJECTS: usize = 20;
/// How many cascades are measured before they are created.
const QUIET_CASCADES: usize = 20;
/// The number of dependents of each cascade.
const DEPENDENTS: usize = 10;
/// The interval between cascades.
const PAUSE: Duration = Duration::from_secs(1);

/// The number of references of each object: 8,000 at the usual size.
pub const fn references(objects: usize) -> usize {
    objects * 2
}

/// How long the collector is observed: a minute at the usual size.
const fn window(objects: usize) -> Duration {
    Duration::from_millis(objects as u64 * 15)
}

/// The owners that the references name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owners {
    /// Objects of a kind that is not served.
    Unserved,
    /// Objects of a served kind that do not exist.
    Absent,
    /// Objects that exist.
    Living,
}

/// Measures one collector: cascades in another namespace, before and after the objects are
/// created.
pub async fn measure(
    stage: &Stage,
    contestant: Contestant,
    namespace: &str,
    owners: Owners,
) -> Result<Measured> {
    let collector = stage.collector_at_rest(contestant, namespace).await?;
    let collector = collector.context("the limit collects no garbage of others")?;
    cascades(stage, &collector, namespace, owners).await
}

/// Measures a standby, beside the leader.
pub async fn measure_standby(stage: &Stage, namespace: &str) -> Result<Measured> {
    let (_leader, standby) = stage.replicas_at_rest(namespace).await?;
    cascades(stage, &standby, namespace, Owners::Unserved).await
}

async fn cascades(stage: &Stage, collector: &Process, namespace: &str, owners: Owners) -> Result<Measured> {
    let other = format!("{namespace}-others");
    make_namespace(&stage.client, &other).await?;
    let owners = references_to(stage, namespace, owners).await?;
    collector.quiet().await?;

    let mut quiet = Vec::new();
    for number in 0..QUIET_CASCADES {
        quiet.push(cascade(stage, &other, &format!("quiet-{number}")).await?);
    }
    collector.quiet().await?;

    let before = Before::of(collector)?;
    let bodies = (0..OBJECTS).map(|number| config_map(&format!("fat-{number}"), Some(&owners)));
    make_all(&stage.client, bodies.map(|body| (namespace.to_owned(), body))).await?;
    let mut beside = Vec::new();
    while before.at.elapsed() < window(stage.scale.objects) {
        beside.push(cascade(stage, &other, &format!("beside-{}", beside.len())).await?);
        sleep(PAUSE).await;
    }
    let cost = before.until_now(collector)?;

    let quiet = Spread::of(&quiet).context("no quiet cascade")?.median;
    let beside = Spread::of(&beside).context("no cascade beside the references")?;
    let mut measured = vec![
        ("quiet", quiet),
        ("beside", beside.median),
        ("slower", beside.median / quiet),
        ("worst", beside.max),
    ];
    measured.extend(cost);
    Ok(measured)
}

/// The seconds from an owner's DELETE until its dependents are gone.
async fn cascade(stage: &Stage, namespace: &str, name: &str) -> Result<f64> {
    let family = make_family(&stage.client, namespace, name, DEPENDENTS).await?;
    let begun = Instant::now();
    stage.client.send(family.owner.deletion(Mode::Background)).await?.success()?;
    let end = emptied(&stage.client, namespace, DEPENDENTS + 1).await?;
    Ok((end - begun).as_secs_f64())
}

/// The references of one object. Owners that must exist are created.
async fn references_to(stage: &Stage, namespace: &str, owners: Owners) -> Result<Value> {
    let count = references(stage.scale.objects);
    let name = |number: usize| format!("owner-{number}");
    let reference = |api_version: &str, kind: &str, name: &str, uid: &str| json!({ "apiVersion": api_version, "kind": kind, "name": name, "uid": uid });
    let uid = |number: usize| format!("00000000-0000-4000-8000-{number:012}");
    Ok(match owners {
        Owners::Unserved => (0..count)
            .map(|number| reference("unserved.example.com/v1", "Nothing", &name(number), &uid(number)))
            .collect(),
        Owners::Absent => {
            (0..count).map(|number| reference("v1", "ConfigMap", &name(number), &uid(number))).collect()
        }
        Owners::Living => {
            let bodies = (0..count).map(|number| config_map(&name(number), None));
            let made = make_all(&stage.client, bodies.map(|body| (namespace.to_owned(), body))).await?;
            made.iter().map(|owner| reference("v1", "ConfigMap", &owner.name, &owner.uid)).collect()
        }
    })
}

/// The cost of a collector before the objects were created.
struct Before {
    at: Instant,
    resident: f64,
    cpu: Duration,
    logged: usize,
}

impl Before {
    fn of(collector: &Process) -> Result<Self> {
        collector.forget_peak()?;
        Ok(Self {
            at: Instant::now(),
            resident: collector.memory()?.resident,
            cpu: collector.cpu()?,
            logged: collector.logged_bytes(),
        })
    }

    /// The cost since then.
    #[allow(clippy::cast_precision_loss)]
    fn until_now(&self, collector: &Process) -> Result<Measured> {
        let minutes = self.at.elapsed().as_secs_f64() / 60.0;
        let logged = (collector.logged_bytes() - self.logged) as f64 / 1e6;
        let cpu = (collector.cpu()? - self.cpu).as_secs_f64();
        Ok(vec![
            ("growth", collector.memory()?.peak - self.resident),
            ("log", logged / minutes),
            ("cpu", cpu / minutes),
        ])
    }
}
