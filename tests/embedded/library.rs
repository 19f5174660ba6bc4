//! The library in the process of somebody else: runtimes that end or are blocked, a paused clock, several
//! collectors.

mod files;
#[path = "../connections/front.rs"]
#[allow(dead_code, reason = "another suite uses the rest")]
mod front;
#[path = "../connections/pki.rs"]
#[allow(dead_code, reason = "another suite uses the rest")]
mod pki;

use std::io::{self, Read as _, Write};
use std::net::TcpStream;
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::Duration;

use futures::{FutureExt as _, TryStreamExt as _};
use kube_gc::k8s_openapi::api::core::v1::ConfigMap;
use kube_gc::kube::api::{DeleteParams, ObjectMeta, PostParams, WatchEvent, WatchParams};
use kube_gc::kube::config::Kubeconfig;
use kube_gc::kube::{Api, Client, Config, Resource as _, ResourceExt as _};
use kube_gc::settings::{
    BesideKubelet, ConfigError, DecisionLines, Encoding, GraphThreads, GroupResource, Listeners, Loader,
    LogFormat, Origin, PodKnowledge, Settings, WatchProtocol,
};
use kube_gc::{Collector, Error, ErrorKind, QueueStatus};
use kube_gc_apiserver::guards::{Admission, Denial, Operation, Verdict};
use kube_gc_apiserver::{ApiServer, Release, Scheme, Serving};
use kube_gc_config::LogSettings;
use kube_gc_observe::telemetry::{Exporter, logging};
use tokio::runtime::Builder;
use tokio::sync::OnceCell;
use tokio::time::timeout;

use front::{Accepts, Front};

/// The longest that anything may take.
const PATIENCE: Duration = Duration::from_secs(60);

fn unique() -> usize {
    1
}

async fn serve(scheme: Scheme) -> (Serving, Config) {
    let server = ApiServer::new(kube_gc_apiserver::Settings::default());
    let serving = server.serve(([127, 0, 0, 1], 0).into(), scheme).await.unwrap();
    let kubeconfig = Kubeconfig::from_yaml(&serving.kubeconfig()).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await.unwrap();
    (serving, config)
}

/// A runtime like that of `#[tokio::test]`.
fn runtime() -> Builder {
    let mut builder = Builder::new_current_thread();
    builder.enable_all();
    builder
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    runtime().build().unwrap().block_on(future)
}

/// Runs a test to its end, on such a runtime. Its clock may be paused, so it cannot measure how long that takes.
fn run(mut runtime: Builder, test: impl Future<Output = ()> + Send + 'static) {
    let (ended, end) = mpsc::channel();
    let running = thread::spawn(move || {
        runtime.build().unwrap().block_on(test);
        ended.send(())
    });
    let hangs = end.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout);
    assert!(!hangs, "it does not end");
    running.join().unwrap().unwrap();
}

/// ConfigMaps, and who is to delete them.
struct Maps(Api<ConfigMap>);

impl Maps {
    fn new(config: &Config) -> Self {
        Self(Api::default_namespaced(Client::try_from(config.clone()).unwrap()))
    }

    async fn create(&self, name: &str, owner: Option<&ConfigMap>) -> ConfigMap {
        let owner_references = owner.map(|owner| owner.owner_ref(&()).into_iter().collect());
        let metadata = ObjectMeta { name: Some(name.to_owned()), owner_references, ..ObjectMeta::default() };
        let object = ConfigMap { metadata, ..ConfigMap::default() };
        self.0.create(&PostParams::default(), &object).await.unwrap()
    }

    /// Creates an owner, returns its dependent, and deletes the owner.
    async fn orphan(&self, name: &str) -> ConfigMap {
        let owner = self.create(&format!("owner-of-{name}"), None).await;
        let dependent = self.create(name, Some(&owner)).await;
        self.0.delete(&owner.name_any(), &DeleteParams::default()).await.unwrap();
        dependent
    }

    /// The same, and waits until the collector has nothing left to do.
    async fn collected(&self, name: &str, collector: &Collector) -> Result<(), Error> {
        self.orphan(name).await;
        let later = self.create(&format!("later-than-{name}"), None).await;
        collector.wait_seen("configmaps", &later.resource_version().unwrap()).await?;
        collector.wait_idle().await?;
        assert!(self.0.get_opt(name).await.unwrap().is_none(), "{name} is left");
        Ok(())
    }

