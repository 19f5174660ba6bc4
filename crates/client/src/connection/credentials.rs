//! The credentials that all clients of a connection share.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::HeaderValue;
use kube::config::AuthInfo;
use secrecy::ExposeSecret as _;
use tokio::time::Instant;
use tokio_rustls::rustls::sign::CertifiedKey;

use super::tls::{self, Trust};
use super::{CredentialsError, exec};

/// How long the content of files is taken as known.
const KNOWN_FOR: Duration = Duration::from_secs(10);
/// The time between two looks at files because of refusals.
const LOOK_PAUSE: Duration = Duration::from_secs(1);
/// The time between two questions to an exec plugin: it may be a browser window.
const PLUGIN_PAUSE: Duration = Duration::from_secs(3);
/// An exec plugin is asked this long before its credentials end.
const ENDS_SOON: Duration = Duration::from_secs(5);
/// Far longer than any certificate or token.
const LONGEST_FILE: u64 = 1 << 20;

/// The credentials of a connection.
pub struct Credentials {
    config: Arc<kube::Config>,
    latest: Arc<Latest>,
    /// Held while they are read again, so that this happens once for all who need it.
    known: tokio::sync::Mutex<Known>,
}

/// What the latest state was made of.
struct Known {
    source: Source,
    /// When the files were read, and when because of a refusal.
    looked: Instant,
    refused: Option<Instant>,
    /// When the exec plugin was asked.
    asked: Option<Instant>,
    /// Why it had no answer.
    failed: Option<CredentialsError>,
}

impl Credentials {
    /// Reads the files that the configuration names.
    pub fn new(config: Arc<kube::Config>) -> Result<Self, CredentialsError> {
        let source = Source::read(&config, &Source::default())?;
        let latest = Arc::new(Latest(RwLock::new(Arc::new(State::new(&config, &source, None)?))));
        let known = Known { source, looked: Instant::now(), refused: None, asked: None, failed: None };
        Ok(Self { config, latest, known: tokio::sync::Mutex::new(known) })
    }

    /// What new connections use.
    pub const fn latest(&self) -> &Arc<Latest> {
        &self.latest
    }

    /// Changes when the connections that are open belong to an earlier client certificate.
    pub fn generation(&self) -> u64 {
        self.latest.get().generation
    }

    /// Credentials for a request. Files are looked at from time to time, and an exec plugin is asked
    /// before its credentials end.
    pub async fn current(self: &Arc<Self>) -> Result<Arc<State>, CredentialsError> {
        let state = self.latest.get();
        let needs_plugin = state.needs_plugin();
        let is_due = || self.known.try_lock().is_ok_and(|known| known.looked.elapsed() >= KNOWN_FOR);
        if !needs_plugin && !is_due() {
            return Ok(state);
        }
        match self.renew(None).await {
            Err(error) if needs_plugin => Err(error),
            Err(error) => {
                tracing::debug!(%error, "the credentials could not be read again");
                Ok(state)
            }
            Ok(()) => Ok(self.latest.get()),
        }
    }

    /// Other credentials than those that the server has refused.
    pub async fn refused(self: &Arc<Self>, version: u64) -> Option<Arc<State>> {
        if let Err(error) = self.renew(Some(version)).await {
            tracing::debug!(%error, "the credentials could not be read again");
        }
        Some(self.latest.get()).filter(|state| state.version != version)
    }

    /// Reads credentials again, because it is time or because the server has refused this version. A
    /// caller may give up waiting. Then an exec plugin goes on, for those who ask next.
    async fn renew(self: &Arc<Self>, refused: Option<u64>) -> Result<(), CredentialsError> {
        let credentials = Arc::clone(self);
        let renewing = tokio::spawn(async move { credentials.read_again(refused).await });
        renewing.await.unwrap_or_else(|error| Err(CredentialsError::new(error.to_string())))
    }

