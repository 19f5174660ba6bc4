//! The order of a tree: readiness is in the server's tables, and the time of a deletion in the
//! object.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use super::answer::{Hidden, NodeExtra};
use kube_gc_insight::{Neighbourhood, Shown, Standing, Worst};

/// An object that was deleted longer ago than this is stuck, as for `kube-gc stuck`.
const STUCK: Duration = Duration::from_secs(60);

/// The worst `most` dependents of each owner and type, and what is known of the others.
pub(super) fn worst(
    shown: &Neighbourhood,
    mut extras: HashMap<usize, NodeExtra>,
    most: usize,
    now: SystemTime,
) -> (Neighbourhood, HashMap<usize, NodeExtra>, HashMap<usize, Hidden>) {
    let Worst { shown: kept, places, left_out } =
        shown.worst(|place| standing(&shown.nodes[place], extras.get(&place), now), most);
    let rows = |place: &usize| extras.get(place).map(|extra| extra.row.as_slice());
    let hidden = left_out.iter().enumerate().filter(|(_, places)| !places.is_empty());
    let hidden = hidden.map(|(more, places)| (more, of_rows(places.iter().filter_map(rows)))).collect();
    let kept_extras = places.iter().enumerate().filter_map(|(new, old)| Some((new, extras.remove(old)?)));
    let kept_extras = kept_extras.collect();
    (kept, kept_extras, hidden)
}

fn standing(node: &Shown, extra: Option<&NodeExtra>, now: SystemTime) -> Standing {
    if node.state.is_being_deleted() {
        let deleted = extra.and_then(|extra| extra.details.as_ref()?.deleted.as_deref());
        let deleted = deleted.and_then(|time| humantime::parse_rfc3339_weak(time).ok());
        let since = deleted.and_then(|time| now.duration_since(time).ok());
        return if since.is_some_and(|since| since > STUCK) {
            Standing::Stuck
        } else {
            Standing::Terminating
        };
    }
    match extra.and_then(|extra| is_ready(&extra.row)) {
        Some(false) => Standing::NotReady,
        Some(true) | None => Standing::Other,
    }
}

/// What the rows of objects that are not shown have in common.
fn of_rows<'r>(rows: impl Iterator<Item = &'r [(String, String)]>) -> Hidden {
    let mut hidden = Hidden::default();
    for row in rows {
        if let Some(is_ready) = is_ready(row) {
            hidden.judged += 1;
            hidden.ready += usize::from(is_ready);
        }
        if let Some(age) = cell(row, "Age").and_then(|cell| Some((seconds(cell)?, cell))) {
            hidden.aged += 1;
            if hidden.oldest.as_ref().is_none_or(|(oldest, _)| *oldest < age.0) {
                hidden.oldest = Some((age.0, age.1.to_owned()));
            }
        }
    }
    hidden
}

fn cell<'r>(row: &'r [(String, String)], column: &str) -> Option<&'r str> {
    row.iter().find(|(name, _)| name.eq_ignore_ascii_case(column)).map(|(_, cell)| cell.as_str())
}

/// Whether an object is ready, as far as its row says: `2/3`, `True`, or a number beside the one
/// that is desired.
fn is_ready(row: &[(String, String)]) -> Option<bool> {
    // A pod that has done its work is not meant to be ready.
    if cell(row, "Status").is_some_and(|status| matches!(status, "Completed" | "Succeeded")) {
        return None;
    }
    let ready = cell(row, "Ready")?;
    if let Some((ready, all)) = ready.split_once('/') {
        return Some(ready.parse::<u64>().ok()? >= all.parse::<u64>().ok()?);
    }
    match ready {
        "True" => Some(true),
        "False" | "Unknown" => Some(false),
        number => {
            let desired = cell(row, "Desired")?.parse::<u64>().ok()?;
            Some(number.parse::<u64>().ok()? >= desired)
        }
    }
}

