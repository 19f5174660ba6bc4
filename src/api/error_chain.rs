//! Describes transport errors in plain words.
//!
//! Libraries wrap each cause in the name of a type or of an internal step, such as "ServiceError"
//! or "client error (SendRequest)". Neither tells an operator anything.

use std::error::Error;

/// How a message begins if the connection could not be made, so that nothing was sent.
pub(super) const CANNOT_CONNECT: &str = "cannot connect";
/// Stands for an error that no cause describes.
const NO_CAUSE: &str = "the connection failed";

/// An error and its causes, without what libraries add for programmers.
pub(crate) fn error_chain(error: &(dyn Error + 'static)) -> String {
    let mut text = String::new();
    let mut next = Some(error);
    while let Some(cause) = next {
        let words = plain(cause);
        if !words.is_empty() && !text.contains(&words) {
            if !text.is_empty() {
                text.push_str(": ");
            }
            text.push_str(&words);
        }
        next = cause.source();
    }
    if text.is_empty() { NO_CAUSE.to_owned() } else { text }
}

/// What an error itself says, without its causes; empty for a mere wrapper.
fn plain(error: &(dyn Error + 'static)) -> String {
    if let Some(kube::Error::Service(_) | kube::Error::HyperError(_)) = error.downcast_ref() {
        return String::new();
    }
    if let Some(error) = error.downcast_ref::<hyper_util::client::legacy::Error>() {
        return if error.is_connect() { CANNOT_CONNECT.to_owned() } else { String::new() };
    }
    without_address(&error.to_string()).to_owned()
}

/// Cuts off the address of a library's documentation.
fn without_address(text: &str) -> &str {
    text.split_once(": https://docs.rs/").map_or(text, |(text, _)| text)
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::api::scripted::widget;
    use crate::api::{Api, ApiSettings, WriteGate};

    #[derive(Debug, thiserror::Error)]
    #[error("cannot read the answer")]
    struct Reading(#[source] io::Error);

    #[test]
    fn each_cause_is_named_once_and_wrappers_are_not() {
        let reading = Reading(io::Error::other("connection reset"));
        let error = kube::Error::Service(Box::new(reading));
        assert_eq!(error_chain(&error), "cannot read the answer: connection reset");
    }

    #[test]
    fn links_to_documentation_are_removed() {
        let text =
            "peer closed connection without sending TLS close_notify: https://docs.rs/rustls/latest/x.html";
        let error = io::Error::other(text);
        assert_eq!(error_chain(&error), "peer closed connection without sending TLS close_notify");
    }

    #[tokio::test]
    async fn a_missing_or_disconnecting_server_is_described_in_plain_words() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let config = kube::Config::new(url.parse().unwrap());
        let api = Api::connect(config, ApiSettings::default(), WriteGate::open()).unwrap();
        let widget = widget();
        let hang_up = async { drop(listener.accept().await.unwrap()) };
        let (broken, ()) = tokio::join!(api.look_up(&widget), hang_up);
        drop(listener);
        let broken = broken.unwrap_err();
        let refused = api.look_up(&widget).await.unwrap_err();
        assert!(refused.message.starts_with(CANNOT_CONNECT), "{refused}");
        assert!(!refused.may_have_taken_effect());
        for error in [broken, refused] {
            for word in ["ServiceError", "client error", "SendRequest", "(Connect)"] {
                assert!(!error.message.contains(word), "{error}");
            }
        }
    }
}
