use std::collections::BTreeSet;
use std::path::Path as FilePath;

use axum::body::{Body, to_bytes};
use axum::http::header::{CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use tower::ServiceExt as _;

use super::*;

/// The most bytes of all files together, so that the page opens at once.
const MOST_BYTES: usize = 140 << 10;

fn request(path: &str, accept: Option<&str>) -> Request {
    let request = Request::get(path);
    let request = accept.into_iter().fold(request, |request, accept| request.header(ACCEPT, accept));
    request.body(Body::empty()).unwrap()
}

async fn get_page(path: &str, accept: Option<&str>) -> Response {
    routes("the index").oneshot(request(path, accept)).await.unwrap()
}

async fn body(response: Response) -> String {
    let bytes = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn varies(response: &Response) -> Vec<&str> {
    response.headers().get_all(VARY).iter().map(|value| value.to_str().unwrap()).collect()
}

#[tokio::test]
async fn browsers_get_the_page_and_all_others_the_index() {
    let firefox = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
    for accept in [firefox, "TEXT/HTML", "application/json, text/html;level=1;q=0.4"] {
        let response = get_page("/", Some(accept)).await;
        assert_eq!(response.headers()[CONTENT_TYPE], HTML, "{accept}");
        assert_eq!(varies(&response), ["accept", "accept-encoding"]);
        assert!(body(response).await.starts_with("<!doctype html>"));
    }
    for accept in [None, Some("*/*"), Some("text/plain"), Some("text/htmlx")] {
        let response = get_page("/", accept).await;
        assert_eq!(varies(&response)[0], "accept");
        assert_eq!(body(response).await, "the index\n", "{accept:?}");
    }
}

#[tokio::test]
async fn each_file_has_its_type_and_all_headers_that_protect_it() {
    let files = FILES.iter().map(|(name, content_type, _)| (format!("{PREFIX}{name}"), *content_type));
    for (path, content_type) in files.chain([("/".to_owned(), HTML)]) {
        let response = get_page(&path, Some("text/html")).await;
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        let headers = response.headers();
        assert_eq!(headers[CONTENT_TYPE], content_type, "{path}");
        assert_eq!(headers[X_CONTENT_TYPE_OPTIONS], "nosniff", "{path}");
        assert_eq!(headers[REFERRER_POLICY], "no-referrer", "{path}");
        assert_eq!(
            headers[CONTENT_SECURITY_POLICY],
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
             base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
            "{path}"
        );
    }
    for path in ["/ui/nothing.js", "/ui/..%2fui.rs"] {
        assert_eq!(get_page(path, None).await.status(), StatusCode::NOT_FOUND);
    }
}

#[test]
fn every_file_of_the_folder_is_served_and_together_they_are_small() {
    let folder = FilePath::new(env!("CARGO_MANIFEST_DIR")).join("src/http/ui");
    let not_served = ["index.html", "tests.rs", "tsconfig.json", "types.d.ts"];
    let in_folder: BTreeSet<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !not_served.contains(&name.as_str()))
        .collect();
    let served: BTreeSet<String> = FILES.iter().map(|(name, ..)| (*name).to_owned()).collect();
    assert_eq!(in_folder, served);
    let contents = FILES.iter().map(|(.., content)| *content).chain([PAGE]);
    let bytes: usize = contents.map(|content| content.len()).sum();
    assert!(bytes <= MOST_BYTES, "{bytes} bytes");
}

/// What a text of the cluster would need to become an element or code.
#[test]
fn no_script_makes_elements_or_code_from_text() {
    for (name, content_type, content) in FILES {
        let source = std::str::from_utf8(content).unwrap();
        let forbidden = match *content_type {
            SCRIPT => {
                "innerHTML outerHTML insertAdjacentHTML document.write DOMParser eval( Function( setHTML \
                 createContextualFragment srcdoc http:// https:// localStorage sessionStorage document.cookie"
            }
            _ => "http:// https:// @import url(",
        };
        for word in forbidden.split(' ') {
            let uses = source.lines().filter(|line| line.contains(word));
            // The names of XML's vocabularies are no addresses.
            let uses: Vec<_> = uses.filter(|line| !line.contains("http://www.w3.org/2000/svg")).collect();
            assert!(uses.is_empty(), "{name} uses {word}: {uses:?}");
        }
    }
    let page = std::str::from_utf8(PAGE).unwrap();
    for word in ["<style", "style=", "onclick", "onload", "javascript:", "//"] {
        assert!(!page.contains(word), "the page contains {word}");
    }
    assert_eq!(page.matches("<script").count(), 1, "only the module");
}