/// The length of a time such as `3d4h`, as the server writes ages.
fn seconds(age: &str) -> Option<u64> {
    let (mut all, mut number) = (0_u64, None::<u64>);
    for symbol in age.chars() {
        if let Some(digit) = symbol.to_digit(10) {
            number = Some(number.unwrap_or(0).checked_mul(10)?.checked_add(digit.into())?);
            continue;
        }
        let unit = match symbol {
            's' => 1,
            'm' => 60,
            'h' => 3_600,
            'd' => 86_400,
            'y' => 365 * 86_400,
            _ => return None,
        };
        all = all.checked_add(number.take()?.checked_mul(unit)?)?;
    }
    (number.is_none() && !age.is_empty()).then_some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube_gc_insight::{Details, ObjectName, State};

    fn row(cells: &[(&str, &str)]) -> Vec<(String, String)> {
        cells.iter().map(|&(name, cell)| (name.to_owned(), cell.to_owned())).collect()
    }

    #[test]
    fn rows_say_whether_an_object_is_ready() {
        for (cells, expected) in [
            (&[("Ready", "2/2")][..], Some(true)),
            (&[("READY", "1/2")], Some(false)),
            (&[("Ready", "0/0")], Some(true)),
            (&[("Ready", "0/1"), ("Status", "Completed")], None),
            (&[("Ready", "0/1"), ("Status", "Running")], Some(false)),
            (&[("Ready", "True")], Some(true)),
            (&[("Ready", "False")], Some(false)),
            (&[("Ready", "Unknown")], Some(false)),
            (&[("Desired", "3"), ("Ready", "2")], Some(false)),
            (&[("Desired", "3"), ("Ready", "3")], Some(true)),
            (&[("Ready", "3")], None),
            (&[("Ready", "")], None),
            (&[("Ready", "99999999999999999999/1")], None),
            (&[], None),
        ] {
            assert_eq!(is_ready(&row(cells)), expected, "{cells:?}");
        }
    }

    #[test]
    fn ages_of_the_server_are_compared() {
        assert_eq!(seconds("90s"), Some(90));
        assert_eq!(seconds("3m20s"), Some(200));
        assert_eq!((seconds("2h5m"), seconds("3d4h")), (Some(7_500), Some(273_600)));
        assert_eq!(seconds("2y45d"), Some((2 * 365 + 45) * 86_400));
        for wrong in ["", "<unknown>", "5", "s", "1w", "99999999999999999999d"] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_deletion_of_long_ago_is_worse_than_one_of_now() {
        let now = humantime::parse_rfc3339_weak("2026-01-01T00:12:00Z").unwrap();
        let node = |state| Shown {
            name: ObjectName {
                api_version: "v1".into(),
                kind: "Pod".into(),
                resource: None,
                namespace: None,
                name: "x".into(),
                uid: "x".into(),
            },
            state,
            waits_for: 0,
            distance: 1,
            identity: None,
        };
        let extra = |deleted: Option<&str>, ready: &str| NodeExtra {
            row: row(&[("Ready", ready)]),
            details: Some(Details { deleted: deleted.map(str::to_owned), ..Details::default() }),
        };
        let of = |state, deleted, ready| standing(&node(state), Some(&extra(deleted, ready)), now);
        assert_eq!(of(State::Terminating, Some("2026-01-01T00:10:00Z"), "1/1"), Standing::Stuck);
        assert_eq!(of(State::DeletingDependents, Some("2026-01-01T00:11:30Z"), "1/1"), Standing::Terminating);
        assert_eq!(of(State::Terminating, Some("2026-01-01T00:13:00Z"), "0/1"), Standing::Terminating);
        assert_eq!(of(State::Terminating, None, "0/1"), Standing::Terminating);
        assert_eq!(of(State::Live, None, "0/1"), Standing::NotReady);
        assert_eq!(of(State::Live, None, "1/1"), Standing::Other);
        assert_eq!(standing(&node(State::Live), None, now), Standing::Other);
    }

    #[test]
    fn what_is_not_shown_is_summed_up() {
        let rows = [
            row(&[("Ready", "1/1"), ("Age", "3d4h")]),
            row(&[("Ready", "0/1"), ("Age", "90m")]),
            row(&[("Ready", "1/1"), ("Age", "<unknown>")]),
            row(&[]),
        ];
        let hidden = of_rows(rows.iter().map(Vec::as_slice));
        assert_eq!((hidden.judged, hidden.ready, hidden.aged), (3, 2, 2));
        assert_eq!(hidden.oldest.unwrap().1, "3d4h");
    }
}