    /// Waits until an object is gone.
    async fn gone(&self, object: &ConfigMap) {
        let version = object.resource_version().unwrap();
        let events = self.0.watch(&WatchParams::default(), &version).await.unwrap();
        let deleted = events.try_filter(|event| {
            let is_it = matches!(event, WatchEvent::Deleted(gone) if gone.name_any() == object.name_any());
            std::future::ready(is_it)
        });
        assert!(std::pin::pin!(deleted).try_next().await.unwrap().is_some(), "the watch has ended");
    }
}

/// Does not compile if a later version cannot add a variant: the last arms are reachable only because it can.
#[test]
#[deny(unreachable_patterns)]
fn errors_may_have_more_variants_in_a_later_version() {
    fn place(error: &ConfigError) -> &'static str {
        match error {
            ConfigError::UnknownKey { origin, .. }
            | ConfigError::Section { origin, .. }
            | ConfigError::BadValue { origin, .. } => match origin {
                Origin::Default | Origin::File(_) | Origin::Variable(_) | Origin::Flag(_) => "a key",
                _ => "later",
            },
            ConfigError::Unreadable { .. } | ConfigError::Syntax { .. } | ConfigError::Other(_) => "a source",
            _ => "later",
        }
    }
    fn blame(kind: ErrorKind) -> &'static str {
        use ErrorKind::*;
        match kind {
            Settings | Argument | Kubeconfig => "the caller",
            Unreachable | Credentials | Forbidden | Address | Internal => "others",
            _ => "later",
        }
    }
    let error = Loader::new().text("[workers]\ndelete = 0").load().unwrap_err();
    assert_eq!((place(&error), blame(ErrorKind::Settings)), ("a key", "the caller"), "{error}");
}

/// As above.
#[test]
#[deny(unreachable_patterns)]
fn settings_may_have_more_values_in_a_later_version() {
    macro_rules! taken {
        ($($value:expr => $known:pat,)*) => {
            [$(match $value { $known => stringify!($value), _ => "later" },)*]
        };
    }
    let Settings { access, client, graph, log, node, .. } = Settings::default();
    let embedded = kube_gc_apiserver::Settings::default().release;
    let taken = taken! {
        access.listeners => Listeners::None | Listeners::Health | Listeners::Debug | Listeners::Both,
        client.encoding => Encoding::Protobuf | Encoding::Json,
        client.watch_protocol => WatchProtocol::Http1 | WatchProtocol::Http2,
        graph.threads => GraphThreads::Auto | GraphThreads::Own | GraphThreads::Shared,
        log.format => LogFormat::Text | LogFormat::Json,
        log.decisions => DecisionLines::Auto | DecisionLines::All | DecisionLines::Summaries | DecisionLines::None,
        node.pods => PodKnowledge::Api | PodKnowledge::None,
        node.beside_kubelet => BesideKubelet::Nothing | BesideKubelet::Images | BesideKubelet::All,
        embedded => Release::V1_20 | Release::V1_36,
        Scheme::Http => Scheme::Http | Scheme::Https,
    };
    assert!(!taken.contains(&"later"), "{taken:?}");
}

#[test]
fn one_collector_serves_runtimes_that_come_and_go() {
    static COLLECTOR: OnceCell<Collector> = OnceCell::const_new();
    let (_serving, config) = block_on(serve(Scheme::Http));
    for name in ["first", "second", "third"] {
        let config = config.clone();
        run(runtime(), async move {
            let start = || async { Collector::builder(config.clone()).start().await.unwrap() };
            let collector = COLLECTOR.get_or_init(start).await;
            Maps::new(&config).collected(name, collector).await.unwrap();
        });
    }
}

#[test]
fn a_test_that_blocks_its_thread_does_not_stop_collection() {
    let (_serving, config) = block_on(serve(Scheme::Http));
    run(runtime(), async move {
        let collector = Collector::builder(config.clone()).start().await.unwrap();
        let dependent = Maps::new(&config).orphan("dependent").await;
        // As a test does that runs a program to its end.
        let program = thread::spawn(move || {
            let gone = async { timeout(PATIENCE, Maps::new(&config).gone(&dependent)).await };
            block_on(gone)
        });
        program.join().unwrap().expect("the dependent goes");
        collector.stop().await.unwrap();
    });
}

