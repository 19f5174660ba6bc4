//! What a collector, or something else, answers.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;

/// Answers each path with a status and a body, and others with 404. Returns its URL.
async fn server(pages: &[(&'static str, &'static str, &'static str)]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let pages: HashMap<_, _> = pages.iter().map(|&(path, status, body)| (path, (status, body))).collect();
    let pages = Arc::new(pages);
    tokio::spawn(async move {
        while let Ok((mut connection, _)) = listener.accept().await {
            let mut request = vec![0; 4096];
            let length = connection.read(&mut request).await.unwrap();
            let request = String::from_utf8_lossy(&request[..length]).into_owned();
            let path = request.split(' ').nth(1).unwrap_or_default();
            let (status, body) = pages.get(path).copied().unwrap_or(("404 Not Found", ""));
            let answer = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            connection.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    format!("http://{address}")
}

async fn asked(pages: &[(&'static str, &'static str, &'static str)]) -> Result<Collector, CollectorError> {
    let url = server(pages).await;
    let options = CollectorOptions { url, ..CollectorOptions::default() };
    Collector::at(Endpoint::new(&options).unwrap()).await
}

/// What a collector in this role answers; `nothing` is none.
pub(super) async fn collector_in_role(role: &str) -> Result<Collector, CollectorError> {
    let page = match role {
        "standby" => r#"{"decisions_total":3,"role":"standby"}"#,
        "leader" => r#"{"decisions_total":3,"role":"leader"}"#,
        "alone" => r#"{"decisions_total":3,"role":"alone"}"#,
        _ => "{}",
    };
    asked(&[("/debug/summary", "200 OK", page)]).await
}

#[tokio::test]
async fn only_a_collector_is_taken_for_one() {
    assert!(asked(&[("/debug/summary", "200 OK", r#"{"decisions_total":3}"#)]).await.is_ok());
    let others =
        [("/nothing", "200 OK", ""), ("/debug/summary", "200 OK", "{}"), ("/debug/summary", "200 OK", "<p>")];
    for other in others {
        let error = asked(&[other]).await.unwrap_err();
        assert!(matches!(error, CollectorError::NotKubeGc { .. }), "{error}");
    }
    let old = asked(&[("/debug/monitors", "200 OK", "[]")]).await.unwrap_err();
    assert!(matches!(old, CollectorError::OtherVersion { .. }), "{old}");
}

#[tokio::test]
async fn refusals_say_what_to_do() {
    let error = asked(&[("/debug/summary", "401 Unauthorized", "no")]).await.unwrap_err();
    assert!(error.to_string().contains("use --collector-token-file"), "{error}");
    let error = asked(&[("/debug/summary", "403 Forbidden", "user x may not")]).await.unwrap_err();
    assert!(error.to_string().ends_with("(403): user x may not"), "{error}");
    let error = asked(&[("/debug/summary", "503 Service Unavailable", "busy")]).await.unwrap_err();
    assert!(error.to_string().ends_with("answers 503: busy"), "{error}");
}
