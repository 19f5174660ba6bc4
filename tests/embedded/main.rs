//! `kubectl` works with the embedded server as with any other, and so does the library.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod library;

use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::time::{Duration, SystemTime};

use kube_gc_apiserver::{ApiServer, Release, Scheme, Serving, Settings};
use kube_gc_testkit::controller_manager::binaries;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;
use tokio::time::{Instant, timeout};

const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: web}]}
";

const CRD: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: toys.shop.example}
spec:
  group: shop.example
  scope: Namespaced
  names: {plural: toys, kind: Toy, shortNames: [ty]}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
";

const TOY: &str = "
apiVersion: shop.example/v1
kind: Toy
metadata: {name: ball}
spec: {colour: red}
";

/// How long a command may take, and what follows from it.
const PATIENCE: Duration = Duration::from_secs(60);

/// An embedded server on an address, and kubectl for it.
struct Kubectl {
    server: ApiServer,
    serving: Serving,
    /// The kubeconfig, kubectl's cache and the manifests.
    directory: TempDir,
    binary: PathBuf,
}

impl Kubectl {
    async fn start(release: Release, scheme: Scheme) -> Self {
        let shipped = binaries(&[]).unwrap().join("kubectl");
        let binary = if shipped.exists() { shipped } else { "kubectl".into() };
        let server = ApiServer::new(Settings { release, epoch: SystemTime::now(), ..Settings::default() });
        let serving = server.serve(([127, 0, 0, 1], 0).into(), scheme).await.unwrap();
        let kubectl = Self { server, serving, directory: TempDir::new().unwrap(), binary };
        kubectl.file("kubeconfig", &kubectl.serving.kubeconfig());
        kubectl
    }

    /// Writes a file with this content.
    fn file(&self, name: &str, content: &str) -> String {
        let path = self.directory.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.display().to_string()
    }

    fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(&self.binary);
        command.arg("--kubeconfig").arg(self.directory.path().join("kubeconfig"));
        // Its caches are stored by the address of the server, and addresses are used again.
        command.arg("--cache-dir").arg(self.directory.path().join("cache"));
        command.args(arguments.split_whitespace()).stdin(Stdio::null()).kill_on_drop(true);
        command
    }

    async fn output(&self, arguments: &str) -> Output {
        timeout(PATIENCE, self.command(arguments).output()).await.expect(arguments).unwrap()
    }

    /// The output of a command, which must succeed.
    async fn run(&self, arguments: &str) -> String {
        let output = self.output(arguments).await;
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "kubectl {arguments}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The words of the output lines after the heading.
    async fn rows(&self, arguments: &str) -> Vec<Vec<String>> {
        let table = self.run(arguments).await;
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect();
        table.lines().skip(1).map(words).collect()
    }

    /// The error output of a command, which must fail.
    async fn refused(&self, arguments: &str) -> String {
        let output = self.output(arguments).await;
        assert!(!output.status.success(), "kubectl {arguments} succeeded");
        String::from_utf8(output.stderr).unwrap()
    }

    /// Repeats a command until it succeeds, or until it fails.
    async fn until(&self, arguments: &str, succeeds: bool) {
        let deadline = Instant::now() + PATIENCE;
        while self.output(arguments).await.status.success() != succeeds {
            assert!(Instant::now() < deadline, "kubectl {arguments}");
        }
    }
}