    async fn read_again(&self, refused: Option<u64>) -> Result<(), CredentialsError> {
        // A plugin that another request waits for must not delay those that need no answer of it.
        let mut known = if refused.is_none() && !self.latest.get().needs_plugin() {
            let Ok(known) = self.known.try_lock() else { return Ok(()) };
            known
        } else {
            self.known.lock().await
        };
        let state = self.latest.get();
        let is_due = match refused {
            None => known.looked.elapsed() >= KNOWN_FOR,
            // Another request met the same refusal.
            Some(version) if version != state.version => return Ok(()),
            Some(_) => known.refused.is_none_or(|last| last.elapsed() >= LOOK_PAUSE),
        };
        let mut source = known.source.clone();
        let mut failure = None;
        if is_due {
            source = Source::read(&self.config, &source)?;
            known.looked = Instant::now();
            known.refused = refused.map(|_| known.looked).or(known.refused);
        }
        if let Some(plugin) = self.config.auth_info.exec.as_ref().filter(|_| state.has_plugin)
            && (state.needs_plugin() || refused.is_some())
        {
            // Its answer may have ended already, by a clock that is wrong.
            if known.asked.is_none_or(|asked| asked.elapsed() >= PLUGIN_PAUSE) {
                let answer = exec::ask(plugin).await;
                known.asked = Some(Instant::now());
                known.failed = answer.as_ref().err().cloned();
                source.plugin = answer.ok().or(source.plugin);
            }
            failure = known.failed.clone();
        }
        if source != known.source {
            let state = State::new(&self.config, &source, Some(&state))?;
            *self.latest.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(state);
            known.source = source;
        }
        failure.map_or(Ok(()), Err)
    }
}

/// What requests and new connections use at the moment.
#[derive(Debug)]
pub struct Latest(RwLock<Arc<State>>);

impl Latest {
    pub fn get(&self) -> Arc<State> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What credentials are made of.
#[derive(Clone, Default, PartialEq, Eq)]
struct Source {
    authority: Option<Vec<u8>>,
    certificate: Option<Vec<u8>>,
    key: Option<Vec<u8>>,
    token: Option<Vec<u8>>,
    plugin: Option<exec::Answer>,
}

impl Source {
    /// Reads the files. As in Go's clients, what was read before stays if a file is gone: some programs
    /// remove a token after the start.
    fn read(config: &kube::Config, before: &Self) -> Result<Self, CredentialsError> {
        let user = &config.auth_info;
        Ok(Self {
            authority: file(config.root_cert_file.as_deref(), "the CA", &before.authority)?,
            certificate: match &user.client_certificate_data {
                Some(data) => Some(decoded(data, "client-certificate-data")?),
                None => file(path(&user.client_certificate), "the client certificate", &before.certificate)?,
            },
            key: match &user.client_key_data {
                Some(data) => Some(decoded(data.expose_secret(), "client-key-data")?),
                None => file(path(&user.client_key), "the client key", &before.key)?,
            },
            token: file(path(&user.token_file), "the token", &before.token)?,
            plugin: before.plugin.clone(),
        })
    }
}

fn path(path: &Option<String>) -> Option<&Path> {
    path.as_deref().map(Path::new)
}

fn file(
    path: Option<&Path>,
    what: &str,
    before: &Option<Vec<u8>>,
) -> Result<Option<Vec<u8>>, CredentialsError> {
    let read = |path: &Path| -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        File::open(path)?.take(LONGEST_FILE).read_to_end(&mut bytes)?;
        if bytes.trim_ascii().is_empty() { Err(io::Error::other("it is empty")) } else { Ok(bytes) }
    };
    match path.map(|path| (path, read(path))) {
        None => Ok(None),
        Some((_, Ok(bytes))) => Ok(Some(bytes)),
        Some((_, Err(_))) if before.is_some() => Ok(before.clone()),
        Some((path, Err(error))) => {
            Err(CredentialsError::new(format!("cannot read {what} ({}): {error}", path.display())))
        }
    }
}

fn decoded(base64: &str, what: &str) -> Result<Vec<u8>, CredentialsError> {
    let wrong = |_| CredentialsError::new(format!("{what} of the kubeconfig is not base64"));
    BASE64_STANDARD.decode(base64).map_err(wrong)
}

