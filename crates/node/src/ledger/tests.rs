use super::*;
use crate::testing::{container, image};
use crate::view::Image;

/// So many seconds after this boot.
fn at(seconds: u64) -> Moment {
    let uptime = Duration::from_secs(seconds);
    Moment { wall: Timestamp::from_secs(7).plus(uptime), boot: Some("a".to_owned()), uptime }
}

fn ages(detected: u64, used: Option<u64>) -> Option<Age> {
    Some(Age { detected: Duration::from_secs(detected), used: used.map(Duration::from_secs) })
}

fn with(ids: &[&str]) -> RuntimeView {
    RuntimeView { images: ids.iter().map(|id| image(id)).collect(), ..RuntimeView::default() }
}

#[test]
fn first_and_last_use_survive_a_restart_and_a_boot() {
    let mut runtime = with(&["a", "b"]);
    runtime.containers.push(container("c1", "uid", "web", "a"));
    let mut ledger = Ledger::default();
    ledger.observe(&runtime, &PodView::None, &at(100));
    ledger.observe(&runtime, &PodView::None, &at(990));
    runtime.containers.clear();
    let mut ledger = Ledger::parse(&ledger.to_json().unwrap()).unwrap();
    ledger.observe(&runtime, &PodView::None, &at(2000));
    // Five minutes are as precise as it gets, and no image is taken for older.
    assert_eq!(ledger.age("a"), ages(1900, Some(800)));
    assert_eq!(ledger.age("b"), ages(1900, None));
    // What the host was switched off for does not count.
    let mut ledger = Ledger::parse(&ledger.to_json().unwrap()).unwrap();
    let boot = Some("b".to_owned());
    ledger.observe(&runtime, &PodView::None, &Moment { boot, ..at(50) });
    assert_eq!(ledger.age("b"), ages(1750, None));
}

#[test]
fn an_image_that_comes_back_is_new_and_an_incomplete_list_makes_none_forgotten() {
    let mut ledger = Ledger::default();
    ledger.observe(&with(&["a"]), &PodView::None, &at(100));
    let slice = RuntimeView { images_extent: Extent::Slice, ..RuntimeView::default() };
    ledger.observe(&slice, &PodView::None, &at(200));
    assert_eq!(ledger.age("a"), ages(100, None));
    ledger.observe(&RuntimeView::default(), &PodView::None, &at(300));
    assert!(ledger.is_empty());
    ledger.observe(&with(&["a"]), &PodView::None, &at(400));
    assert_eq!(ledger.age("a"), ages(0, None));
}

/// Between two looks, lists show it.
#[test]
fn an_image_that_any_list_lacked_is_new() {
    let mut ledger = Ledger::default();
    ledger.observe(&with(&["a", "b"]), &PodView::None, &at(100));
    ledger.retain(&with(&["b"]).images);
    ledger.observe(&with(&["a", "b"]), &PodView::None, &at(400));
    assert_eq!((ledger.age("a"), ledger.age("b")), (ages(0, None), ages(300, None)));
}

#[test]
fn a_copy_of_this_boot_that_is_ahead_of_it_is_impossible() {
    let mut ledger = Ledger::default();
    ledger.observe(&with(&["a"]), &PodView::None, &at(600));
    let other_boot = Moment { boot: Some("b".to_owned()), ..at(599) };
    for (now, is_possible) in [(at(600), true), (at(599), false), (other_boot, true)] {
        let copy = Ledger::parse(&ledger.to_json().unwrap()).unwrap();
        assert_eq!(copy.until(&now).is_ok(), is_possible);
    }
}

#[test]
fn what_a_runtime_lists_beyond_the_limit_is_not_kept() {
    let images = (0..=MOST).map(|number| image(&format!("{number:06}"))).collect();
    let mut ledger = Ledger::default();
    ledger.observe(&RuntimeView { images, ..RuntimeView::default() }, &PodView::None, &at(100));
    assert_eq!(ledger.len(), MOST);
    assert!(ledger.age("000000").is_some(), "the first ones");
    assert_eq!(ledger.age(&format!("{MOST:06}")), None);
}

