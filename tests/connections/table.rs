//! `kubectl` and kube-gc with the same kubeconfig.

use rcgen::PKCS_ECDSA_P384_SHA384;

use super::pki::{NAME, self_signed, version_1};
use super::proxies::{Proxy, Speaks};
use super::*;

/// Fails unless both read the ConfigMap, or both fail.
async fn both(stage: &Stage, kubeconfig: &Path, environment: &[(&str, &str)], works: bool, case: &str) {
    for (program, ran) in [
        ("kubectl", stage.kubectl(kubeconfig, "get configmap owner -n default", environment).await),
        ("kube-gc", stage.kube_gc(kubeconfig, "tree configmap/owner -n default", environment).await),
    ] {
        let errors = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.success(), works, "{program}, {case}: {errors}");
    }
}

/// The same with a kubeconfig in a file.
async fn works(stage: &Stage, cluster: &Value, user: &Value, case: &str) {
    let kubeconfig = stage.write("kubeconfig", &stage.kubeconfig(cluster, user).to_string());
    both(stage, &kubeconfig, &[], true, case).await;
}

#[tokio::test]
async fn certificates_of_servers_that_go_accepts_are_accepted() {
    let authority = Authority::new();
    let server = authority.server();
    let leaf = server.pem.clone();
    let both_pem = format!("{leaf}{}", Authority::new().pem);
    let (plain, own_authority) = (self_signed(false), self_signed(true));
    for (case, server, ca) in [
        ("the authority of the server", &server, &authority.pem),
        ("the server's own certificate, signed by another", &server, &leaf),
        ("the server's own certificate among others", &server, &both_pem),
        ("a self-signed certificate", &plain, &plain.pem),
        ("a self-signed certificate of an authority", &own_authority, &own_authority.pem),
    ] {
        let (accepts, user) = token("t");
        let stage = Stage::set(server, accepts).await;
        let ca = stage.write("ca.crt", ca);
        works(&stage, &json!({ "certificate-authority": ca }), &user, case).await;
    }
}

#[tokio::test]
async fn other_certificates_are_not_accepted() {
    let (accepts, user) = token("t");
    let (authority, own_authority) = (Authority::new(), self_signed(true));
    let server = authority.server();
    let stage = Stage::set(&server, accepts).await;
    for (case, ca, name) in [
        ("another authority", &Authority::new().pem, None),
        ("another server's own certificate", &own_authority.pem, None),
        ("another name", &authority.pem, Some("other.example")),
        ("another name than the server's own certificate has", &server.pem, Some("other.example")),
    ] {
        let ca = stage.write("ca.crt", ca);
        let cluster = json!({ "certificate-authority": ca, "tls-server-name": name });
        let kubeconfig = stage.write("kubeconfig", &stage.kubeconfig(&cluster, &user).to_string());
        both(&stage, &kubeconfig, &[], false, case).await;
    }
    for (case, authority) in [
        ("an authority that has ended", Authority::expired()),
        ("a certificate that may not sign others", Authority::forbidden()),
    ] {
        let (accepts, user) = token("t");
        let stage = Stage::set(&authority.server(), accepts).await;
        let cluster = json!({ "certificate-authority": stage.write("ca.crt", &authority.pem) });
        let kubeconfig = stage.write("kubeconfig", &stage.kubeconfig(&cluster, &user).to_string());
        both(&stage, &kubeconfig, &[], false, case).await;
    }
}

#[tokio::test]
async fn keys_and_certificates_of_users_that_go_accepts_are_accepted() {
    let authority = Authority::new();
    let directory = TempDir::new().unwrap();
    for (case, user) in [
        ("P-384", authority.user(&PKCS_ECDSA_P384_SHA384)),
        ("P-521", authority.p521_user()),
        ("version 1", version_1(directory.path())),
    ] {
        let stage = Stage::set(&authority.server(), Accepts::Certificate(user.der.clone())).await;
        stage.write("ca.crt", &authority.pem);
        stage.write("user.crt", &user.pem);
        stage.write("user.key", &user.key.serialize_pem());
        let files = json!({ "client-certificate": "user.crt", "client-key": "user.key" });
        works(&stage, &json!({ "certificate-authority": "ca.crt" }), &files, case).await;
    }
}

#[tokio::test]
async fn token_files_end_as_their_writers_like() {
    let (accepts, _) = token("t");
    let authority = Authority::new();
    let stage = Stage::set(&authority.server(), accepts).await;
    let ca = stage.write("ca.crt", &authority.pem);
    for end in ["", "\n", "\r\n", "  ", " \n\n"] {
        let file = stage.write("token", &format!("t{end}"));
        let cluster = json!({ "certificate-authority": ca });
        works(&stage, &cluster, &json!({ "tokenFile": file }), &format!("{end:?}")).await;
    }
}

