//! The examples do what they say.

#[path = "../examples/watch.rs"]
#[allow(dead_code, reason = "its main is not called here")]
mod watch;

#[tokio::test]
async fn the_example_sees_what_it_did() {
    let events = watch::events().await.unwrap();
    assert_eq!(events, ["added prices", "modified prices", "deleted prices"]);
}
