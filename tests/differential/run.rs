//! Runs a sequence on two servers step by step, and compares the answers.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;

use super::compare::{compare, compare_events};
use super::generate::{Generator, Planned};
use super::mapping::Mapping;
use super::request::{Answers, Kind, Request, Step};
use super::side::{Answer, Opened, Side, watched};

/// How often each kind of request got each status code.
#[derive(Debug, Default)]
pub struct Tally(Mutex<BTreeMap<(Kind, u16), usize>>);

impl Tally {
    fn count(&self, kind: Kind, code: u16) {
        *self.0.lock().unwrap().entry((kind, code)).or_default() += 1;
    }

    /// The kinds that never succeeded or never failed.
    pub fn one_sided(&self) -> Vec<Kind> {
        let counts = self.0.lock().unwrap();
        let mut kinds: Vec<Kind> = counts.keys().map(|(kind, _)| *kind).collect();
        kinds.dedup();
        let has =
            |kind: Kind, good: bool| counts.keys().any(|(one, code)| *one == kind && (*code < 400) == good);
        kinds.into_iter().filter(|kind| !has(*kind, true) || !has(*kind, false)).collect()
    }

    /// The number of requests with the same answer.
    pub fn total(&self) -> usize {
        self.0.lock().unwrap().values().sum()
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut last = None;
        for ((kind, code), count) in self.0.lock().unwrap().iter() {
            if last != Some(*kind) {
                write!(f, "\n  {:<18}", format!("{kind:?}"))?;
                last = Some(*kind);
            }
            write!(f, " {code}: {count:<5}")?;
        }
        Ok(())
    }
}

/// A step with different answers.
#[derive(Debug)]
pub struct Difference {
    /// The step.
    pub step: usize,
    /// The request of the step, or that of the watch that it closes.
    pub request: Request,
    /// The answers.
    pub answers: (Answer, Answer),
    /// The differences, each as left | right.
    pub differences: Vec<String>,
}

impl Difference {
    /// A signature that differences with the same cause mostly share.
    pub fn signature(&self) -> String {
        let places = self.differences.iter().map(|one| match one.split_once(": ") {
            Some(("code", codes)) => format!("code {codes}"),
            Some((place, _)) => place.replace(|c: char| c.is_ascii_digit(), "_"),
            None => one.clone(),
        });
        let mut places: Vec<String> = places.collect();
        places.dedup();
        places.truncate(4);
        format!("{:?} {}", self.request.kind, places.join(", "))
    }

    /// Whether the states of the two servers may differ from now on.
    fn is_fatal(&self) -> bool {
        (self.answers.0.code < 300) != (self.answers.1.code < 300)
    }
}

/// A sequence in progress.
pub struct Run<'a> {
    sides: [&'a Side; 2],
    answers: [Answers; 2],
    mapping: Mapping,
    opened: BTreeMap<usize, (Request, [Option<Opened>; 2])>,
}

impl<'a> Run<'a> {
    /// A run whose names begin with this.
    pub fn new(left: &'a Side, right: &'a Side, name: &str) -> Self {
        let now = |side: &Side| (side.now)().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        // In the same second, because times are compared relative to the beginning.
        let began = loop {
            let before = Instant::now();
            let began = (i64::try_from(now(left)).unwrap(), i64::try_from(now(right)).unwrap());
            if before.elapsed() < Duration::from_millis(100) {
                break began;
            }
        };
        let answers = Answers { run: name.to_owned(), bodies: Vec::new() };
        Self {
            sides: [left, right],
            answers: [answers.clone(), answers],
            mapping: Mapping::new(began),
            opened: BTreeMap::new(),
        }
    }

    /// Executes one step on both servers, and returns the answer of the left one.
    pub async fn step(&mut self, step: &Step, tally: Option<&Tally>) -> Result<Answer, Box<Difference>> {
        let index = self.answers[0].bodies.len();
        let [left, right] = self.sides;
        let [left_answers, right_answers] = &self.answers;
        let mut existing = None;
        let sent = Instant::now();
        let (request, answers) = match step {
            Step::Send(request) => {
                let both = futures::future::join(
                    left.send(request, left_answers),
                    right.send(request, right_answers),
                );
                (request.clone(), both.await)
            }
            Step::Until(request, code, value) => {
                let wanted = (*code, value);
                let both = futures::future::join(
                    left.send_until(request, left_answers, wanted),
                    right.send_until(request, right_answers, wanted),
                );
                (request.clone(), both.await)
            }
            Step::Watch(request, until) => {
                let both = futures::future::join(
                    watched(left, request, until.as_deref(), left_answers),
                    watched(right, request, until.as_deref(), right_answers),
                );
                (request.clone(), both.await)
            }
            Step::Open(request) => {
                let both = futures::future::join(
                    left.open(request, left_answers),
                    right.open(request, right_answers),
                );
                let ((left, left_opened), (right, right_opened)) = both.await;
                self.opened.insert(index, (request.clone(), [left_opened, right_opened]));
                (request.clone(), (left, right))
            }
            Step::Close { opened, until, existing: before } => {
                existing = *before;
                let Some((request, [Some(left_opened), Some(right_opened)])) = self.opened.remove(opened)
                else {
                    self.push(Value::Null, Value::Null);
                    return Ok(Answer::default());
                };
                let (left_until, right_until) = (left_answers.resolve(until), right_answers.resolve(until));
                let (left_events, right_events) = futures::future::join(
                    left.close(&left_opened, Some(&left_until)),
                    right.close(&right_opened, Some(&right_until)),
                )
                .await;
                let answer = |events| Answer { code: 200, events: Some(events), ..Answer::default() };
                (request, (answer(left_events), answer(right_events)))
            }
        };
        if matches!(step, Step::Send(_) | Step::Until(..)) {
            self.mapping.took(sent.elapsed());
        }
        self.compared(index, &request, answers, existing, tally)
    }

