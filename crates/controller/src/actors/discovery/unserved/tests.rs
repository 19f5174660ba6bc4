use super::*;
use crate::actors::tests::{catalog, widgets};
use kube_gc_core::object::Scope;

fn with_widgets() -> Catalog {
    catalog([("v1", widgets())])
}

/// The missing types, and whether they count as gone from now on.
struct Looks {
    unserved: Unserved,
    catalog: Arc<Catalog>,
    now: Instant,
}

impl Looks {
    fn new() -> Self {
        Self { unserved: Unserved::default(), catalog: Arc::new(with_widgets()), now: Instant::now() }
    }

    fn without(&mut self, is_complete: bool, is_gone: bool) -> bool {
        let gone = is_gone.then(|| widgets().group_resource.clone()).into_iter().collect();
        let absences = Absences { missing: vec![widgets()], gone, ..Absences::default() };
        let (catalog, gone) =
            self.unserved.apply(&self.catalog, &Catalog::default(), absences, is_complete, self.now);
        self.catalog = catalog;
        let is_kept = self.catalog.resolve("example.com/v1", "Widget").is_some();
        assert_eq!(is_kept, self.unserved.keeps(&widgets().group_resource));
        assert_eq!(is_kept, gone.is_empty());
        !is_kept
    }

    fn with(&mut self) {
        let applied =
            self.unserved.apply(&self.catalog, &with_widgets(), Absences::default(), true, self.now);
        assert!(applied.1.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_type_is_kept_until_it_was_missing_for_long() {
    let mut looks = Looks::new();
    assert!(!looks.without(true, false));
    let said = looks.unserved.failing();
    assert_eq!((&*said[0].failure.group, said[0].failure.version.as_deref()), ("example.com", Some("v1")));
    assert!(said[0].failure.error.contains("widgets"), "{}", said[0].failure.error);
    looks.now += GONE_AFTER;
    assert!(!looks.without(true, false), "the clock alone proves nothing");
    assert!(looks.without(true, false));
    assert!(looks.unserved.failing().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_answer_with_the_type_restarts_the_time_and_an_incomplete_one_does_not_count() {
    let mut looks = Looks::new();
    assert!(!looks.without(true, false));
    looks.with();
    looks.now += GONE_AFTER;
    for _ in 0..10 {
        assert!(!looks.without(true, false));
    }
    looks.now += GONE_AFTER;
    assert!(!looks.without(false, false), "a part of the API did not answer");
    assert!(looks.without(true, false));
}

/// References through such a version become unresolved, as before it was served.
#[tokio::test(start_paused = true)]
async fn a_removed_version_is_not_kept() {
    let mut looks = Looks::new();
    let versions = missing_versions(&looks.catalog, &Catalog::default());
    assert_eq!(versions, BTreeSet::from([("example.com".into(), "v1".into())]));
    let absences = Absences { versions, ..Absences::default() };
    let (catalog, _) = looks.unserved.apply(&looks.catalog, &Catalog::default(), absences, true, looks.now);
    assert!(catalog.resolve("example.com/v1", "Widget").is_none());
}

/// Rule 2.9.
#[tokio::test(start_paused = true)]
async fn a_type_without_its_definition_is_removed() {
    let mut looks = Looks::new();
    let api_service = Definition::ApiService { group: "example.com".into(), version: "v1".into() };
    assert_eq!(looks.unserved.definition(&widgets()), Some(api_service));
    looks.unserved.defined(widgets().group_resource.clone());
    let crd = Definition::Crd(widgets().group_resource.clone());
    assert_eq!(looks.unserved.definition(&widgets()), Some(crd));
    assert!(!looks.without(true, false));
    assert!(looks.without(true, true));
}

#[test]
fn a_version_that_discovery_omits_entirely_is_still_watched() {
    let of = |version: &'static str, name: &str, kind: &str| {
        (version, ResourceType::of(name, version, kind, Scope::Namespaced))
    };
    let older = || of("v1beta1", "widgets.example.com", "Widget");
    let without = catalog([older()]);
    let with_others = catalog([older(), of("v1", "gadgets.example.com", "Gadget")]);
    let kept = with_widgets();
    assert!(is_version_kept(&widgets(), &without, &kept));
    assert!(!is_version_kept(&widgets(), &with_others, &kept), "the version is shown, without the kind");
    assert!(!is_version_kept(&widgets(), &without, &without), "it is known to be gone");
    assert!(!is_version_kept(&widgets(), &kept, &kept), "another reason to begin anew");
}

#[test]
fn thousands_of_types_of_one_version_are_one_short_error() {
    let missing: Vec<_> = (0..2000)
        .map(|number| {
            let group_resource = GroupResource::parse(&format!("widgets{number}.example.com"));
            Arc::new(ResourceType { group_resource, ..(*widgets()).clone() })
        })
        .collect();
    let before = catalog(missing.iter().map(|resource| ("v1", Arc::clone(resource))));
    let mut unserved = Unserved::default();
    let absences = Absences { missing, ..Absences::default() };
    unserved.apply(&before, &Catalog::default(), absences, true, Instant::now());
    let failing = unserved.failing();
    assert_eq!(failing.len(), 1);
    let error = &failing[0].failure.error;
    assert!(error.len() <= 2 * kube_gc_core::text::LONGEST, "{} bytes", error.len());
    assert!(error.contains("and 1,984 more"), "{error}");
}