/// What requests and new connections use.
#[derive(Debug)]
pub struct State {
    /// Another one after each change.
    pub version: u64,
    /// Another one with each client certificate.
    generation: u64,
    pub authorization: Option<HeaderValue>,
    pub identity: Option<Arc<CertifiedKey>>,
    pub trust: Trust,
    has_plugin: bool,
    /// When the credentials of the plugin end; `None` if they do not.
    ends: Option<SystemTime>,
    /// Whether the plugin was ever asked.
    is_asked: bool,
}

impl State {
    fn new(config: &kube::Config, source: &Source, before: Option<&Self>) -> Result<Self, CredentialsError> {
        let answer = source.plugin.as_ref();
        let pem = |pem: &Option<String>| pem.as_ref().map(|pem| pem.clone().into_bytes());
        let pair = match (&source.certificate, &source.key) {
            (None, None) => answer
                .and_then(|answer| pem(&answer.client_certificate_data).zip(pem(&answer.client_key_data))),
            (Some(certificate), Some(key)) => Some((certificate.clone(), key.clone())),
            (Some(_), None) => {
                return Err(CredentialsError::new("there is a client certificate without a key"));
            }
            (None, Some(_)) => {
                return Err(CredentialsError::new("there is a client key without a certificate"));
            }
        };
        let identity =
            pair.map(|(certificate, key)| tls::identity(&certificate, &key)).transpose()?.map(Arc::new);
        let chain =
            |identity: &Option<Arc<CertifiedKey>>| identity.as_ref().map(|identity| identity.cert.clone());
        let is_same = before.is_some_and(|before| chain(&before.identity) == chain(&identity));
        let authority = match (&source.authority, &config.root_cert) {
            (Some(pem), _) => Some(tls::certificates(pem).map_err(|error| error.of("the CA"))?),
            (None, Some(certificates)) => Some(certificates.iter().cloned().map(Into::into).collect()),
            (None, None) => None,
        };
        let trust = match authority {
            _ if config.accept_invalid_certs => Trust::All,
            Some(certificates) => Trust::authority(certificates)?,
            // Nobody is asked: without TLS, the system needs no certificates.
            None if config.cluster_url.scheme_str() == Some("http") && config.proxy_url.is_none() => {
                Trust::Authority(Vec::new())
            }
            None => Trust::platform()?,
        };
        let own = authorization(&config.auth_info, source.token.as_deref())?;
        let has_plugin = own.is_none() && config.auth_info.exec.is_some();
        let token = answer.and_then(|answer| answer.token.as_deref());
        Ok(Self {
            version: before.map_or(0, |before| before.version + 1),
            generation: before.map_or(0, |before| before.generation + u64::from(!is_same)),
            authorization: own.map_or_else(|| token.map(bearer).transpose(), |own| Ok(Some(own)))?,
            identity,
            trust,
            has_plugin,
            ends: answer.map(exec::Answer::ends).transpose()?.flatten(),
            is_asked: answer.is_some(),
        })
    }

    fn needs_plugin(&self) -> bool {
        let ends = |ends: SystemTime| ends <= SystemTime::now() + ENDS_SOON;
        self.has_plugin && (!self.is_asked || self.ends.is_some_and(ends))
    }
}

/// The header that the kubeconfig itself gives. A token file wins over a token.
fn authorization(user: &AuthInfo, token: Option<&[u8]>) -> Result<Option<HeaderValue>, CredentialsError> {
    if let Some(provider) = &user.auth_provider {
        let token = provider.config.get("id-token").filter(|_| provider.name == "oidc");
        let unsupported = "is not supported; use an exec plugin";
        let missing =
            || CredentialsError::new(format!("the auth provider {:?} {unsupported}", provider.name));
        return bearer(token.ok_or_else(missing)?).map(Some);
    }
    if let (Some(name), Some(password)) =
        (user.username.as_ref().filter(|name| !name.is_empty()), &user.password)
    {
        let pair = BASE64_STANDARD.encode(format!("{name}:{}", password.expose_secret()));
        return sensitive(format!("Basic {pair}"), "user").map(Some);
    }
    // Programs that write token files differ in how they end them.
    let token = token.map(String::from_utf8_lossy);
    let token = token.as_deref().map(str::trim).or(user.token.as_ref().map(|token| token.expose_secret()));
    token.filter(|token| !token.is_empty()).map(bearer).transpose()
}