#[test]
fn a_collector_whose_client_has_lost_its_runtime_says_so() {
    let (_serving, config) = block_on(serve(Scheme::Http));
    let first = runtime().build().unwrap();
    let client = first.block_on(async { Client::try_from(config.clone()).unwrap() });
    let collector = first.block_on(async {
        let collector = Collector::builder_with_client(client.clone()).start().await.unwrap();
        collector.wait_idle().await.unwrap();
        collector
    });
    drop(first);
    run(runtime(), async move {
        let waited = Maps::new(&config).collected("dependent", &collector).await.unwrap_err();
        let stopped = collector.stop().await.unwrap_err();
        let started = Collector::builder_with_client(client).start().await.unwrap_err();
        for error in [waited, stopped, started] {
            assert!(
                error.to_string().contains("the runtime on which the client was made has ended"),
                "{error}"
            );
        }
    });
}

#[test]
fn a_paused_clock_stands_still_as_long_as_somebody_waits() {
    let mut paused = runtime();
    paused.start_paused(true);
    run(paused, async {
        let second = Duration::from_secs(1);
        let client = ApiServer::new(kube_gc_apiserver::Settings::default()).client();
        let collector = timeout(second, Collector::builder_with_client(client).start()).await;
        let collector = collector.expect("it stands still during the start").unwrap();
        timeout(second, collector.wait_idle()).await.expect("and during the wait").unwrap();
        // The end of a wait that is given up is not missed.
        assert!(collector.wait_seen("configmaps", "999999").now_or_never().is_none());
        tokio::time::sleep(3600 * second).await;
        assert!(timeout(second, collector.status()).await.expect("for an answer").unwrap().ready);
        timeout(second, collector.stop()).await.expect("and for the end").unwrap();
    });
}

/// A server with an address and a collector, whose deletions the server admits a moment later.
#[test]
fn a_served_address_needs_nothing_of_the_runtime_that_began_to_serve_it() {
    let server = ApiServer::new(kube_gc_apiserver::Settings::default());
    let (sender, served) = mpsc::channel();
    let serving = server.clone();
    run(runtime(), async move {
        let serving = serving.serve(([127, 0, 0, 1], 0).into(), Scheme::Http).await.unwrap();
        sender.send(serving).unwrap();
    });
    let serving = served.recv().unwrap();
    server.admit_by(Some(Admission::new(|review| {
        if review.operation != Operation::Delete {
            return Verdict::Allow;
        }
        Verdict::Wait(Box::pin(async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            Verdict::Allow
        }))
    })));
    let config = Config::new(serving.url().parse().unwrap());
    let (address, mut paused) = (serving.address(), runtime());
    paused.start_paused(true);
    run(paused, async move {
        let collector = Collector::builder(config.clone()).start().await.unwrap();
        Maps(Api::default_namespaced(server.client())).collected("dependent", &collector).await.unwrap();
        // As a program does for which a test waits.
        let mut connection = TcpStream::connect(address).unwrap();
        connection.set_read_timeout(Some(PATIENCE)).unwrap();
        connection.write_all(b"GET /version HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.0 200"), "{answer}");
        collector.stop().await.unwrap();
        drop(serving);
        while TcpStream::connect(address).is_ok() {}
    });
}

/// The log of this process.
static LOG: Mutex<String> = Mutex::new(String::new());

struct Log;

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LOG.lock().unwrap().push_str(std::str::from_utf8(bytes).unwrap());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn log(filter: &str) {
    let mut settings = LogSettings::default();
    settings.filter = filter.to_owned();
    let subscriber = logging::subscriber(&settings, false, || Log).unwrap();
    tracing::subscriber::set_global_default(subscriber).unwrap();
}

/// The lines of the log with this text.
fn lines(text: &str) -> Vec<String> {
    LOG.lock().unwrap().lines().filter(|line| line.contains(text)).map(str::to_owned).collect()
}

async fn until(what: &str, condition: impl AsyncFn() -> bool) {
    let holds = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, holds).await.expect(what);
}

/// How many connections of this machine to a port of it are open.
fn connections(port: u16) -> usize {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let remote = format!(" 0100007F:{port:04X} 01 ");
    table.lines().filter(|line| line.contains(&remote)).count()
}