async fn works(release: Release, scheme: Scheme) {
    let kubectl = Kubectl::start(release, scheme).await;
    let deployment = kubectl.file("deployment.yaml", DEPLOYMENT);

    assert_eq!(kubectl.rows("get namespaces").await[0][..2], ["default", "Active"]);
    kubectl.run(&format!("create -f {deployment}")).await;
    let again = kubectl.refused(&format!("create -f {deployment}")).await;
    assert!(again.contains("(AlreadyExists)"), "{again}");
    assert_eq!(kubectl.rows("get deploy").await[0][..2], ["web", "0/2"]);
    assert!(kubectl.run("get all").await.contains("deployment.apps/web"));
    assert!(kubectl.run("describe deployment web").await.contains("2 desired"));

    kubectl.run("label deployment web tier=front").await;
    kubectl.run(r#"patch deployment web -p {"metadata":{"annotations":{"a":"b"}}}"#).await;
    kubectl.run(&format!("apply --server-side=false -f {deployment}")).await;
    let shown =
        kubectl.run("get deployment -l tier=front -o jsonpath={.items[0].metadata.annotations.a}").await;
    assert_eq!(shown, "b");
    assert!(kubectl.run("get deployment -l tier=back -o name").await.is_empty());

    for (policy, finalizer) in [("foreground", r#"["foregroundDeletion"]"#), ("orphan", r#"["orphan"]"#)] {
        kubectl.run(&format!("delete deployment web --cascade={policy} --wait=false")).await;
        let shown = kubectl.run("get deployment web -o jsonpath={.metadata.finalizers}").await;
        assert_eq!(shown, finalizer);
    }
    let patch = r#"patch deployment web --type=json -p [{"op":"remove","path":"/metadata/finalizers"}]"#;
    kubectl.run(patch).await;
    let gone = kubectl.refused("get deployment web").await;
    assert!(gone.contains("(NotFound)"), "{gone}");

    // kubectl sends these objects in protobuf.
    kubectl.run("create namespace home").await;
    kubectl.run("create configmap settings --namespace home --from-literal=a=b").await;
    kubectl.run("create secret generic key --namespace home --from-literal=a=b").await;
    kubectl.run("create serviceaccount worker --namespace home").await;
    assert_eq!(kubectl.rows("get configmaps -A").await[0][..2], ["home", "settings"]);
    // `kubectl delete` waits for the end of the deletion with a watch.
    kubectl.run("delete namespace home").await;
    assert!(kubectl.refused("get namespace home").await.contains("(NotFound)"));
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_works_by_https_with_a_new_server() {
    works(Release::V1_36, Scheme::Https).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_works_by_http_with_an_old_server() {
    works(Release::V1_20, Scheme::Http).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn custom_resources_can_be_created_and_deleted() {
    let kubectl = Kubectl::start(Release::V1_36, Scheme::Http).await;
    let (crd, toy) = (kubectl.file("crd.yaml", CRD), kubectl.file("toy.yaml", TOY));
    kubectl.run(&format!("apply -f {crd}")).await;
    kubectl.run("wait --for=condition=Established crd/toys.shop.example").await;
    kubectl.run(&format!("create -f {toy}")).await;
    assert_eq!(kubectl.rows("get ty").await[0][..1], ["ball"]);
    kubectl.run("delete crd toys.shop.example").await;
    // The definition is gone before the type is no longer served.
    kubectl.until("get toys.shop.example", false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_shows_changes_as_they_happen() {
    let kubectl = Kubectl::start(Release::V1_36, Scheme::Https).await;
    let mut watch = kubectl.command("get namespaces --watch --no-headers");
    let mut watch = watch.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut next = async || {
        let line = timeout(PATIENCE, lines.next_line()).await.expect("no line").unwrap().unwrap();
        line.split_whitespace().take(2).map(str::to_owned).collect::<Vec<_>>()
    };
    while next().await != ["kube-system", "Active"] {}
    kubectl.run("create namespace home").await;
    assert_eq!(next().await, ["home", "Active"]);
    kubectl.run("delete namespace home --wait=false").await;
    assert_eq!(next().await, ["home", "Terminating"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_server_serves_nothing() {
    let kubectl = Kubectl::start(Release::V1_36, Scheme::Http).await;
    kubectl.run("get namespaces").await;
    let Kubectl { serving, server, .. } = kubectl;
    let address = serving.address();
    serving.stop().await;
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
    // The server itself continues, and can be served again at once.
    server.serve(address, Scheme::Http).await.unwrap();
}
