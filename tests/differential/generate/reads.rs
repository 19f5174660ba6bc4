//! Requests that change nothing.

use serde_json::{Value, json};

use super::{Generator, Planned};
use crate::request::{Kind, Request, Step};
use crate::types::Type;

const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

const LABEL_SELECTORS: &[&str] =
    &["s=1", "s==2", "s!=1", "s", "!s", "s in (1,2)", "s notin (1)", "s=1,x", "x=", "s>1", "run,s in (2)"];
const BAD_LABEL_SELECTORS: &[&str] = &["=", "s=1,", "s in 1", "a b=c", "s gt 1"];
const BAD_FIELD_SELECTORS: &[&str] = &["metadata.uid=x", "metadata.name", "metadata.generation=1"];

impl Generator {
    pub(super) fn get(&mut self) -> Planned {
        let about = (!self.things.is_empty()).then(|| self.random.below(self.things.len()));
        let Some(about) = about else { return self.create() };
        let mut request = Request::new(Kind::Get, "GET", self.things[about].path());
        if self.random.percent(30) {
            request = request.accept(METADATA);
        }
        (Step::Send(request), Some(about))
    }

    /// Where to list: a namespace, or all objects of the run.
    fn somewhere(&mut self, of: &Type) -> Option<String> {
        if self.random.percent(25) { None } else { self.some_namespace(of) }
    }

    /// Restricts a request to the objects of this run.
    fn scoped(request: Request, namespace: Option<&str>, selector: Option<&str>) -> Request {
        match (namespace, selector) {
            (Some(_), None) => request,
            (Some(_), Some(selector)) => request.with("labelSelector", selector),
            (None, None) => request.with("labelSelector", "run=<run>"),
            (None, Some(selector)) => request.with("labelSelector", format!("run=<run>,{selector}")),
        }
    }

    /// A consistent list.
    pub(super) fn list(&mut self) -> Vec<Planned> {
        let of = self.some_type();
        let namespace = self.somewhere(of);
        let selector = self.random.percent(35).then(|| *self.random.pick(LABEL_SELECTORS));
        let path = of.collection(namespace.as_deref());
        let mut request = Self::scoped(Request::new(Kind::List, "GET", path), namespace.as_deref(), selector);
        if self.random.percent(15) {
            let name = self.name(of);
            let field = *self.random.pick(&["metadata.name=", "metadata.name!="]);
            request = request.with("fieldSelector", format!("{field}{name}"));
        }
        if self.random.percent(30) {
            request.kind = Kind::ListMetadata;
            request = request.accept(METADATA_LIST);
        }
        match self.random.below(10) {
            0 => request = request.with("labelSelector", *self.random.pick(BAD_LABEL_SELECTORS)),
            1 => request = request.with("fieldSelector", *self.random.pick(BAD_FIELD_SELECTORS)),
            2 => request.accept = "text/html".to_owned(),
            _ => {}
        }
        // Only the first value of a parameter counts.
        request.query.reverse();
        vec![(Step::Send(request), None)]
    }

    /// A list in pages, with changes in between.
    pub(super) fn paged(&mut self) -> Vec<Planned> {
        let of = self.some_type();
        let namespace = self.somewhere(of);
        let selector = self.random.percent(30).then(|| *self.random.pick(LABEL_SELECTORS));
        let path = of.collection(namespace.as_deref());
        let first = Self::scoped(Request::new(Kind::ListPaged, "GET", path), namespace.as_deref(), selector);
        let limit = (*self.random.pick(&["1", "1", "2"])).to_owned();
        let within = namespace.as_deref().or(of.namespaced.then_some("<run>a"));
        // Usually enough for three pages.
        let mut steps: Vec<Planned> =
            (0..3).map(|_| (self.marker(of, within, &marked(selector)).1, None)).collect();
        let start = self.step + steps.len();
        steps.push((Step::Send(first.clone().with("limit", limit.clone())), None));
        steps.push((self.marker(of, within, &marked(selector)).1, None));
        let next = |step: usize| format!("<{step}/metadata/continue>");
        let mut second = first.clone().with("limit", limit).with("continue", next(start));
        match self.random.below(8) {
            0 => second = second.with("resourceVersion", "5"),
            1 => second = second.with("resourceVersion", "0"),
            2 => second = first.clone().with("continue", next(start)),
            3 => second = first.clone().with("limit", "2").with("continue", "abc"),
            4 => second = second.with("resourceVersionMatch", "Exact").with("resourceVersion", "0"),
            _ => {}
        }
        steps.push((Step::Send(second), None));
        let third = first.with("limit", "500").with("continue", next(start + 2));
        steps.push((Step::Send(third), None));
        steps
    }

