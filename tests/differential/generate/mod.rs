//! Random sequences of requests. Most are valid, the others are invalid on purpose.

mod metadata;
mod reads;
mod writes;

use serde_json::{Value, json};

use super::model::Thing;
use super::random::Random;
use super::request::{Kind, Request, Step};
use super::side::Answer;
use super::types::{CONFIG_MAPS, NAMESPACES, ORDINARY, Type};

/// A uid that no object has.
pub const NO_UID: &str = "17c1b0d5-0000-4000-8000-000000000000";

/// A step, and the object that it is about.
pub type Planned = (Step, Option<usize>);

/// The generator.
#[derive(Debug)]
pub struct Generator {
    random: Random,
    things: Vec<Thing>,
    /// The number of steps so far.
    step: usize,
    /// The open watches: step, type and namespace.
    open: Vec<(usize, &'static Type, Option<String>)>,
    generated: usize,
}

/// The kinds of steps.
#[derive(Clone, Copy, Debug)]
enum Plan {
    Create,
    Get,
    Update,
    Merge,
    Json,
    Strategic,
    Delete,
    Collection,
    List,
    Paged,
    AtVersion,
    Watch,
    Open,
    Close,
    Namespace,
    Odd,
}

const PLANS: &[(usize, Plan)] = &[
    (22, Plan::Create),
    (5, Plan::Get),
    (10, Plan::Update),
    (13, Plan::Merge),
    (7, Plan::Json),
    (9, Plan::Strategic),
    (17, Plan::Delete),
    (3, Plan::Collection),
    (6, Plan::List),
    (3, Plan::Paged),
    (4, Plan::AtVersion),
    (4, Plan::Watch),
    (2, Plan::Open),
    (2, Plan::Close),
    (6, Plan::Namespace),
    (3, Plan::Odd),
];

impl Generator {
    /// The generator of a seed.
    pub fn new(seed: u64) -> Self {
        let random = Random::new(seed);
        Self { random, things: Vec::new(), step: 0, open: Vec::new(), generated: 0 }
    }

    /// The steps at the beginning of every sequence: two namespaces to work in, and one that is
    /// being deleted and contains something.
    pub fn beginning(&mut self) -> Vec<Planned> {
        let mut steps = Vec::new();
        for name in ["a", "b", "t"] {
            let name = format!("<run>{name}");
            let about = (name != "<run>t").then(|| self.thing(&NAMESPACES, None, &name));
            let namespace = NAMESPACES.object(json!({"name": name, "labels": {"run": "<run>"}}));
            steps.push((
                Step::Send(Request::new(Kind::Create, "POST", "/api/v1/namespaces").json(namespace)),
                about,
            ));
        }
        for (index, of) in [ORDINARY[0].1, ORDINARY[3].1, ORDINARY[7].1].into_iter().enumerate() {
            let (name, namespace) = (format!("t{index}"), Some("<run>t"));
            let about = self.thing(of, namespace, &name);
            let object =
                of.object(json!({"name": name, "labels": {"run": "<run>"}, "finalizers": ["a.b/c"]}));
            let request = Request::new(Kind::Create, "POST", of.collection(namespace)).json(object);
            steps.push((Step::Send(request), Some(about)));
        }
        let request = Request::new(Kind::NamespaceDelete, "DELETE", "/api/v1/namespaces/<run>t");
        steps.push((Step::Send(request), None));
        self.step += steps.len();
        steps
    }

    /// The next steps.
    pub fn next(&mut self) -> Vec<Planned> {
        let steps = match self.random.weighted(PLANS) {
            Plan::Create => vec![self.create()],
            Plan::Get => vec![self.get()],
            Plan::Update => self.about_something(Self::update),
            Plan::Merge => self.about_something(Self::merge_patch),
            Plan::Json => self.about_something(Self::json_patch),
            Plan::Strategic => self.about_something(Self::strategic_patch),
            Plan::Delete => self.about_something(Self::delete),
            Plan::Collection => vec![self.delete_collection()],
            Plan::List => self.list(),
            Plan::Paged => self.paged(),
            Plan::AtVersion => self.list_at_version(),
            Plan::Watch => self.watch(),
            Plan::Open => self.open(),
            Plan::Close => self.close(),
            Plan::Namespace => vec![self.namespace()],
            Plan::Odd => vec![self.odd()],
        };
        self.step += steps.len();
        steps
    }

    /// Closes the watches that are still open.
    pub fn ending(&mut self) -> Vec<Planned> {
        let mut steps = Vec::new();
        while !self.open.is_empty() {
            let closed = self.close();
            self.step += closed.len();
            steps.extend(closed);
        }
        steps
    }