    fn compared(
        &mut self,
        index: usize,
        request: &Request,
        answers: (Answer, Answer),
        existing: Option<usize>,
        tally: Option<&Tally>,
    ) -> Result<Answer, Box<Difference>> {
        let (mut left, mut right) = answers;
        let mut differences = compare(&mut self.mapping, request, &left, &right);
        if let (Some(left), Some(right)) = (&mut left.events, &mut right.events) {
            if let Some(existing) = existing {
                for (events, answers) in [(&mut *left, &self.answers[0]), (&mut *right, &self.answers[1])] {
                    sort_existing(events, version_of(&answers.bodies[existing]));
                }
            }
            differences.extend(compare_events(&mut self.mapping, request.kind, left, right));
        } else if left.events.is_some() != right.events.is_some() {
            differences.push("only one is a watch".to_owned());
        }
        self.push(left.body.clone(), right.body.clone());
        if !differences.is_empty() {
            let request = request.clone();
            return Err(Box::new(Difference { step: index, request, answers: (left, right), differences }));
        }
        if let Some(tally) = tally {
            tally.count(request.kind, left.code);
        }
        Ok(left)
    }

    fn push(&mut self, left: Value, right: Value) {
        self.answers[0].bodies.push(left);
        self.answers[1].bodies.push(right);
    }
}

fn version_of(object: &Value) -> u64 {
    let version = object.pointer("/metadata/resourceVersion").and_then(Value::as_str);
    version.and_then(|version| version.parse().ok()).unwrap_or_default()
}

/// Sorts the events about objects that existed when the watch began.
fn sort_existing(events: &mut [Value], up_to: u64) {
    let version = |event: &Value| version_of(&event["object"]);
    let first = events.iter().take_while(|event| event["type"] == "ADDED" && version(event) <= up_to).count();
    events[..first].sort_by_key(version);
}

/// A sequence that shows a difference.
#[derive(Debug)]
pub struct Failure {
    /// Its seed.
    pub seed: u64,
    /// Its steps, up to the one with the difference.
    pub steps: Vec<Step>,
    /// The first difference.
    pub difference: Difference,
    /// Later differences, up to the first one after which nothing can be compared.
    pub others: Vec<Difference>,
}

/// Runs the sequence of a seed.
pub async fn run_seed(
    sides: [&Side; 2],
    seed: u64,
    length: usize,
    tally: &Tally,
) -> Result<(), Box<Failure>> {
    let mut generator = Generator::new(seed);
    let mut run = Run::new(sides[0], sides[1], &format!("r{seed:x}x"));
    let mut steps: Vec<Step> = Vec::new();
    let mut planned: Vec<Planned> = generator.beginning();
    let mut ended = false;
    let mut failure: Option<Box<Failure>> = None;
    loop {
        for (step, about) in planned {
            let index = steps.len();
            steps.push(step.clone());
            match run.step(&step, Some(tally)).await {
                Ok(answer) => {
                    if let Step::Send(request) = &step {
                        generator.learn(index, about, request, &answer);
                    }
                }
                Err(difference) => {
                    let fatal = difference.is_fatal();
                    if let (Step::Send(request), false) = (&step, fatal) {
                        generator.learn(index, about, request, &difference.answers.0);
                    }
                    match &mut failure {
                        Some(failure) => failure.others.push(*difference),
                        None => {
                            let steps = steps.clone();
                            let first = Failure { seed, steps, difference: *difference, others: Vec::new() };
                            failure = Some(Box::new(first));
                        }
                    }
                    if fatal {
                        return failure.map_or(Ok(()), Err);
                    }
                }
            }
        }
        if ended {
            return failure.map_or(Ok(()), Err);
        }
        ended = steps.len() >= length;
        planned = if ended { generator.ending() } else { generator.next() };
    }
}

/// Removes the steps that the difference does not need: replays the sequence without one step
/// after the other, as long as the same step differs in the same place.
pub async fn shrink(sides: [&Side; 2], failure: &Failure) -> Vec<(usize, Step)> {
    let place = |differences: &[String]| {
        differences
            .first()
            .map(|one| one.split(':').next().unwrap_or_default().to_owned())
            .unwrap_or_default()
    };
    let wanted = place(&failure.difference.differences);
    let mut kept: Vec<bool> = vec![true; failure.steps.len()];
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(40);
    for left_out in (0..failure.steps.len() - 1).rev() {
        if tokio::time::Instant::now() > deadline {
            break;
        }
        kept[left_out] = false;
        let name = format!("s{:x}x{left_out}x", failure.seed);
        let mut run = Run::new(sides[0], sides[1], &name);
        let mut same = false;
        for (index, step) in failure.steps.iter().enumerate() {
            if !kept[index] {
                run.push(Value::Null, Value::Null);
                continue;
            }
            if let Err(difference) = run.step(step, None).await {
                same = index == failure.difference.step && place(&difference.differences) == wanted;
                break;
            }
        }
        kept[left_out] = !same;
    }
    failure.steps.iter().cloned().enumerate().filter(|(index, _)| kept[*index]).collect()
}
