//! The columns after the name that `kubectl get` prints for built-in types.

use std::time::SystemTime;

use serde_json::{Value, json};

use crate::resources::ResourceName;
use crate::time::parse;

/// A column of a built-in type.
pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) kind: &'static str,
    /// If it is not 0, only `-o wide` prints the column.
    pub(super) priority: i64,
    pub(super) cell: Cell,
}

/// The source of a cell.
#[derive(Clone, Copy)]
pub(super) enum Cell {
    /// A field of the object.
    Of(fn(&Value) -> Value),
    /// The time since the creation of the object.
    Age,
}

const fn text(name: &'static str, cell: fn(&Value) -> Value) -> Column {
    Column { name, kind: "string", priority: 0, cell: Cell::Of(cell) }
}

const fn number(name: &'static str, cell: fn(&Value) -> Value) -> Column {
    Column { name, kind: "integer", priority: 0, cell: Cell::Of(cell) }
}

const AGE: Column = Column { name: "Age", kind: "string", priority: 0, cell: Cell::Age };

const OTHERS: &[Column] = &[AGE];

/// The columns of a type.
pub(super) fn of(resource: &ResourceName) -> &'static [Column] {
    match (&*resource.group, &*resource.plural) {
        ("", "pods") => PODS,
        ("", "services") => SERVICES,
        ("", "namespaces") => const { &[text("Status", phase), AGE] },
        ("", "nodes") => const { &[text("Status", ready), AGE, text("Version", kubelet_version)] },
        ("", "configmaps") => const { &[number("Data", data), AGE] },
        ("", "secrets") => const { &[text("Type", |o| shown(o, "/type")), number("Data", data), AGE] },
        ("", "serviceaccounts") => const { &[number("Secrets", |o| length(o, "/secrets")), AGE] },
        ("", "persistentvolumeclaims") => CLAIMS,
        ("", "persistentvolumes") => VOLUMES,
        ("", "events") => EVENTS,
        ("", "replicationcontrollers") | ("apps", "replicasets") => REPLICA_SETS,
        ("apps", "deployments") => DEPLOYMENTS,
        ("apps", "statefulsets") => const { &[text("Ready", ready_of_replicas), AGE] },
        ("apps", "daemonsets") => DAEMON_SETS,
        ("batch", "jobs") => const { &[text("Completions", completions), AGE] },
        ("batch", "cronjobs") => CRON_JOBS,
        ("coordination.k8s.io", "leases") => {
            const { &[text("Holder", |o| shown(o, "/spec/holderIdentity")), AGE] }
        }
        ("apiextensions.k8s.io", "customresourcedefinitions") => const { &[CREATED_AT] },
        ("apiregistration.k8s.io", "apiservices") => {
            const { &[text("Service", backend), text("Available", available), AGE] }
        }
        _ => OTHERS,
    }
}

const CREATED_AT: Column = Column {
    name: "Created At",
    kind: "date",
    priority: 0,
    cell: Cell::Of(|object| shown(object, "/metadata/creationTimestamp")),
};

const PODS: &[Column] = &[
    text("Ready", ready_containers),
    text("Status", pod_status),
    number("Restarts", restarts),
    AGE,
    Column { name: "Node", kind: "string", priority: 1, cell: Cell::Of(|o| or_none(o, "/spec/nodeName")) },
];

const SERVICES: &[Column] = &[
    text("Type", |o| shown(o, "/spec/type")),
    text("Cluster-IP", |o| or_none(o, "/spec/clusterIP")),
    text("External-IP", |o| or_none(o, "/spec/externalIPs/0")),
    text("Port(s)", ports),
    AGE,
];

const CLAIMS: &[Column] = &[
    text("Status", phase),
    text("Volume", |o| shown(o, "/spec/volumeName")),
    text("Capacity", |o| shown(o, "/status/capacity/storage")),
    text("StorageClass", |o| shown(o, "/spec/storageClassName")),
    AGE,
];

const VOLUMES: &[Column] = &[
    text("Capacity", |o| shown(o, "/spec/capacity/storage")),
    text("Reclaim Policy", |o| shown(o, "/spec/persistentVolumeReclaimPolicy")),
    text("Status", phase),
    AGE,
];