#[test]
fn an_image_that_is_listed_twice_is_used_if_one_of_them_is() {
    let tag = "registry.example/web:1";
    let (named, nameless) = (Image { repo_tags: vec![tag.to_owned()], ..image("a") }, image("a"));
    for images in [vec![named.clone(), nameless.clone()], vec![nameless, named]] {
        let mut runtime = RuntimeView { images, ..RuntimeView::default() };
        runtime.containers.push(container("c1", "uid", "web", tag));
        let mut ledger = Ledger::default();
        ledger.observe(&runtime, &PodView::None, &at(100));
        assert_eq!(ledger.age("a"), ages(0, Some(0)));
    }
}

/// A host without a battery for its clock boots in 1970, and some time later NTP sets it.
#[test]
fn a_clock_that_goes_back_and_forward_makes_no_image_older_and_shows_that_it_is_not_steady() {
    let forever = Duration::MAX.as_secs();
    // If nobody runs between two passes, what the file says of the clock is later than it was by up to five minutes.
    for (ends, later) in [(false, [60, 360]), (true, [0, 280])] {
        let mut ledger = Ledger::default();
        let mut observe = |wall, uptime| {
            if ends {
                ledger = Ledger::parse(&ledger.to_json().unwrap()).unwrap();
            }
            let now = Moment { wall: Timestamp::from_secs(wall), ..at(uptime) };
            ledger.observe(&with(&["a"]), &PodView::None, &now);
            (ledger.age("a").unwrap().detected.as_secs(), ledger.steady().as_secs())
        };
        assert_eq!(observe(1_700_000_000, 100), (0, forever));
        assert_eq!(observe(1000, 160), (60, forever));
        assert_eq!(observe(1_700_000_120, 220), (120, 0));
        assert_eq!(observe(1_700_000_180, 280), (180, later[0]));
        assert_eq!(observe(1_700_000_480, 580), (480, later[1]));
    }
}

#[test]
fn a_damaged_state_file_is_an_error_and_not_an_empty_ledger() {
    for content in ["", "{", "[]", "{\"version\":2}", "{\"version\":2,\"images\":{\"a\":7}}", "\u{0}"] {
        assert!(matches!(Ledger::parse(content.as_bytes()), Err(Damaged::Syntax(_))), "{content}");
    }
    let other = |version| format!("{{\"version\":{version},\"images\":{{}}}}");
    for version in [1, 3] {
        let found = Ledger::parse(other(version).as_bytes());
        assert!(matches!(found, Err(Damaged::Version(found)) if found == version));
    }
    let with = |time: i64, uptime: i64, first: i64, used: i64| {
        let image = format!("{{\"first_detected\":{first},\"last_used\":{used}}}");
        let last = format!("{{\"uptime\":{uptime}}}");
        format!("{{\"version\":2,\"time\":{time},\"last\":{last},\"images\":{{\"a\":{image}}}}}")
    };
    let now = 10 * PRECISION;
    assert!(Ledger::parse(with(now, now, now, now + PRECISION).as_bytes()).is_ok());
    for (time, uptime, first, used) in [
        (-1, 0, 0, 0),
        (i64::MAX, 0, 0, 0),
        (now, -1, 0, 0),
        (now, i64::MAX, 0, 0),
        (now, now, -1, 0),
        (now, now, now + PRECISION + 1, 0),
        (now, now, 0, i64::MIN),
        (now, now, 0, now + PRECISION + 1),
    ] {
        let found = Ledger::parse(with(time, uptime, first, used).as_bytes());
        assert!(matches!(found, Err(Damaged::Impossible)), "{time} {uptime} {first} {used}: {found:?}");
    }
    let huge = vec![b' '; LONGEST + 1];
    assert!(matches!(Ledger::parse(&huge), Err(Damaged::TooLarge(_))));
}

