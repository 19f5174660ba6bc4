use super::*;
use kube_gc_insight::FinalizerSetter;

#[test]
fn who_set_a_finalizer_and_when_is_said_as_far_as_it_is_known() {
    let now = humantime::parse_rfc3339_weak("2026-02-11T00:00:00Z").unwrap();
    let look = Look { wide: false, headers: true, style: Style::plain(), now };
    let of = |manager: Option<&str>, times: [Option<&str>; 2], api_is_served| {
        let set_by = manager.map(|manager| FinalizerSetter {
            finalizer: "example.com/backup".into(),
            manager: manager.into(),
            time: None,
            last_write: None,
        });
        let (remover, when) = (None, None);
        let finalizer =
            FinalizerReport { name: "example.com/backup".into(), remover, when, set_by, api_is_served };
        let [first_set, last_write] = times.map(|time| time.map(str::to_owned));
        super::set_by(&HeldObjects { finalizer, first_set, last_write, count: 3, objects: Vec::new() }, &look)
    };
    let times = [Some("2026-01-01T00:00:00Z"), Some("2026-01-02T00:00:00Z")];
    assert_eq!(
        of(Some("backup-operator"), times, Some(true)),
        "backup-operator 41d ago; its API is served, and it has not written here for 40d"
    );
    assert_eq!(
        of(Some("backup-operator"), times, None),
        "backup-operator 41d ago; it has not written here for 40d"
    );
    assert_eq!(of(Some("backup-operator"), [None, None], None), "backup-operator");
    assert_eq!(of(None, [None, None], Some(false)), "-; its API is not served");
    assert_eq!(of(None, [None, None], None), "-");
}