fn bearer(token: &str) -> Result<HeaderValue, CredentialsError> {
    sensitive(format!("Bearer {token}"), "bearer token")
}

fn sensitive(text: String, what: &str) -> Result<HeaderValue, CredentialsError> {
    let wrong = |_| CredentialsError::new(format!("invalid {what}: a header cannot contain it"));
    let mut value = HeaderValue::try_from(text).map_err(wrong)?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use kube::config::{ExecConfig, ExecInteractiveMode};
    use serde_json::json;
    use tokio::time::{advance, pause};

    use super::*;

    /// Credentials from a plugin that answers once and hangs from then on.
    fn hanging(directory: &Path, status: &serde_json::Value) -> Arc<Credentials> {
        let answer = json!({ "apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
            "status": status });
        let answered = directory.join("answered");
        let script = r#"[ -e "$0" ] && exec sleep 1000; : >"$0"; printf '%s' "$1""#;
        let mut config = kube::Config::new("http://127.0.0.1".parse().unwrap());
        config.auth_info.exec = Some(ExecConfig {
            command: Some("sh".into()),
            args: Some(vec![
                "-c".into(),
                script.into(),
                answered.to_str().unwrap().into(),
                answer.to_string(),
            ]),
            interactive_mode: Some(ExecInteractiveMode::Never),
            ..ExecConfig::default()
        });
        Arc::new(Credentials::new(Arc::new(config)).unwrap())
    }

    /// Fails if requests that have credentials wait for a plugin, for example because one of several API
    /// servers has refused them.
    #[tokio::test]
    async fn a_plugin_that_hangs_delays_no_request_that_has_credentials() {
        let directory = tempfile::tempdir().unwrap();
        let credentials = hanging(directory.path(), &json!({ "token": "t" }));
        let version = credentials.current().await.unwrap().version;
        pause();
        advance(PLUGIN_PAUSE).await;
        let asking = tokio::spawn({
            let credentials = Arc::clone(&credentials);
            async move { credentials.refused(version).await.is_some() }
        });
        while credentials.known.try_lock().is_ok() {
            tokio::task::yield_now().await;
        }
        advance(KNOWN_FOR).await;
        let asked = Instant::now();
        assert_eq!(credentials.current().await.unwrap().version, version);
        assert_eq!(Instant::now(), asked);
        assert!(!asking.await.unwrap(), "it is given up in the end, and has nothing new");
        assert!(credentials.known.lock().await.failed.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_file_is_read_again_though_nobody_refused_the_token() {
        let token = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(token.path(), "old").unwrap();
        let mut config = kube::Config::new("http://127.0.0.1".parse().unwrap());
        config.auth_info.token_file = token.path().to_str().map(str::to_owned);
        let credentials = Arc::new(Credentials::new(Arc::new(config)).unwrap());
        std::fs::write(token.path(), "new\n").unwrap();
        for (passes, token) in [(Duration::ZERO, "Bearer old"), (KNOWN_FOR, "Bearer new")] {
            advance(passes).await;
            assert_eq!(credentials.current().await.unwrap().authorization.as_ref().unwrap(), token);
        }
    }

    /// Fails if a clock that is ahead starts a plugin for each request.
    #[tokio::test]
    async fn an_answer_that_has_ended_already_is_not_asked_for_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let status = json!({ "token": "t", "expirationTimestamp": "2020-01-01T00:00:00Z" });
        let credentials = hanging(directory.path(), &status);
        assert!(credentials.current().await.is_ok());
        pause();
        for _ in 0..3 {
            assert!(credentials.current().await.unwrap().authorization.is_some());
        }
        advance(PLUGIN_PAUSE).await;
        assert!(credentials.current().await.is_err(), "it was asked again, and hangs");
    }
}
