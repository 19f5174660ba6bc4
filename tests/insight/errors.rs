//! Exit codes and messages when there is no answer.

use std::path::Path;

use anyhow::{Result, ensure};

use super::kube_gc;
use crate::conformance::stage::Stage;
use kube_gc_testkit::proxy::{Fault, Matcher, Proxy, Reply};

kube_gc_testkit::scenarios! {
    each_kind_of_failure_has_its_exit_code,
}

/// All five commands.
const COMMANDS: [&str; 5] = ["tree cm/x", "explain cm/x", "plan cm/x", "check", "stuck"];
/// Nobody listens on this port.
const NOBODY: &str = r#"{"apiVersion":"v1","kind":"Config","clusters":[{"name":"c","cluster":{"server":"http://127.0.0.1:1"}}],
    "contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],"users":[{"name":"u","user":{"token":"t"}}],
    "current-context":"c"}"#;

async fn each_kind_of_failure_has_its_exit_code() -> Result<()> {
    let stage = Stage::set().await?;
    let kubeconfig = stage.plane.kubeconfig();
    for command in ["tree", "explain", "plan"] {
        for (line, code, says) in [
            ("cm/nothing -n default", 8, "there is no ConfigMap/nothing in namespace default"),
            ("nonsense/x", 8, "the server has no type \"nonsense\""),
            ("uid:nobody", 8, "there is no object with the uid nobody"),
            ("web", 2, "\"web\" has no name"),
            ("cm/a/b", 2, "an object is TYPE/NAME, TYPE NAME or uid:UID"),
        ] {
            let ran = kube_gc(kubeconfig, &format!("{command} {line}")).await?;
            ensure!(ran.code == code && ran.err.contains(says) && ran.out.is_empty(), "{line}: {ran:?}");
        }
    }
    let nobody = tempfile::NamedTempFile::new()?;
    std::fs::write(nobody.path(), NOBODY)?;
    let proxy = Proxy::start(stage.plane).await?;
    let refused = proxy.always(
        Matcher::default(),
        Fault::Instead(Reply::status(401, "Unauthorized", "a token that the test refuses")),
    );
    for command in COMMANDS {
        let wrong = format!("{command} --output nonsense");
        for (kubeconfig, line, code, says) in [
            (kubeconfig, wrong.as_str(), 2, "nonsense"),
            (Path::new("/nowhere/config"), command, 3, "/nowhere/config"),
            (nobody.path(), command, 4, "127.0.0.1:1"),
            (proxy.kubeconfig(), command, 5, "a token that the test refuses"),
        ] {
            let ran = kube_gc(kubeconfig, line).await?;
            ensure!(ran.code == code && ran.err.contains(says) && ran.out.is_empty(), "{line}: {ran:?}");
        }
    }
    refused.remove();
    let _forbidden = proxy.always(
        Matcher::default(),
        Fault::Instead(Reply::status(403, "Forbidden", "a user that the test forbids everything")),
    );
    for command in COMMANDS {
        let ran = kube_gc(proxy.kubeconfig(), command).await?;
        ensure!(ran.code == 6 && ran.out.is_empty(), "{command}: {ran:?}");
    }
    stage.clear().await
}
