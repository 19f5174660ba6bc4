//! Warnings about listeners that are reachable from a network.

use super::{Listener, Listeners, Settings};

/// Warnings about pages and tokens that a network can read.
pub(super) fn warnings(settings: &Settings) -> Vec<String> {
    let Settings { http, tls, access, .. } = settings;
    let mut warnings = Vec::new();
    if !http.debug_listen.ip().is_loopback() && !access.listeners.include(Listener::Debug) {
        warnings.push(format!(
            "everyone who can reach {} can read the debug pages, which show the names of all owners and \
             dependents; set `access.listeners` to require authorization",
            http.debug_listen
        ));
    }
    for (listener, address) in [(Listener::Health, http.listen), (Listener::Debug, http.debug_listen)] {
        let in_the_clear = access.listeners.include(listener) && !tls.listeners.include(listener);
        if in_the_clear && !address.ip().is_loopback() {
            warnings.push(format!(
                "tokens are sent to {address} without encryption, and anyone who can read that network can use them; \
                 set `tls.listeners` to require TLS"
            ));
        }
    }
    if tls.listeners == Listeners::None && !tls.certificate.as_os_str().is_empty() {
        warnings.push("`tls.certificate` has no effect, because `tls.listeners` is \"none\"".to_owned());
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(tls: Listeners, access: Listeners) -> Settings {
        let mut settings = Settings::default();
        settings.tls.listeners = tls;
        settings.access.listeners = access;
        settings.http.listen = "0.0.0.0:8080".parse().unwrap();
        settings
    }

    #[test]
    fn tokens_in_the_clear_are_warned_about_on_a_network_alone() {
        for (tls, access, expected) in [
            (Listeners::None, Listeners::Both, true),
            (Listeners::Debug, Listeners::Health, true),
            (Listeners::Health, Listeners::Both, false),
            (Listeners::None, Listeners::Debug, false),
        ] {
            let warned = warnings(&settings(tls, access));
            assert_eq!(warned.len(), usize::from(expected), "{tls:?} {access:?}: {warned:?}");
            assert!(
                warned
                    .iter()
                    .all(|text| text.starts_with("tokens are sent to 0.0.0.0:8080 without encryption"))
            );
        }
    }

    #[test]
    fn open_debug_pages_are_warned_about_unless_somebody_is_asked() {
        let mut settings = settings(Listeners::Debug, Listeners::None);
        settings.http.debug_listen = "0.0.0.0:8081".parse().unwrap();
        assert!(
            warnings(&settings)[0]
                .starts_with("everyone who can reach 0.0.0.0:8081 can read the debug pages")
        );
        settings.access.listeners = Listeners::Debug;
        assert_eq!(warnings(&settings), [""; 0]);
    }

    #[test]
    fn a_certificate_that_nobody_shows_is_warned_about() {
        let mut settings = settings(Listeners::None, Listeners::None);
        settings.tls.certificate = "/tls.crt".into();
        assert_eq!(
            warnings(&settings),
            ["`tls.certificate` has no effect, because `tls.listeners` is \"none\""]
        );
    }
}