const EVENTS: &[Column] = &[
    text("Type", |o| shown(o, "/type")),
    text("Reason", |o| shown(o, "/reason")),
    text("Object", involved),
    text("Message", |o| shown(o, "/message")),
    AGE,
];

const REPLICA_SETS: &[Column] = &[
    number("Desired", |o| count(o, "/spec/replicas")),
    number("Current", |o| count(o, "/status/replicas")),
    number("Ready", |o| count(o, "/status/readyReplicas")),
    AGE,
];

const DEPLOYMENTS: &[Column] = &[
    text("Ready", ready_of_replicas),
    number("Up-to-date", |o| count(o, "/status/updatedReplicas")),
    number("Available", |o| count(o, "/status/availableReplicas")),
    AGE,
];

const DAEMON_SETS: &[Column] = &[
    number("Desired", |o| count(o, "/status/desiredNumberScheduled")),
    number("Current", |o| count(o, "/status/currentNumberScheduled")),
    number("Ready", |o| count(o, "/status/numberReady")),
    number("Up-to-date", |o| count(o, "/status/updatedNumberScheduled")),
    number("Available", |o| count(o, "/status/numberAvailable")),
    AGE,
];

const CRON_JOBS: &[Column] = &[
    text("Schedule", |o| shown(o, "/spec/schedule")),
    text("Suspend", |o| flag(o, "/spec/suspend")),
    number("Active", |o| length(o, "/status/active")),
    AGE,
];

fn string<'a>(object: &'a Value, pointer: &str) -> Option<&'a str> {
    object.pointer(pointer)?.as_str().filter(|text| !text.is_empty())
}

fn shown(object: &Value, pointer: &str) -> Value {
    string(object, pointer).unwrap_or_default().into()
}

fn or_none(object: &Value, pointer: &str) -> Value {
    string(object, pointer).unwrap_or("<none>").into()
}

fn flag(object: &Value, pointer: &str) -> Value {
    let set = object.pointer(pointer).and_then(Value::as_bool).unwrap_or_default();
    if set { "True".into() } else { "False".into() }
}

fn integer(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or_default()
}

fn count(object: &Value, pointer: &str) -> Value {
    integer(object, pointer).into()
}

fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn length(object: &Value, pointer: &str) -> Value {
    list(object, pointer).len().into()
}

fn data(object: &Value) -> Value {
    let entries =
        |pointer| object.pointer(pointer).and_then(Value::as_object).map_or(0, serde_json::Map::len);
    (entries("/data") + entries("/binaryData")).into()
}

fn phase(object: &Value) -> Value {
    if object.pointer("/metadata/deletionTimestamp").is_some() {
        return "Terminating".into();
    }
    shown(object, "/status/phase")
}

fn pod_status(pod: &Value) -> Value {
    if pod.pointer("/metadata/deletionTimestamp").is_some() {
        return "Terminating".into();
    }
    string(pod, "/status/reason").or_else(|| string(pod, "/status/phase")).unwrap_or("Pending").into()
}

fn ready_containers(pod: &Value) -> Value {
    let ready = list(pod, "/status/containerStatuses").iter().filter(|one| one["ready"] == true).count();
    format!("{ready}/{}", list(pod, "/spec/containers").len()).into()
}

fn restarts(pod: &Value) -> Value {
    let statuses = list(pod, "/status/containerStatuses").iter();
    statuses.map(|one| integer(one, "/restartCount")).fold(0, i64::saturating_add).into()
}

fn ports(service: &Value) -> Value {
    let ports = list(service, "/spec/ports").iter();
    let ports: Vec<String> = ports
        .map(|port| {
            let protocol = string(port, "/protocol").unwrap_or("TCP");
            format!("{}/{protocol}", integer(port, "/port"))
        })
        .collect();
    if ports.is_empty() { "<none>".into() } else { ports.join(",").into() }
}