    /// Lists at known versions, and not older than them. A marker and a list that is not older
    /// than it come first, so that the watch cache is up to date.
    pub(super) fn list_at_version(&mut self) -> Vec<Planned> {
        let of = self.some_type();
        let namespace = self.some_namespace(of);
        let mut steps = self.settled(of, namespace.as_deref());
        let marker = format!("<{}/metadata/resourceVersion>", self.step);
        let older: Vec<usize> = self.things.iter().filter_map(super::Thing::last).collect();
        let older = if older.is_empty() { self.step } else { *self.random.pick(&older) };
        let older = format!("<{older}/metadata/resourceVersion>");
        let path = of.collection(namespace.as_deref());
        let request = Request::new(Kind::ListAtVersion, "GET", path);
        let request = Self::scoped(request, namespace.as_deref(), None);
        let (version, matching, limit) = match self.random.below(13) {
            0 | 1 => ("0", "", ""),
            2 => ("0", "", "1"),
            3 => ("0", "NotOlderThan", ""),
            4 => (&*older, "Exact", ""),
            5 => (&*older, "Exact", "1"),
            6 => (&*marker, "Exact", ""),
            7 => (&*marker, "NotOlderThan", "2"),
            8 => (&*older, "", "2"),
            9 => ("0", "Exact", ""),
            10 => ("", "Exact", ""),
            11 => (&*marker, "Roughly", ""),
            _ => ("abc", *self.random.pick(&["", "Exact"]), ""),
        };
        let mut request = request;
        for (name, value) in
            [("resourceVersion", version), ("resourceVersionMatch", matching), ("limit", limit)]
        {
            if !value.is_empty() {
                request = request.with(name, value);
            }
        }
        steps.push((Step::Send(request), None));
        steps
    }

    /// A marker, and a list that waits until the watch cache has it.
    fn settled(&mut self, of: &Type, namespace: Option<&str>) -> Vec<Planned> {
        let (_, marker) = self.marker(of, namespace, &json!({}));
        let path = of.collection(namespace);
        let request = Self::scoped(Request::new(Kind::ListAtVersion, "GET", path), namespace, None);
        let version = format!("<{}/metadata/resourceVersion>", self.step);
        vec![(marker, None), (Step::Send(request.with("resourceVersion", version)), None)]
    }

    /// A watch that is read at once.
    pub(super) fn watch(&mut self) -> Vec<Planned> {
        let of = self.some_type();
        let namespace = self.some_namespace(of);
        let selector = self.random.percent(40).then(|| *self.random.pick(&["s=1", "s=2", "!s", "s!=1", "x"]));
        let path = of.collection(namespace.as_deref());
        let request = Request::new(Kind::Watch, "GET", path).with("watch", "1").with("timeoutSeconds", "30");
        let mut request = Self::scoped(request, namespace.as_deref(), selector);
        if self.random.percent(30) {
            request = request.accept(METADATA);
        }
        if self.random.percent(30) {
            request = request.with("allowWatchBookmarks", "true");
        }
        let bad = match self.random.below(14) {
            0 => Some(("resourceVersion", "abc")),
            1 => Some(("resourceVersionMatch", "NotOlderThan")),
            2 => Some(("fieldSelector", "metadata.uid=x")),
            _ => None,
        };
        if let Some((name, value)) = bad {
            let request = request.with(name, value);
            return vec![(Step::Watch(request, None), None)];
        }
        let labels = marked(selector);
        let from: Vec<usize> = self
            .things
            .iter()
            .filter(|thing| std::ptr::eq(thing.of, of) && thing.namespace == namespace)
            .flat_map(|thing| thing.shown.iter().copied())
            .collect();
        if !from.is_empty() && self.random.percent(65) {
            // From a version on.
            let (name, marker) = self.marker(of, namespace.as_deref(), &labels);
            let version = format!("<{}/metadata/resourceVersion>", self.random.pick(&from));
            let request = request.with("resourceVersion", version);
            return vec![(marker, None), (Step::Watch(request, Some(name)), None)];
        }
        // From the present state. The second marker is created after the watch has begun.
        let mut steps = self.settled(of, namespace.as_deref());
        let existing = Some(self.step);
        let (name, marker) = self.marker(of, namespace.as_deref(), &labels);
        if self.random.percent(50) {
            request = request.with("resourceVersion", "0");
        }
        let step = self.step + steps.len();
        steps.push((Step::Open(request), None));
        steps.push((marker, None));
        steps.push((Step::Close { opened: step, until: name, existing }, None));
        steps
    }

    /// Opens a watch that continues.
    pub(super) fn open(&mut self) -> Vec<Planned> {
        if self.open.len() >= 3 {
            return self.close();
        }
        let of = self.some_type();
        let namespace = self.some_namespace(of);
        let mut steps = self.settled(of, namespace.as_deref());
        let path = of.collection(namespace.as_deref());
        let request = Request::new(Kind::Watch, "GET", path).with("watch", "1").with("timeoutSeconds", "300");
        let mut request = Self::scoped(request, namespace.as_deref(), None)
            .with("resourceVersion", format!("<{}/metadata/resourceVersion>", self.step));
        if self.random.percent(30) {
            request = request.accept(METADATA);
        }
        self.open.push((self.step + steps.len(), of, namespace));
        steps.push((Step::Open(request), None));
        steps
    }

    /// Closes a watch and compares all its events.
    pub(super) fn close(&mut self) -> Vec<Planned> {
        if self.open.is_empty() {
            return vec![self.get()];
        }
        let (opened, of, namespace) = self.open.remove(0);
        let (until, marker) = self.marker(of, namespace.as_deref(), &json!({}));
        vec![(marker, None), (Step::Close { opened, until, existing: None }, None)]
    }
}

/// Labels with which the selector selects a marker.
fn marked(selector: Option<&str>) -> Value {
    match selector {
        Some("s=1") => json!({"s": "1"}),
        Some("s==2" | "s=2" | "s!=1" | "s in (1,2)" | "s notin (1)" | "s" | "s>1" | "run,s in (2)") => {
            json!({"s": "2"})
        }
        Some("s=1,x") => json!({"s": "1", "x": ""}),
        Some("x" | "x=") => json!({"x": ""}),
        _ => json!({}),
    }
}
