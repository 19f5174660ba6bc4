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
    Collector::at(Endpoint::new(&url, &Credentials::default()).unwrap()).await
}

#[tokio::test]
async fn only_a_collector_is_taken_for_one_and_refusals_say_what_to_do() {
    for (path, status, body, expected) in [
        ("/nothing", "200 OK", "", "is not the debug listener of kube-gc"),
        ("/debug/summary", "200 OK", "{}", "is not the debug listener of kube-gc"),
        ("/debug/summary", "200 OK", "<p>", "is not the debug listener of kube-gc"),
        ("/debug/summary", "401 Unauthorized", "no", "use --collector-token-file"),
        ("/debug/summary", "403 Forbidden", "user x may not", "(403): user x may not"),
        ("/debug/summary", "503 Service Unavailable", "busy", "answers 503: busy"),
    ] {
        let error = asked(&[(path, status, body)]).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

/// Its kernel takes the connection, and nobody answers.
#[tokio::test(start_paused = true)]
async fn a_process_that_is_stopped_is_not_waited_for() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let error = Collector::at(Endpoint::new(&url, &Credentials::default()).unwrap()).await.unwrap_err();
    let said = "cannot be reached: it does not answer within 10s; check the address and that kube-gc runs";
    assert!(error.to_string().ends_with(said), "{error}");
}

#[test]
fn any_uid_is_one_parameter() {
    let uid = Uid::parse("a&limit=1#?%/\u{e9} b").unwrap();
    let object = ObjectRef { uid, resource: Some(GroupResource::new("batch", "jobs")) };
    assert_eq!(object.to_string(), "uid=a%26limit%3D1%23%3F%25%2F%C3%A9%20b&resource=jobs.batch");
}

#[tokio::test]
async fn the_leader_is_asked_before_a_standby() {
    let first = async |roles: &[&str]| {
        let mut answers = Vec::new();
        for role in roles {
            let page = match *role {
                "standby" => r#"{"decisions_total":3,"role":"standby"}"#,
                "leader" => r#"{"decisions_total":3,"role":"leader"}"#,
                _ => "{}",
            };
            answers.push(asked(&[("/debug/summary", "200 OK", page)]).await);
        }
        let found = first_that_works(futures::stream::iter(answers)).await;
        found.map(|collector| collector.is_standby)
    };
    assert_eq!(first(&["standby", "leader"]).await, Ok(false));
    assert_eq!(first(&["nothing", "standby", "standby"]).await, Ok(true));
    assert!(matches!(first(&["nothing"]).await, Err(CollectorError::NotKubeGc { .. })));
    assert!(matches!(first(&[]).await, Err(CollectorError::NotFound { .. })));
}

#[test]
fn pods_that_are_ready_come_first() {
    let pod = |name: &str, runs, ready| LabelledPod {
        namespace: NAMESPACE.into(),
        name: name.into(),
        runs,
        ready,
        debug_port: None,
    };
    let mut pods = vec![pod("a", true, false), pod("b", true, true), pod("gone", false, true)];
    let names =
        |pods: Vec<LabelledPod>| -> Vec<String> { in_order(pods).into_iter().map(|pod| pod.name).collect() };
    assert_eq!(names(pods.clone()), ["b", "a"]);
    pods.extend((0..100).map(|number| pod(&format!("x{number}"), true, true)));
    let asked = names(pods);
    assert_eq!((asked.len(), asked[0].as_str()), (MOST_ASKED, "b"));
}