#[tokio::test]
async fn the_status_says_why_a_write_fails() {
    let server = ApiServer::new(kube_gc_apiserver::Settings::default());
    let collector = Collector::builder_with_client(server.client()).start().await.unwrap();
    collector.wait_idle().await.unwrap();
    server.admit_by(Some(Admission::new(|review| match review.object.name() {
        "kept" if review.operation == Operation::Delete => {
            Denial { message: "the shop is closed".to_owned(), ..Denial::default() }.into()
        }
        _ => Verdict::Allow,
    })));
    Maps(Api::default_namespaced(server.client())).orphan("kept").await;
    let is_why =
        |queue: &QueueStatus| queue.last_error.as_ref().is_some_and(|why| why.contains("the shop is closed"));
    until("it is said", async || collector.status().await.unwrap().queues.iter().any(is_why)).await;
    collector.stop().await.unwrap();
}

#[tokio::test]
async fn the_status_says_that_the_server_is_gone() {
    let (serving, config) = serve(Scheme::Http).await;
    let collector = Collector::builder(config).start().await.unwrap();
    collector.wait_idle().await.unwrap();
    assert_eq!(collector.status().await.unwrap().problems, [""; 0]);
    drop(serving);
    let gone = |problem: &String| {
        problem.starts_with("api-server: unreachable: ") && problem.contains("cannot connect")
    };
    until("it is said", async || collector.status().await.unwrap().problems.iter().any(gone)).await;
    collector.stop().await.unwrap();
}

#[tokio::test]
async fn several_collectors_in_a_process_are_told_apart() {
    log("info,kube_gc_client=debug");
    let exporter = Exporter::install().unwrap();

    // One server offers HTTP/2, the other does not.
    let (serving, _) = serve(Scheme::Http).await;
    let pair = pki::self_signed(false);
    let front = Front::start(serving.address(), &pair, Accepts::Token("known")).await;
    let mut one = Config::new(format!("https://{}", front.address).parse().unwrap());
    one.root_cert = Some(vec![pair.der.to_vec()]);
    one.auth_info.token = Some("known".to_owned().into());
    let (other_serving, other) = serve(Scheme::Https).await;
    let mut settings: Settings = Loader::new().text("[log]\ndecisions = \"all\"").load().unwrap();
    let start = async |config: &Config, name: &str, settings: &Settings| {
        let builder = Collector::builder(config.clone()).name(name).settings(settings.clone());
        let collector = builder.start().await.unwrap();
        Maps::new(config).collected(&format!("dependent-of-{name}"), &collector).await.unwrap();
        collector
    };
    let first = start(&one, "one", &settings).await;
    settings.discovery.ignored.push(GroupResource::parse("secrets"));
    let second = start(&other, "other", &settings).await;

    let (types, fewer) = (first.status().await.unwrap().resources.len(), second.status().await.unwrap());
    assert_eq!(fewer.resources.len(), types - 1);
    for (name, types) in [("one", types), ("other", types - 1)] {
        let gauge = format!("kube_gc_monitors{{state=\"synced\",collector=\"{name}\"}} {types}\n");
        until(&gauge, async || exporter.render().contains(&gauge)).await;
    }

    for (name, server) in [("one", front.address), ("other", other_serving.address())] {
        let span = format!(" collector{{name=\"{name}\" server=\"{server}\"}}: ");
        let of_it = lines(&format!("/dependent-of-{name} ("));
        assert!(!of_it.is_empty() && of_it.iter().all(|line| line.contains(&span)), "{of_it:?}");
    }
    // A line of the thread of watches.
    let watches = lines("each watch has its own connection");
    assert!(watches.iter().all(|line| line.contains("collector{name=\"other\"")), "{watches:?}");
    assert_eq!(watches.len(), 1, "{watches:?}");

    let few = "few connections by HTTP/2";
    until(few, async || connections(front.address.port()) <= 10).await;
    assert!(connections(other_serving.address().port()) >= types - 1, "a watch of each type");
    first.stop().await.unwrap();
    for gauge in ["ready{", "api_server_reachable{", "monitors{state=\"synced\","] {
        let value = |name| format!("kube_gc_{gauge}collector=\"{name}\"}} ");
        let page = exporter.render();
        assert!(page.contains(&format!("{}0\n", value("one"))), "{gauge}: {page}");
        assert!(!page.contains(&format!("{}0\n", value("other"))), "{gauge}: {page}");
    }
    second.stop().await.unwrap();
}
