//! Exit codes and messages when there is no answer.

use std::path::Path;

use anyhow::{Result, ensure};

use super::kube_gc;
use crate::conformance::stage::Stage;

kube_gc_testkit::scenarios! {
    each_kind_of_failure_has_its_exit_code,
}

async fn each_kind_of_failure_has_its_exit_code() -> Result<()> {
    let stage = Stage::set().await?;
    let kubeconfig = stage.plane.kubeconfig();
    let ns = stage.cluster.namespace().await?;
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
        let ran = kube_gc(Path::new("/nowhere/config"), &format!("{command} cm/x -n {}", ns.name())).await?;
        ensure!(ran.code == 3, "{ran:?}");
        let nobody = tempfile::NamedTempFile::new()?;
        let text = r#"{"apiVersion":"v1","kind":"Config","clusters":[{"name":"c","cluster":{"server":"http://127.0.0.1:1"}}],
            "contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],"users":[{"name":"u","user":{"token":"t"}}],
            "current-context":"c"}"#;
        std::fs::write(nobody.path(), text)?;
        let ran = kube_gc(nobody.path(), &format!("{command} cm/x")).await?;
        ensure!(ran.code == 4 && ran.err.contains("127.0.0.1:1"), "{ran:?}");
    }
    stage.clear().await
}