    /// Learns from the answer of the first server.
    pub fn learn(&mut self, step: usize, about: Option<usize>, request: &Request, answer: &Answer) {
        let dry = request.query.iter().any(|(name, _)| name == "dryRun")
            || matches!(&request.body, super::request::Body::Json(body) if body.get("dryRun").is_some());
        if let Some(about) = about
            && !dry
        {
            self.things[about].learn(step, request.method, answer);
        }
        if request.method == "DELETE" && about.is_none() && answer.code == 200 {
            // After the deletion of a collection, later answers show what is left of it.
            for thing in &mut self.things {
                let collection = thing.of.collection(thing.namespace.as_deref());
                thing.alive &= collection != request.path || !thing.finalizers.is_empty();
            }
        }
    }

    /// The object with this name, whether or not it is known already.
    fn thing(&mut self, of: &'static Type, namespace: Option<&str>, name: &str) -> usize {
        let is_it = |thing: &Thing| {
            std::ptr::eq(thing.of, of) && thing.namespace.as_deref() == namespace && thing.name == name
        };
        self.things.iter().position(is_it).unwrap_or_else(|| {
            self.things.push(Thing {
                of,
                namespace: namespace.map(ToOwned::to_owned),
                name: name.to_owned(),
                shown: Vec::new(),
                alive: false,
                terminating: false,
                finalizers: Vec::new(),
                owners: 0,
            });
            self.things.len() - 1
        })
    }

    /// A step about an existing object, usually. If there is none, a step that creates one.
    fn about_something(&mut self, plan: fn(&mut Self, usize) -> Request) -> Vec<Planned> {
        let ordinary = |thing: &Thing| !std::ptr::eq(thing.of, &NAMESPACES);
        let known = |alive: bool| -> Vec<usize> {
            let fits = |index: &usize| {
                let thing = &self.things[*index];
                ordinary(thing) && thing.alive == alive && !thing.shown.is_empty()
            };
            (0..self.things.len()).filter(fits).collect()
        };
        let (alive, gone) = (known(true), known(false));
        let from = if !gone.is_empty() && self.random.percent(8) { gone } else { alive };
        if from.is_empty() {
            return vec![self.create()];
        }
        // Recently created objects are more interesting.
        let about = if self.random.percent(50) {
            from[from.len() - 1 - self.random.below(from.len().min(4))]
        } else {
            *self.random.pick(&from)
        };
        let request = plan(self, about);
        vec![(Step::Send(request), Some(about))]
    }

    /// A type for ordinary requests.
    fn some_type(&mut self) -> &'static Type {
        self.random.weighted(ORDINARY)
    }

    /// A namespace to work in, if the type is namespaced.
    fn some_namespace(&mut self, of: &Type) -> Option<String> {
        let namespace = self.random.weighted(&[(6, "<run>a"), (3, "<run>b")]);
        of.namespaced.then(|| namespace.to_owned())
    }

    /// Creates a marker. When a watch or a watch cache shows it, it has shown everything before
    /// it.
    fn marker(&mut self, of: &Type, namespace: Option<&str>, labels: &Value) -> (String, Step) {
        self.generated += 1;
        let name = format!("<run>marker{}", self.generated);
        let mut metadata = json!({"name": name, "labels": labels});
        metadata["labels"]["run"] = "<run>".into();
        let request = Request::new(Kind::Create, "POST", of.collection(namespace)).json(of.object(metadata));
        (name, Step::Send(request))
    }

    /// A request that fits no other kind.
    fn odd(&mut self) -> Planned {
        let maps = CONFIG_MAPS.collection(Some("<run>a"));
        let one = |method: &'static str, path: String| Request::new(Kind::Odd, method, path);
        let body = CONFIG_MAPS.object(json!({"name": "odd"}));
        let requests = [
            one("PUT", maps.clone()).json(body.clone()),
            one("POST", format!("{maps}/odd")).json(body.clone()),
            one("POST", "/api/v1/configmaps".to_owned()).json(body.clone()),
            one("PUT", format!("{maps}/odd/status")).json(body),
            one("DELETE", "/api/v1/configmaps".to_owned()),
            one("DELETE", "/api/v1/namespaces".to_owned()),
            one("DELETE", "/api/v1/namespaces/default".to_owned()),
            one("DELETE", "/api/v1/namespaces/kube-system".to_owned()),
            one("GET", "/api/v1/namespaces/<run>a/gizmos".to_owned()),
            one("GET", "/apis/apps/v7/namespaces/<run>a/replicasets/x".to_owned()),
            one("GET", "/apis/nowhere.example.com/v1/gizmos".to_owned()),
            one("GET", format!("/apis/{}/v1/gizmos", super::types::GROUP)),
            one("DELETE", format!("/apis/{}/v7/namespaces/<run>a/widgets/x", super::types::GROUP)),
            one("GET", "/api/v1/namespaces/<run>a/nodes".to_owned()),
            one("GET", "/api/v1/configmaps/x".to_owned()),
            one("GET", maps.clone()).accept("text/html"),
            one("GET", maps.clone()).accept("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"),
            one("GET", maps).accept("application/json;as=Gizmo;g=meta.k8s.io;v=v1, */*"),
        ];
        (Step::Send(self.random.pick(&requests).clone()), None)
    }
}
