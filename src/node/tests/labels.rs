//! `--label`: which images are asked for their labels, and what comes of it.

use kube_gc_node::rules::Label;

use super::*;

/// An image with this label, as containerd tells it.
fn labelled(name: &str, label: &str) -> NewImage {
    let info = json!({ "chainID": "", "imageSpec": { "config": { "Labels": { label: "1" } } } });
    NewImage { info: Some(info.to_string()), ..image(name, 50) }
}

/// A node with images of which one has the label that is asked for.
fn node() -> (Node, String) {
    let mut node = Node::set_up();
    for number in 0..9 {
        node.add_image(labelled(&format!("other{number}"), "other"));
    }
    let wanted = node.add_image(labelled("wanted", "stage"));
    node.rules.labels = vec![Label::parse("stage=1").unwrap()];
    (node, wanted)
}

#[tokio::test]
async fn only_images_with_the_label_go_for_space_by_age_and_all() {
    for (free, max_age, all) in [(Some(99), None, false), (None, Some(HOUR / 2), false), (None, None, true)] {
        let (mut node, wanted) = node();
        node.pod().await;
        (node.rules.free, node.rules.images.max_age, node.rules.all) = (free, max_age, all);
        let before = node.image_ids();
        let (look, carried) = node.pass().await;
        assert_eq!(removed(&carried), [(What::Image, wanted.clone())]);
        assert_eq!((look.notes.as_slice(), carried.missing_bytes > 0), (&[][..], free.is_some()));
        assert_eq!(is_complete(&look, &carried), free.is_none());
        assert_eq!(before.difference(&node.image_ids()).collect::<Vec<_>>(), [&wanted]);
    }
}

/// An idle pass and a plan without the flag make no call for it.
#[tokio::test]
async fn only_unused_images_that_are_due_are_asked_for_their_labels() {
    let (mut node, _) = node();
    let living = node.pod().await;
    let used = node.add_image(labelled("used", "stage"));
    let pinned = node.add_image(NewImage { pinned: true, ..labelled("pinned", "stage") });
    node.container(&living, 0, ContainerState::ContainerRunning, &used);
    node.look().await;
    assert_eq!(node.server.calls(Rpc::ImageStatus), [""; 0], "nothing is due");
    node.rules.all = true;
    let look = node.look().await;
    let asked = node.server.calls(Rpc::ImageStatus);
    assert_eq!(asked.len(), 10);
    assert!(!asked.contains(&used) && !asked.contains(&pinned) && !asked.contains(&node.image));
    assert_eq!((rule(&look, What::Image, &used).as_str(), planned(&look).len()), ("I1", 1));
    node.server.clear_journal();
    node.rules.labels.clear();
    node.look().await;
    assert_eq!(node.server.calls(Rpc::ImageStatus), [""; 0], "without the flag");
}

#[tokio::test]
async fn an_image_whose_labels_are_not_told_stays_and_a_note_says_so() {
    for (info, said) in [
        (None, "has no labels"),
        (Some(String::new()), "has no labels"),
        (Some("[".repeat(100_000)), "has no labels"),
        (Some(r#"{"imageSpec":7}"#.to_owned()), "has no labels"),
        (Some("[".repeat(2_000_000)), "is too large"),
    ] {
        let (mut node, wanted) = node();
        let silent = node.add_image(NewImage { info, ..image("silent", 50) });
        node.rules.all = true;
        let (look, carried) = node.pass().await;
        assert!(look.notes.len() == 1 && look.notes[0].text.contains(said), "{:?}", look.notes);
        assert!(!is_complete(&look, &carried));
        assert_eq!(rule(&look, What::Image, &silent), "--label");
        assert_eq!(removed(&carried), [(What::Image, wanted)]);
    }
}

#[tokio::test]
async fn a_runtime_that_does_not_tell_labels_is_not_asked_for_all_of_them() {
    let (mut node, wanted) = node();
    for number in 0..30 {
        node.add_image(labelled(&format!("more{number}"), "stage"));
    }
    (node.rules.all, node.deadline) = (true, Duration::from_millis(400));
    let fail = server::Effect::Fail(server::Code::Unknown, "made by the test".to_owned());
    node.server.fault(server::Fault::about(Rpc::ImageStatus, &wanted, fail));
    let look = node.look().await;
    assert!(look.notes[0].text.contains("made by the test"), "{:?}", look.notes);
    assert_eq!((rule(&look, What::Image, &wanted).as_str(), planned(&look).len()), ("--label", 30));
    node.server.clear_journal();
    node.server.fault(server::Fault::every(Rpc::ImageStatus, server::Effect::Hang));
    let look = node.look().await;
    assert!(look.notes[0].text.contains("did not answer"), "{:?}", look.notes);
    assert!(planned(&look).is_empty() && node.server.calls(Rpc::ImageStatus).len() < 30);
}