#[test]
fn the_file_has_something_new_for_new_images_and_every_few_minutes() {
    let mut runtime = with(&["a", "b"]);
    runtime.containers.push(container("c", "u", "web", "a"));
    let mut ledger = Ledger::default();
    let mut content = |runtime: &RuntimeView, now| {
        ledger.observe(runtime, &PodView::None, &at(now));
        ledger.to_json().unwrap()
    };
    content(&runtime, 600);
    let first = content(&runtime, 901);
    assert_eq!(content(&runtime, 1199), first);
    let later = content(&runtime, 1201);
    assert_ne!(later, first);
    runtime.images.remove(1);
    assert_ne!(content(&runtime, 1202), later);
}

/// Each begins at another moment, and rounds what it writes.
#[test]
fn processes_that_share_a_file_make_no_image_younger() {
    let mut runtime = with(&["a", "b"]);
    runtime.containers.push(container("c", "u", "web", "b"));
    let stored = |ledger: &Ledger| Ledger::parse(&ledger.to_json().unwrap()).unwrap();
    let mut one = Ledger::default();
    one.observe(&runtime, &PodView::None, &at(100));
    runtime.containers.clear();
    let mut other = stored(&one);
    for number in 1..100 {
        let now = 100 + 77 * number;
        for (own, others, now) in [(0, 1, now), (1, 0, now + 31)] {
            let mut both = [one, other];
            let copy = stored(&both[others]);
            // The look began before.
            both[own] = std::mem::take(&mut both[own]).joined(&copy, &at(now));
            both[own].observe(&runtime, &PodView::None, &at(now - 5));
            both[own].observe(&runtime, &PodView::None, &at(now));
            let passed = now - 100;
            assert_eq!(both[own].age("a"), ages(passed, None));
            let used = both[own].age("b").unwrap().used.unwrap().as_secs();
            assert!((passed.saturating_sub(300)..=passed).contains(&used), "{used} after {passed}");
            [one, other] = both;
        }
    }
}

/// The disk of the state file was mounted late, so the ledger began anew, in memory.
#[test]
fn of_several_copies_the_newest_counts_however_long_the_others_have_counted() {
    let observed = |from: &Ledger, boot: &str, uptime, used: bool| {
        let mut ledger = from.clone();
        let mut runtime = with(&["a"]);
        runtime.containers.extend(used.then(|| container("c1", "uid", "web", "a")));
        let moment = Moment { boot: Some(boot.to_owned()), ..at(uptime) };
        ledger.observe(&runtime, &PodView::None, &moment);
        Ledger::parse(&ledger.to_json().unwrap()).unwrap()
    };
    let mut old = Ledger::default();
    old.set("a", ages(90_000, None).unwrap());
    let new = observed(&Ledger::default(), "b", 1000, true);
    let at_end = Moment { boot: Some("b".to_owned()), ..at(1010) };
    for old in [observed(&old, "a", 50_000, false), observed(&old, "b", 500, false)] {
        for copies in [vec![old.clone(), new.clone()], vec![new.clone(), old.clone()]] {
            assert_eq!(Ledger::newest(copies, &at_end), Some(new.clone()));
        }
    }
    assert_eq!(Ledger::newest(vec![], &at_end), None);
}

#[test]
fn where_no_clock_tells_which_copy_is_the_newest_an_image_is_as_young_as_any_says() {
    let of = |detected: [u64; 2], used| {
        let mut ledger = Ledger::default();
        ledger.set("a", ages(detected[0], used).unwrap());
        ledger.set("b", ages(detected[1], None).unwrap());
        ledger
    };
    let (mut one, other) = (of([9000, 50], Some(4000)), of([700, 80], None));
    one.set("only", ages(10, None).unwrap());
    for copies in [vec![one.clone(), other.clone()], vec![other.clone(), one.clone()]] {
        let merged = Ledger::newest(copies, &at(100)).unwrap();
        assert_eq!((merged.age("b"), merged.age("only")), (ages(50, None), None));
        let age = merged.age("a").unwrap();
        // One that has not counted for so long has the last use at its beginning.
        assert!(age.detected.as_secs() == 700 && (700..=4000).contains(&age.used.unwrap().as_secs()));
        assert!(Ledger::parse(&merged.to_json().unwrap()).is_ok());
    }
}
