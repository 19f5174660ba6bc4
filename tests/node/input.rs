//! Bad input: a clear error each, the documented exit code, and nothing removed.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;

use anyhow::{Result, ensure};
use kube_gc_cri::Rpc;
use kube_gc_cri::server::{Code, CriServer, Effect, Fault, NewImage, Settings, World};
use kube_gc_node::Rules;
use tokio::process::Command;

use crate::measurable;
use crate::process::{Place, ended};

/// A runtime with one pod that has three dead containers.
pub fn runtime() -> Result<CriServer> {
    let mut world = World::default();
    let image = world.add_image(NewImage { tags: vec!["app:1".to_owned()], ..NewImage::default() });
    world.add_crashed(&image, 3);
    Ok(CriServer::start(measurable(), world)?)
}

/// Fails if anything was removed.
fn untouched(server: &CriServer) -> Result<()> {
    ensure!(server.calls(Rpc::RemoveContainer).is_empty() && server.calls(Rpc::RemoveImage).is_empty());
    ensure!(server.world(|world| world.containers().count()) == 3);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_socket_it_says_where_it_looked() -> Result<()> {
    let place = Place::at("/run/no/such.sock")?;
    for subcommand in ["plan", "once", "run"] {
        let ended = place.run(&[subcommand]).await?;
        ended.expect(4, &["/run/no/such.sock", "--runtime-endpoint"])?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_path_that_is_no_socket_of_a_runtime_is_named() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("file");
    fs::write(&file, "")?;
    let place = Place::at(&format!("unix://{}", file.display()))?;
    // Before a kubeconfig, which is needless then.
    place.run(&["once", "--pods", "api"]).await?.expect(2, &["is not a socket"])?;

    // Something accepts connections and closes them.
    let socket = directory.path().join("socket");
    let listener = UnixListener::bind(&socket)?;
    std::thread::spawn(move || listener.incoming().for_each(drop));
    let place = Place::at(&format!("unix://{}", socket.display()))?;
    place.run(&["once"]).await?.expect(2, &["does not serve the container runtime interface"])?;

    let place = Place::at("tcp://127.0.0.1:1")?;
    place.run(&["once"]).await?.expect(2, &["node.runtime_endpoint", "config.toml", "tcp://127.0.0.1:1"])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_without_permission_is_named() -> Result<()> {
    let server = runtime()?;
    fs::set_permissions(server.endpoint().path(), fs::Permissions::from_mode(0o000))?;
    let place = Place::new(server.endpoint())?;
    // Root may open everything, unless it has lost this capability.
    let plain = place.command(&["once"]);
    let mut command = Command::new("setpriv");
    if rustix::process::geteuid().is_root() {
        command.arg("--bounding-set=-dac_override,-dac_read_search");
    }
    command.arg(plain.as_std().get_program()).args(plain.as_std().get_args());
    command.env_remove("KUBERNETES_SERVICE_HOST").kill_on_drop(true);
    ended(command).await?.expect(6, &["no permission to use the socket"])?;
    untouched(&server)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_state_file_is_a_warning_and_all_images_are_new() -> Result<()> {
    let server = runtime()?;
    let place = Place::new(server.endpoint())?;
    for content in ["{\"version\":1,\"images\":{", "\0\0\0", "{\"version\":99}"] {
        fs::write(place.state(), content)?;
        let ended = place.run(&["once"]).await?;
        ended.expect(0, &["state.json", "count as first seen now"])?;
        ensure!(fs::read_to_string(place.state())?.contains("first_detected"), "not written anew");
    }
    ensure!(server.calls(Rpc::RemoveImage).is_empty());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn thresholds_that_make_no_sense_are_refused_with_key_and_file() -> Result<()> {
    let server = runtime()?;
    let place = Place::new(server.endpoint())?;
    for (line, key, allowed) in [
        ("low = 90", "node.low", "below `node.high`"),
        ("high = 0", "node.high", "from 1 to 100"),
        ("high = 300", "node.high", "from 1 to 100"),
        ("max_total = -2", "node.max_total", "from -1"),
        ("period = \"0s\"", "node.period", "\"1s\""),
        ("images.keep = [\"a b\"]", "node.images.keep", "without spaces and commas"),
        ("pressure.bytes = 100", "node.pressure.bytes", "from 0 to 99"),
        ("pods = \"some\"", "", "duplicate"),
        ("images.kep = []", "node.images.kep", "did you mean `node.images.keep`"),
    ] {
        place.configure(line)?;
        for subcommand in ["plan", "once", "run"] {
            let ended = place.run(&[subcommand]).await?;
            ended.expect(2, &[key, allowed, "config.toml"])?;
        }
    }
    untouched(&server)
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_api_server_it_says_how_to_do_without() -> Result<()> {
    let server = runtime()?;
    let place = Place::new(server.endpoint())?;
    let with = async |kubeconfig: &str| {
        let mut command = place.command(&["once"]);
        command.args(["--pods", "api", "--kubeconfig", kubeconfig]);
        ended(command).await
    };
    with("/no/such/kubeconfig").await?.expect(3, &["/no/such/kubeconfig", "--pods none"])?;
    let kubeconfig = place.path("kubeconfig");
    let text = "{apiVersion: v1, kind: Config, current-context: c, users: [{name: u, user: {}}], \
                clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}], \
                contexts: [{name: c, context: {cluster: c, user: u}}]}";
    fs::write(&kubeconfig, text)?;
    let kubeconfig = kubeconfig.to_string_lossy().into_owned();
    with(&kubeconfig).await?.expect(4, &["127.0.0.1:1", "--pods none"])?;
    untouched(&server)
}

#[tokio::test(flavor = "multi_thread")]
async fn beside_a_kubelet_nothing_is_removed_and_it_says_so() -> Result<()> {
    let server = runtime()?;
    let place = Place::new(server.endpoint())?;
    let mut command = place.command(&["once"]);
    command.env("KUBERNETES_SERVICE_HOST", "10.0.0.1").env("KUBE_GC__NODE__BESIDE_KUBELET", "nothing");
    let ended = ended(command).await?;
    ended.expect(0, &[])?;
    ensure!(ended.stdout.contains("a kubelet counts as present"), "{}", ended.stdout);
    untouched(&server)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_is_a_table_or_json_and_removes_nothing_and_once_does_what_it_says() -> Result<()> {
    let server = runtime()?;
    let place = Place::new(server.endpoint())?;
    let table = place.run(&["plan"]).await?;
    table.expect(0, &[])?;
    ensure!(table.stdout.starts_with("DECISION"), "{}", table.stdout);
    ensure!(table.stdout.contains("To remove: 2 containers"), "{}", table.stdout);
    let wide = place.run(&["plan", "-o", "wide"]).await?;
    ensure!(wide.stdout.contains("default/web"), "{}", wide.stdout);
    let plan = place.run(&["plan", "-o", "json"]).await?.json()?;
    ensure!(!place.state().exists(), "a plan writes nothing");
    untouched(&server)?;
    let dry = place.run(&["once", "--dry-run"]).await?;
    dry.expect(0, &[])?;
    ensure!(dry.stdout.contains("a dry run was asked for"), "{}", dry.stdout);
    untouched(&server)?;

    let ids = |plan: &serde_json::Value| -> Vec<String> {
        let entries = plan["entries"].as_array().into_iter().flatten();
        let removed = entries.filter(|entry| entry["decision"] == "remove");
        removed.filter_map(|entry| entry["id"].as_str().map(str::to_owned)).collect()
    };
    place.run(&["once"]).await?.expect(0, &[])?;
    // They go at the same time.
    let removed: BTreeSet<String> = server.calls(Rpc::RemoveContainer).into_iter().collect();
    ensure!(removed == ids(&plan).into_iter().collect(), "{plan}");
    ensure!(removed.len() == 2);
    Ok(())
}

/// Exit code 7, although the next pass does it.
#[tokio::test(flavor = "multi_thread")]
async fn once_says_what_could_not_be_removed() -> Result<()> {
    let server = runtime()?;
    let busy = Effect::Fail(Code::Unknown, "device busy".to_owned());
    server.fault(Fault::nth(Rpc::RemoveContainer, 1, busy));
    let place = Place::new(server.endpoint())?;
    let first = place.run(&["once"]).await?;
    first.expect(7, &["device busy"])?;
    ensure!(first.stdout.contains("failed ") && first.stdout.contains("device busy"), "{}", first.stdout);
    ensure!(first.stdout.contains("Removed 1, ") && first.stdout.contains("1 could not be removed"));
    place.run(&["once"]).await?.expect(0, &[])?;
    ensure!(server.world(|world| world.containers().count()) == 1);
    Ok(())
}

/// Safety 4: a script must not go on as if all of it were gone.
#[tokio::test(flavor = "multi_thread")]
async fn once_says_what_the_limits_of_a_pass_have_left() -> Result<()> {
    let mut world = World::default();
    let image = world.add_image(NewImage { tags: vec!["app:1".to_owned()], ..NewImage::default() });
    let limit = Rules::default().limits.containers;
    // The newest one stays.
    world.add_crashed(&image, u32::try_from(limit)? + 2);
    let server = CriServer::start(measurable(), world)?;
    let place = Place::new(server.endpoint())?;
    let plan = place.run(&["plan", "--only", "remove"]).await?;
    ensure!(plan.stdout.contains("To remove: 1,000 of 1,001 containers"), "{}", plan.stdout);
    let first = place.run(&["once"]).await?;
    first.expect(7, &[])?;
    ensure!(first.stdout.contains("more is left"), "{}", first.stdout);
    ensure!(server.calls(Rpc::RemoveContainer).len() == limit);
    let second = place.run(&["once"]).await?;
    second.expect(0, &[])?;
    ensure!(!second.stdout.contains("more is left"), "{}", second.stdout);
    ensure!(server.world(|world| world.containers().count()) == 1);
    Ok(())
}

/// Exit code 7: a script must not go on as if there were enough. A full disk would stay full.
#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_cannot_be_measured_may_be_full() -> Result<()> {
    let mut world = World::default();
    world.add_image(NewImage { tags: vec!["app:1".to_owned()], ..NewImage::default() });
    let nowhere = Settings { mountpoint: "/no/such/file/system".to_owned(), ..Settings::default() };
    let server = CriServer::start(nowhere, world)?;
    let place = Place::new(server.endpoint())?;
    let freed = place.run(&["once", "--free", "30"]).await?;
    freed.expect(7, &[])?;
    for said in ["could not be measured", "/no/such/file/system"] {
        ensure!(freed.stdout.contains(said), "does not say {said:?}: {}", freed.stdout);
    }
    ensure!(server.calls(Rpc::RemoveImage).is_empty());
    place.run(&["once"]).await?.expect(7, &[])
}