fn ready(node: &Value) -> Value {
    let condition = list(node, "/status/conditions").iter().find(|one| one["type"] == "Ready");
    let status = condition.and_then(|one| one["status"].as_str());
    match status {
        Some("True") => "Ready".into(),
        Some(_) => "NotReady".into(),
        None => "Unknown".into(),
    }
}

fn kubelet_version(node: &Value) -> Value {
    shown(node, "/status/nodeInfo/kubeletVersion")
}

fn ready_of_replicas(object: &Value) -> Value {
    format!("{}/{}", integer(object, "/status/readyReplicas"), integer(object, "/spec/replicas")).into()
}

fn completions(job: &Value) -> Value {
    let wanted = job.pointer("/spec/completions").and_then(Value::as_i64).unwrap_or(1);
    format!("{}/{wanted}", integer(job, "/status/succeeded")).into()
}

fn involved(event: &Value) -> Value {
    let of = |field: &str| {
        let places = [format!("/involvedObject/{field}"), format!("/regarding/{field}")];
        places.iter().find_map(|place| string(event, place)).unwrap_or_default().to_owned()
    };
    format!("{}/{}", of("kind").to_lowercase(), of("name")).into()
}

fn backend(service: &Value) -> Value {
    match (string(service, "/spec/service/namespace"), string(service, "/spec/service/name")) {
        (Some(namespace), Some(name)) => format!("{namespace}/{name}").into(),
        _ => "Local".into(),
    }
}

fn available(service: &Value) -> Value {
    let condition = list(service, "/status/conditions").iter().find(|one| one["type"] == "Available");
    match condition {
        Some(condition) if condition["status"] == "True" => "True".into(),
        Some(condition) => json!(format!(
            "{} ({})",
            condition["status"].as_str().unwrap_or_default(),
            condition["reason"].as_str().unwrap_or_default()
        )),
        None => "Unknown".into(),
    }
}

/// The time since a moment, in kubectl's format.
pub(super) fn age(since: Option<&str>, now: SystemTime) -> Value {
    let Some(since) = since.and_then(parse) else { return "<unknown>".into() };
    duration(now.duration_since(since).unwrap_or_default().as_secs()).into()
}

/// A duration in kubectl's format, whose precision depends on its length.
fn duration(seconds: u64) -> String {
    let two = |large: u64, unit: &str, small: u64, part: &str| match small {
        0 => format!("{large}{unit}"),
        _ => format!("{large}{unit}{small}{part}"),
    };
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let days = hours / 24;
    match () {
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => two(hours, "h", minutes % 60, "m"),
        () if hours < 48 => format!("{hours}h"),
        () if days < 8 => two(days, "d", hours % 24, "h"),
        () if days < 730 => format!("{days}d"),
        () if days < 2920 => two(days / 365, "y", days % 365, "d"),
        () => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_as_precise_as_they_are_short() {
        for (seconds, text) in [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (599, "9m59s"),
            (3 * 3600 - 1, "179m"),
            (3 * 3600 + 60, "3h1m"),
            (47 * 3600, "47h"),
            (49 * 3600, "2d1h"),
            (100 * 86_400, "100d"),
            (800 * 86_400, "2y70d"),
        ] {
            assert_eq!(duration(seconds), text);
        }
    }

    #[test]
    fn a_pod_shows_its_readiness() {
        let pod = json!({
            "spec": {"containers": [{}, {}]},
            "status": {
                "phase": "Running",
                "containerStatuses": [{"ready": true, "restartCount": 2}, {"ready": false, "restartCount": 1}],
            },
        });
        let pods = of(&ResourceName::new("", "pods"));
        let cells: Vec<Value> = pods
            .iter()
            .filter_map(|column| match column.cell {
                Cell::Of(cell) => Some(cell(&pod)),
                Cell::Age => None,
            })
            .collect();
        assert_eq!(cells, [json!("1/2"), json!("Running"), json!(3), json!("<none>")]);
    }

    #[test]
    fn a_restart_count_that_overflows_is_the_maximum() {
        let status = json!({"restartCount": i64::MAX});
        let pod = json!({"status": {"containerStatuses": [status, status]}});
        assert_eq!(restarts(&pod), json!(i64::MAX));
    }
}
