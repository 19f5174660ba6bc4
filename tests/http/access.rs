//! Tokens of service accounts with and without rights.

use anyhow::{Context as _, Result, ensure};

use crate::http::accounts::Accounts;
use crate::http::client::{Client, Files, Pair};
use kube_gc_testkit::cluster::poll;
use kube_gc_testkit::collector::parse_metrics;
use kube_gc_testkit::{Cluster, Collector, Options, Server, Turn};

kube_gc_testkit::scenarios! {
    the_cluster_authorizes_readers,
}

/// In a dry run and on a standby, too, because reviews are not writes.
async fn the_cluster_authorizes_readers() -> Result<()> {
    let turn = Turn::take().await?;
    let plane = turn.plane();
    let cluster = Cluster::new(plane.client().await?);
    let namespace = cluster.namespace().await?;
    let accounts = Accounts { namespace: namespace.name().to_owned(), cluster };
    accounts.create("prometheus", Some("/metrics")).await?;
    accounts.create("person", Some("/debug/*")).await?;
    accounts.create("nobody", None).await?;
    let prometheus = accounts.token("prometheus", 3600).await?;
    let person = accounts.token("person", 3600).await?;
    let nobody = accounts.token("nobody", 3600).await?;
    let later = accounts.token("prometheus", 7200).await?;
    ensure!(later != prometheus);

    let pair = Pair::new()?;
    let files = Files::new(&pair)?;
    let config = files.config("both") + "[access]\nlisteners = \"both\"\n[log]\nfilter = \"trace\"\n";
    let options = Options::config(config).arg("--dry-run");
    let collector = Collector::start(plane, options).await?;
    let client = Client::trusting(&[&pair])?;
    let (health, debug) = (collector.health_address(), collector.debug_address());
    poll("readiness, which takes no token", async || {
        Ok(client.get(health, "/readyz", None).await?.status == 200)
    })
    .await?;

    // A token with the signature of another one.
    let (unsigned, _) = prometheus.rsplit_once('.').context("no JWT")?;
    let forged = format!("{unsigned}.{}", nobody.rsplit_once('.').context("no JWT")?.1);
    for (address, path, [scraper, reader]) in
        [(health, "/metrics", [200, 403]), (debug, "/debug/graph", [403, 200])]
    {
        for (who, token, expected) in [
            ("prometheus", Some(prometheus.as_str()), scraper),
            ("person", Some(person.as_str()), reader),
            ("nobody", Some(nobody.as_str()), 403),
            ("no token", None, 401),
            ("a made-up token", Some("garbage"), 401),
            ("a forged token", Some(forged.as_str()), 401),
        ] {
            let answer = client.get(address, path, token).await?;
            ensure!(answer.status == expected, "{who} got {path}: {answer:?}");
            match expected {
                401 => {
                    ensure!(
                        answer.headers["www-authenticate"].to_str()?.starts_with("Bearer "),
                        "{answer:?}"
                    );
                }
                403 => {
                    let name = format!("system:serviceaccount:{}:{who}", accounts.namespace);
                    ensure!(answer.body.starts_with(&format!("{name} may not get {path}")), "{answer:?}");
                }
                _ => {}
            }
        }
    }
    ensure!(client.get(health, "/", Some(&prometheus)).await?.status == 403, "only its path");

    let metrics = parse_metrics(&client.get(health, "/metrics", Some(&prometheus)).await?.body);
    for (listener, reason, count) in [
        ("health", "unauthenticated", 3.0),
        ("health", "forbidden", 3.0),
        ("debug", "unauthenticated", 3.0),
        ("debug", "forbidden", 2.0),
    ] {
        let series = format!("kube_gc_http_refusals_total{{listener=\"{listener}\",reason=\"{reason}\"}}");
        ensure!(metrics.get(&series) == Some(&count), "{series}: {:?}", metrics.get(&series));
    }

    // Only identities that the API server has confirmed are admitted.
    plane.kill(Server::KubeApiserver)?;
    let answer = client.get(health, "/metrics", Some(&later)).await;
    let probe = client.get(health, "/livez", None).await;
    plane.restart(Server::KubeApiserver).await?;
    let answer = answer?;
    ensure!(answer.status == 503 && answer.headers.contains_key("retry-after"), "{answer:?}");
    ensure!(probe?.status == 200);
    poll("the API server to be asked", async || {
        Ok(client.get(health, "/metrics", Some(&later)).await?.status == 200)
    })
    .await?;

    let metrics = client.get(health, "/metrics", Some(&later)).await?.body;
    let unavailable = parse_metrics(&metrics)
        .get("kube_gc_http_refusals_total{listener=\"health\",reason=\"unavailable\"}")
        .copied();
    ensure!(unavailable.is_some_and(|count| count >= 1.0), "{unavailable:?}");

    collector.log_line("the API server answers reviews again").await?;
    for token in [&prometheus, &person, &nobody, &later, &forged] {
        let signature = token.rsplit_once('.').context("no JWT")?.1;
        ensure!(collector.logged(signature).is_empty(), "a token was logged");
    }
    collector.stop().await
}
