//! Certificates that change, and certificates that cannot be used.

use std::process::{Command, Stdio};

use anyhow::{Result, ensure};

use crate::http::client::{Client, Files, Pair};
use kube_gc_testkit::cluster::poll;
use kube_gc_testkit::{Collector, Options, Turn};

kube_gc_testkit::scenarios! {
    a_certificate_is_replaced_while_connections_stay_open,
    unusable_certificate_files_are_an_error_at_startup,
}

async fn a_certificate_is_replaced_while_connections_stay_open() -> Result<()> {
    let turn = Turn::take().await?;
    let plane = turn.plane();
    let (first, second) = (Pair::new()?, Pair::new()?);
    let files = Files::new(&first)?;
    let collector = Collector::start(plane, Options::config(files.config("health"))).await?;
    let address = collector.health_address();
    let client = Client::trusting(&[&first, &second])?;
    let mut old = client.connect(address).await?;
    ensure!(old.showed(&first));
    ensure!(old.get("/livez", None).await?.status == 200);
    ensure!(collector.get_debug("/debug/queues").await?.status == 200, "in the clear, as it is set");

    ensure!(collector.get("/livez").await.is_err(), "and this one is not");

    files.set(&second)?;
    poll("the second certificate", async || Ok(client.connect(address).await?.showed(&second))).await?;
    ensure!(old.get("/livez", None).await?.status == 200, "the old connection");
    // Metrics are updated a moment after an event.
    for line in [
        "kube_gc_tls_reloads_total{result=\"loaded\"} 1",
        "kube_gc_tls_certificate_stale 0",
        "kube_gc_http_refusals_total{listener=\"health\",reason=\"handshake\"} 1",
    ] {
        poll(line, async || {
            let metrics = client.get(address, "/metrics", None).await?.body;
            Ok(metrics.contains(&format!("\n{line}\n")))
        })
        .await?;
    }
    collector.stop().await
}

/// The check needs no API server.
async fn unusable_certificate_files_are_an_error_at_startup() -> Result<()> {
    let (one, other) = (Pair::new()?, Pair::new()?);
    let files = Files::new(&one)?;
    files.set_key(&other)?;
    let config = tempfile::NamedTempFile::new()?;
    std::fs::write(&config, files.config("debug"))?;
    let output = Command::new(env!("CARGO_BIN_EXE_kube-gc"))
        .args(["run", "--kubeconfig", "/nonexistent", "--config"])
        .arg(config.path())
        .stdin(Stdio::null())
        .output()?;
    let errors = String::from_utf8(output.stderr)?;
    ensure!(output.status.code() == Some(2), "{errors}");
    for part in ["(`tls.key`)", "(`tls.certificate`)", "/tls.key", "/tls.crt"] {
        ensure!(errors.contains(part), "{errors}");
    }
    Ok(())
}
