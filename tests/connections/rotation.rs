//! Credentials that change while a collector runs, and plugins that provide them.

use std::os::unix::fs::PermissionsExt as _;

use kube_gc_testkit::cluster::poll;
use kube_gc_testkit::{Collector, Options};
use rcgen::PKCS_ECDSA_P256_SHA256;

use super::*;

/// Fails unless the collector deletes what an owner leaves behind.
async fn collects(stage: &Stage) {
    let name = format!("owner-{}", unique());
    let uid = stage.create(&name, json!(null)).await;
    let mut owners = owned_by(&uid);
    owners[0]["name"] = json!(name);
    let dependent = format!("{name}-dependent");
    stage.create(&dependent, owners).await;
    stage.maps.delete(&name, &Default::default()).await.unwrap();
    let is_gone = async || Ok(stage.maps.get_opt(&dependent).await?.is_none());
    poll("the dependent to be collected", is_gone).await.unwrap();
}

/// Starts a collector with this user and sees it collect.
async fn start(stage: &Stage, user: &Value) -> Collector {
    let cluster = json!({ "certificate-authority": stage.path("ca.crt") });
    let kubeconfig = stage.write("kubeconfig", &stage.kubeconfig(&cluster, user).to_string());
    let collector = Collector::start_with(&kubeconfig, Options::default()).await.unwrap();
    collector.ready().await.unwrap();
    collects(stage).await;
    collector
}

/// An exec plugin that notes its calls and prints what is in a file.
fn plugin(stage: &Stage) -> Value {
    let script = "#!/bin/sh\ncd \"${0%/*}\" && echo called >>calls && cat credential\n";
    let path = stage.write("plugin", script);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    json!({ "exec": {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": path,
        "interactiveMode": "Never",
        "provideClusterInfo": true,
    } })
}

fn credential(status: &Value) -> String {
    json!({
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": status,
    })
    .to_string()
}

fn calls(stage: &Stage) -> usize {
    std::fs::read_to_string(stage.path("calls")).unwrap_or_default().lines().count()
}

#[tokio::test]
async fn a_client_certificate_may_be_replaced() {
    let authority = Authority::new();
    let (old, new) = (authority.user(&PKCS_ECDSA_P256_SHA256), authority.user(&PKCS_ECDSA_P256_SHA256));
    let stage = Stage::set(&authority.server(), Accepts::Certificate(old.der.clone())).await;
    stage.write("ca.crt", &authority.pem);
    let (certificate, key) = (stage.path("user.crt"), stage.path("user.key"));
    let files = |pair: &Pair| {
        stage.write("user.crt", &pair.pem);
        stage.write("user.key", &pair.key.serialize_pem());
    };
    files(&old);
    let user = json!({ "client-certificate": certificate, "client-key": key });
    let collector = start(&stage, &user).await;
    files(&new);
    stage.front.accept(Accepts::Certificate(new.der.clone()));
    collects(&stage).await;
    collector.stop().await.unwrap();
}

#[tokio::test]
async fn a_certificate_authority_may_be_replaced() {
    let (old, new) = (Authority::new(), Authority::new());
    let (accepts, user) = token("t");
    let stage = Stage::set(&old.server(), accepts).await;
    stage.write("ca.crt", &old.pem);
    let collector = start(&stage, &user).await;
    stage.write("ca.crt", &format!("{}{}", old.pem, new.pem));
    stage.front.present(&new.server());
    collects(&stage).await;
    collector.stop().await.unwrap();
}

#[tokio::test]
async fn a_plugin_is_asked_again_when_its_token_is_withdrawn() {
    let authority = Authority::new();
    let stage = Stage::set(&authority.server(), Accepts::Token("old")).await;
    stage.write("ca.crt", &authority.pem);
    stage.write("credential", &credential(&json!({ "token": "old" })));
    let collector = start(&stage, &plugin(&stage)).await;
    assert_eq!(calls(&stage), 1);
    stage.write("credential", &credential(&json!({ "token": "new" })));
    stage.front.accept(Accepts::Token("new"));
    collects(&stage).await;
    assert_eq!(calls(&stage), 2);
    collector.stop().await.unwrap();
}

#[tokio::test]
async fn a_plugin_is_asked_once_for_a_command() {
    let authority = Authority::new();
    let user = authority.user(&PKCS_ECDSA_P256_SHA256);
    let certificate = json!({ "clientCertificateData": user.pem, "clientKeyData": user.key.serialize_pem() });
    for (accepts, status) in [
        (Accepts::Token("t"), json!({ "token": "t" })),
        (Accepts::Certificate(user.der.clone()), certificate),
    ] {
        let stage = Stage::set(&authority.server(), accepts).await;
        let ca = stage.write("ca.crt", &authority.pem);
        stage.write("credential", &credential(&status));
        let cluster = json!({ "certificate-authority": ca });
        let kubeconfig = stage.kubeconfig(&cluster, &plugin(&stage)).to_string();
        let kubeconfig = stage.write("kubeconfig", &kubeconfig);
        for command in ["tree configmap/owner", "explain configmap/owner", "check", "plan configmap/owner"] {
            std::fs::remove_file(stage.path("calls")).ok();
            let ran = stage.kube_gc(&kubeconfig, &format!("{command} -n default"), &[]).await;
            assert!(ran.status.success(), "{command}: {}", String::from_utf8_lossy(&ran.stderr));
            assert_eq!(calls(&stage), 1, "{command}");
        }
    }
}

#[tokio::test]
async fn a_collector_whose_credentials_are_refused_says_so() {
    let (accepts, user) = token("t");
    let authority = Authority::new();
    let stage = Stage::set(&authority.server(), accepts).await;
    stage.write("ca.crt", &authority.pem);
    let collector = start(&stage, &user).await;
    stage.front.accept(Accepts::Token("another"));
    let uid = stage.create("refused", json!(null)).await;
    let mut owners = owned_by(&uid);
    owners[0]["name"] = json!("refused");
    stage.create("waiting", owners).await;
    stage.maps.delete("refused", &Default::default()).await.unwrap();
    collector.log_line("refuses the credentials").await.unwrap();
    let ready = collector.get("/readyz?verbose").await.unwrap();
    assert_eq!(ready.status, 200);
    assert!(ready.body.contains("[!]credentials warning: refused since "), "{}", ready.body);
    assert_eq!(collector.metric("kube_gc_credentials_refused").await.unwrap(), 1.0);

    stage.front.accept(Accepts::Token("t"));
    collector.log_line("accepts the credentials again").await.unwrap();
    assert_eq!(collector.metric("kube_gc_credentials_refused").await.unwrap(), 0.0);
    collects(&stage).await;
    assert_eq!(collector.logged("refuses the credentials").len(), 1);
    collector.stop().await.unwrap();
}
