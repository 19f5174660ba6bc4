use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::*;
use kube_gc_client::testing::{Part, ReceivedRequest, Reply, Server, namespace, widgets};

/// How many objects a page has.
const PAGE: usize = 500;

/// A namespace of a server that lists and deletes in pages.
#[derive(Default)]
struct World {
    /// Whether each object is being deleted, by name. An object is held if its name begins with `h`.
    objects: BTreeMap<String, bool>,
    /// The uid of the namespace.
    uid: &'static str,
    /// The time that each deletion takes.
    delay: Duration,
}

impl World {
    /// Objects that are held, and then free ones.
    fn of(held: usize, free: usize) -> Arc<Mutex<Self>> {
        let held = (0..held).map(|number| format!("held-{number:06}"));
        let free = (0..free).map(|number| format!("x-{number:06}"));
        let objects = held.chain(free).map(|name| (name, false)).collect();
        Arc::new(Mutex::new(Self { objects, uid: "u", delay: Duration::ZERO }))
    }

    fn living(&self) -> usize {
        self.objects.values().filter(|is_deleted| !**is_deleted).count()
    }

    fn answer(&mut self, request: &ReceivedRequest) -> Reply {
        if request.path == "/api/v1/namespaces/ns" {
            let uid = self.uid;
            return Reply::ok(format!(
                r#"{{"kind":"Namespace","apiVersion":"v1","metadata":{{"name":"ns","uid":"{uid}",
                "deletionTimestamp":"2026-01-01T00:00:00Z"}},"status":{{"phase":"Terminating"}}}}"#
            ));
        }
        assert_eq!((&*request.method, request.query("limit")), ("DELETE", Some("500")), "{}", request.path);
        let start = request.query("continue").unwrap_or_default().to_owned();
        let rest = self.objects.range(start..).map(|(name, _)| name.clone());
        let mut page: Vec<String> = rest.take(PAGE + 1).collect();
        let next = if page.len() > PAGE { page.pop().unwrap() } else { String::new() };
        let mut items = Vec::new();
        for name in page {
            let deleted = if self.objects[&name] { r#","deletionTimestamp":"t""# } else { "" };
            items.push(format!(r#"{{"metadata":{{"name":"{name}"{deleted}}}}}"#));
            if name.starts_with('h') {
                self.objects.insert(name, true);
            } else {
                self.objects.remove(&name);
            }
        }
        let items = items.join(",");
        let list = format!(r#"{{"kind":"List","metadata":{{"continue":"{next}"}},"items":[{items}]}}"#);
        Reply::stream([Part::Pause(self.delay), Part::Data(list.into())])
    }
}

fn serving(world: &Arc<Mutex<World>>) -> Server {
    let world = Arc::clone(world);
    Server::answering(move |request| world.lock().unwrap().answer(request))
}

async fn deleted(server: &Server, places: &mut Places) -> Deleted {
    let of_type = ContentType { resource: widgets(), can_list: true, can_delete_collection: true };
    delete(&server.api(), &namespace(), &[&of_type], places).await
}

async fn turn(server: &Server, places: &mut Places) -> Vec<String> {
    deleted(server, places).await.failures.iter().map(bounded).collect()
}

fn deletions(server: &Server) -> Vec<ReceivedRequest> {
    server.seen().into_iter().filter(|request| request.method == "DELETE").collect()
}

/// Rule 11.7.
#[tokio::test(start_paused = true)]
async fn a_turn_deletes_a_bounded_number_of_pages_and_the_next_one_goes_on() {
    let world = World::of(PAGE * DELETED_PAGES + 700, 0);
    let (server, mut places) = (serving(&world), Places::new());
    for (pages, living, left) in [(DELETED_PAGES, 700, 1), (DELETED_PAGES + 2, 0, 0)] {
        assert_eq!(turn(&server, &mut places).await, Vec::<String>::new());
        assert_eq!(deletions(&server).len(), pages, "nothing is deleted twice");
        assert_eq!((world.lock().unwrap().living(), places.len()), (living, left));
    }
}

/// Rule 11.7: a look at the first pages cannot show it.
#[tokio::test(start_paused = true)]
async fn a_turn_that_deletes_behind_what_a_look_shows_is_progress() {
    let world = World::of(PAGE * DELETED_PAGES + 700, 0);
    let (server, mut places) = (serving(&world), Places::new());
    // The second turn reaches the last page. After it, all of them are held.
    for goes_on in [true, false, false] {
        let deleted = deleted(&server, &mut places).await;
        assert!(deleted.failures.is_empty() && deleted.goes_on == goes_on, "{deleted:?}");
    }
    assert_eq!(places.len(), 1);
}

/// Rules 11.7 and 11.12.
#[tokio::test(start_paused = true)]
async fn on_a_slow_server_a_turn_ends_after_some_seconds_and_the_next_one_goes_on() {
    let world = World::of(5_000, 0);
    world.lock().unwrap().delay = DELETION_OF_PAGE * 9 / 10;
    let (server, mut places) = (serving(&world), Places::new());
    assert_eq!(turn(&server, &mut places).await, Vec::<String>::new());
    assert_eq!(deletions(&server).len(), 3);
    // A page that takes too long is sent again, because only a part of it was deleted.
    world.lock().unwrap().delay = DELETION_OF_PAGE * 2;
    assert_eq!(turn(&server, &mut places).await, Vec::<String>::new());
    assert_eq!(turn(&server, &mut places).await, Vec::<String>::new());
    let pages: Vec<_> = deletions(&server)[3..].iter().map(|page| page.path.clone()).collect();
    assert_eq!((pages.len(), &pages[0]), (2, &pages[1]));
    assert!(pages[0].ends_with("continue=held-001500"), "{pages:?}");
}

/// Rule 11.4. The rights are looked at again only after a 403.
#[tokio::test]
async fn after_a_failure_the_next_turn_begins_at_the_first_page() {
    for code in [400, 403] {
        let refusing = Server::answering({
            let world = World::of(0, 1_200);
            move |request| match request.query("continue") {
                Some(_) => Reply::status(code, "not a token", "{}"),
                None => world.lock().unwrap().answer(request),
            }
        });
        let mut places = Places::new();
        let deleted = deleted(&refusing, &mut places).await;
        let [failure] = &*deleted.failures else { panic!("{deleted:?}") };
        assert!(failure.to_string().contains("not a token"), "{failure}");
        assert_eq!((deleted.is_forbidden(), places.len()), (code == 403, 0));
    }
}

fn places(count: usize) -> Places {
    (0..count).map(|number| (GroupResource::new("", &format!("t{number}")), "token".to_owned())).collect()
}

#[tokio::test]
async fn a_namespace_that_was_created_again_begins_at_the_first_page() {
    let kept = Kept::default();
    let (one, other) = (Uid::parse("one").unwrap(), Uid::parse("other").unwrap());
    kept.keep("ns", &one, places(2)).await;
    assert_eq!(kept.take("ns", &other).await, Places::default());
    assert_eq!(kept.take("ns", &one).await, Places::default(), "they are void for ever");
    kept.keep("ns", &one, places(2)).await;
    assert_eq!(kept.take("ns", &one).await, places(2));
}

#[tokio::test]
async fn the_kept_places_are_bounded() {
    let (kept, uid) = (Kept::default(), Uid::parse("u").unwrap());
    for number in 0..=MOST {
        kept.keep(&number.to_string(), &uid, places(1)).await;
    }
    assert_eq!(kept.take(&MOST.to_string(), &uid).await, Places::default());
    assert_eq!(kept.take("0", &uid).await, places(1));
}
