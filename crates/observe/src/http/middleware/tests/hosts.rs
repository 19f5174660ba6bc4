use axum::body::Body;

use super::super::*;

fn refused(headers: &[&str], target: &str) -> bool {
    let mut request = Request::get(target);
    for host in headers {
        request = request.header(HOST, *host);
    }
    Hosts::new(&["gc.example.com".to_owned()]).refuse(&request.body(Body::empty()).unwrap()).is_some()
}

#[test]
fn addresses_localhost_and_listed_names_are_admitted() {
    for host in [
        "127.0.0.1",
        "127.0.0.1:8081",
        "10.1.2.3:8080",
        "[::1]",
        "[2001:db8::1]:8081",
        "localhost",
        "LocalHost:8081",
        "localhost.:8081",
        "gc.example.com",
        "GC.example.com:443",
    ] {
        assert!(!refused(&[host], "/"), "{host}");
        assert!(!refused(&[], &format!("http://{host}/")), "{host}");
    }
    assert!(!refused(&[], "/"), "HTTP/1.0 and HTTP/2 have no such header");
}

#[test]
fn other_names_are_refused() {
    for host in [
        "evil.example.com",
        "evil.example.com:8081",
        "127.0.0.1.evil.example.com",
        "localhost.evil.example.com",
        "evil.example.com:8081:127.0.0.1",
        "sub.gc.example.com",
        "gc.example.com.evil.example",
        "[::1].evil.example.com",
        "[gc.example.com",
        "user@localhost",
        "",
        "::1",
    ] {
        assert!(refused(&[host], "/"), "{host}");
    }
    assert!(refused(&["localhost", "evil.example.com"], "/"), "each host counts");
    assert!(refused(&["localhost"], "http://evil.example.com/"), "the target counts, too");
}