#[tokio::test]
async fn kubeconfigs_are_written_in_many_ways() {
    let (accepts, user) = token("t");
    let authority = Authority::new();
    let stage = Stage::set(&authority.server(), accepts).await;
    stage.write("ca.crt", &authority.pem);
    let cluster = json!({ "certificate-authority": "ca.crt" });
    works(&stage, &cluster, &user, "JSON, and a relative path").await;
    let address = format!("https://{}/clusters/one", stage.front.address);
    let prefix = json!({ "certificate-authority": "ca.crt", "server": address });
    works(&stage, &prefix, &user, "a path in the address").await;
    let skip = json!({ "insecure-skip-tls-verify": true });
    works(&stage, &skip, &user, "no verification").await;
    let name = json!({ "certificate-authority": "ca.crt", "tls-server-name": NAME });
    works(&stage, &name, &user, "another name of the server").await;

    let mut parts = stage.kubeconfig(&cluster, &user);
    let mut users = json!({ "apiVersion": "v1", "kind": "Config", "current-context": "" });
    users["users"] = parts.as_object_mut().unwrap().remove("users").unwrap();
    let list = std::env::join_paths([
        stage.write("users", &users.to_string()),
        stage.path("missing"),
        stage.write("rest", &parts.to_string()),
    ]);
    both(&stage, Path::new(&list.unwrap()), &[], true, "a list of files").await;
}

#[tokio::test]
async fn users_are_impersonated_by_kubeconfigs_and_flags() {
    let authority = Authority::new();
    let stage = Stage::set(&authority.server(), Accepts::Token("t")).await;
    let ca = stage.write("ca.crt", &authority.pem);
    let cluster = json!({ "certificate-authority": ca });
    let seen = || stage.front.impersonated().pop().unwrap();
    works(&stage, &cluster, &json!({ "token": "t", "as": "jane" }), "as").await;
    assert_eq!(seen().as_deref(), Some("jane"));
    let kubeconfig = stage.path("kubeconfig");
    let asked = "tree configmap/owner -n default --as joe --as-group a --as-group b --as-uid 7";
    let ran = stage.kube_gc(&kubeconfig, asked, &[]).await;
    assert!(ran.status.success(), "{ran:?}");
    assert_eq!(seen().as_deref(), Some("joe"));
}

#[tokio::test]
async fn proxies_are_used_as_kubectl_uses_them() {
    let (accepts, user) = token("t");
    let authority = Authority::new();
    let stage = Stage::set(&authority.server(), accepts).await;
    let ca = stage.write("ca.crt", &authority.pem);
    let http = Proxy::start(Speaks::Http, stage.front.address).await;
    let socks = Proxy::start(Speaks::Socks5, stage.front.address).await;
    let by_name = format!("https://{NAME}:6443");
    let wanted = format!("{NAME}:6443");
    // The user `u` with the password `p@`.
    let basic = "dtpwqa==";
    let local = format!("https://{}", stage.front.address);
    let (by_http, by_socks) = (http.address.to_string(), socks.address.to_string());
    let of_http = format!("http://{by_http}");
    // The server, the proxy of the kubeconfig, the environment, and what the proxies are asked for.
    for (server, proxy_url, environment, asked) in [
        (&by_name, "", ("HTTPS_PROXY", &*of_http), Some("")),
        (&by_name, "", ("https_proxy", &*by_http), Some("")),
        (&by_name, &*format!("http://u:p%40@{by_http}"), ("A", ""), Some(basic)),
        (&by_name, &*format!("socks5://{by_socks}"), ("A", ""), Some("")),
        (&by_name, &*format!("socks5://u:p%40@{by_socks}"), ("A", ""), Some("u:p@")),
        // The kubeconfig wins.
        (&by_name, &*of_http, ("NO_PROXY", "*"), Some("")),
        // This machine itself is reached without a proxy.
        (&local, "", ("HTTPS_PROXY", &*of_http), None),
    ] {
        let case = format!("{server} {proxy_url:?} {environment:?}");
        let mut cluster = json!({ "certificate-authority": ca, "server": server, "proxy-url": proxy_url });
        if proxy_url.is_empty() {
            cluster["proxy-url"] = Value::Null;
        }
        let kubeconfig = stage.write("kubeconfig", &stage.kubeconfig(&cluster, &user).to_string());
        both(&stage, &kubeconfig, &[environment], true, &case).await;
        let found: Vec<String> = [&http, &socks].into_iter().flat_map(Proxy::take).collect();
        match asked {
            Some(user) => {
                let all = found.iter().all(|found| *found == format!("{wanted} {user}"));
                // Each of the two programs.
                assert!(found.len() >= 2 && all, "{case}: {found:?}");
            }
            None => assert_eq!(found.len(), 0, "{case}: {found:?}"),
        }
    }
    let cluster = json!({ "certificate-authority": ca, "server": by_name });
    let kubeconfig = stage.write("kubeconfig", &stage.kubeconfig(&cluster, &user).to_string());
    let proxy = format!("http://{}", http.address);
    let environment = [("HTTPS_PROXY", &*proxy), ("NO_PROXY", "10.0.0.0/8,.kube-gc.test")];
    both(&stage, &kubeconfig, &environment, false, "NO_PROXY").await;
    assert_eq!(http.take().len(), 0);
}
