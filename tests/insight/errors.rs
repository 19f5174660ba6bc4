//! Exit codes and messages when there is no answer.

use std::path::Path;

use anyhow::Result;
use serde_json::json;

use super::Caller;
use super::fixtures::World;
use kube_gc_testkit::kubeconfig;
use kube_gc_testkit::proxy::{Fault, Matcher, Proxy, Reply, Verb};

kube_gc_testkit::scenarios! {
    each_kind_of_failure_has_its_exit_code,
}

/// All five commands.
const COMMANDS: [&str; 5] = ["tree cm/x", "explain cm/x", "plan cm/x", "check", "stuck"];

async fn each_kind_of_failure_has_its_exit_code() -> Result<()> {
    let world = World::set().await?;
    let (_, _, caller) = world.parts();
    for command in ["tree", "explain", "plan"] {
        for (object, code, says) in [
            ("cm/nothing", 8, "configmaps \"nothing\" not found in namespace "),
            ("nonsense/x", 8, "the server doesn't have a resource type \"nonsense\""),
            ("uid:nobody", 8, "there is no object with the uid nobody"),
            (
                "tokenreviews/x",
                8,
                "the server has the type \"tokenreviews.authentication.k8s.io\", but its objects",
            ),
            ("web", 2, "\"web\" is not TYPE/NAME, such as deploy/web"),
            ("cm/a/b", 2, "an object is TYPE/NAME, TYPE NAME or uid:UID"),
        ] {
            caller.says(&format!("{command} {object}"), code, &[says]).await?;
        }
    }
    for command in COMMANDS {
        let said = ["the server doesn't have a resource type \"nonsense\""];
        caller.says(&format!("{command} --kinds nonsense"), 8, &said).await?;
        caller.says(&format!("{command} --exclude secrets,nonsense"), 8, &said).await?;
        caller.says(&format!("{command} --kinds="), 2, &["'--kinds <PATTERN>'", "--help"]).await?;
        let said = [
            "the server has the type \"tokenreviews.authentication.k8s.io\", but its objects cannot be listed",
        ];
        caller.says(&format!("{command} --kinds tokenreviews"), 8, &said).await?;
    }
    // Of what is never listed, nothing is left out.
    caller.says("check --exclude tokenreviews,*.k8s.io", 0, &[]).await?;
    let nobody = tempfile::NamedTempFile::new()?;
    // Nobody listens on this port.
    let server = json!({ "server": "http://127.0.0.1:1" });
    std::fs::write(nobody.path(), kubeconfig(&server, &json!({ "token": "t" })).to_string())?;
    let proxy = Proxy::start(world.stage.plane).await?;
    let instead = |code, reason, message| {
        proxy.always(Matcher::default(), Fault::Instead(Reply::status(code, reason, message)))
    };
    let refused = instead(401, "Unauthorized", "a token that the test refuses");
    for command in COMMANDS {
        for (kubeconfig, flags, code, says) in [
            (caller.kubeconfig, "--output nonsense", 2, "nonsense"),
            (Path::new("/nowhere/config"), "", 3, "/nowhere/config"),
            (nobody.path(), "", 4, "127.0.0.1:1"),
            (proxy.kubeconfig(), "", 5, "a token that the test refuses"),
        ] {
            let caller = Caller { kubeconfig, ..caller };
            caller.says(&format!("{command} {flags}"), code, &[says]).await?;
        }
    }
    refused.remove();
    // The API server asks a webhook for objects of another version.
    let why =
        "conversion webhook for example.com/v1, Kind=Gadget failed: Post \"https://gadgets.shop.svc:443\"";
    let broken = Fault::Instead(Reply::status(500, "InternalError", why));
    let broken = proxy.always(Matcher::verb(Verb::Get).of("configmaps"), broken);
    let through = Caller { kubeconfig: proxy.kubeconfig(), ..caller };
    let said = ["gadgets.shop.svc", "repair the webhook that it names", "!check the address"];
    through.says("explain cm/x", 9, &said).await?;
    broken.remove();
    let _forbidden = instead(403, "Forbidden", "a user that the test forbids everything");
    let caller = Caller { kubeconfig: proxy.kubeconfig(), ..caller };
    for command in COMMANDS {
        caller.says(command, 6, &[]).await?;
    }
    Ok(())
}
