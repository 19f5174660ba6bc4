//! Runs a script on two servers step by step, and compares the answers.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;

use super::compare::{compare, compare_events};
use super::mapping::Mapping;
use super::request::{Answers, Request, Step};
use super::side::{Answer, Opened, Side, watched};

/// A step with different answers.
#[derive(Debug)]
pub struct Difference {
    /// The step.
    pub step: usize,
    /// The answers.
    pub answers: (Answer, Answer),
    /// The differences, each as left | right.
    pub differences: Vec<String>,
}

/// A script in progress.
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

    /// Executes one step on both servers.
    pub async fn step(&mut self, step: &Step) -> Result<(), Box<Difference>> {
        let index = self.answers[0].bodies.len();
        let [left, right] = self.sides;
        let [left_answers, right_answers] = &self.answers;
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
            Step::Close { opened, until } => {
                let Some((request, [Some(left_opened), Some(right_opened)])) = self.opened.remove(opened)
                else {
                    self.push(Value::Null, Value::Null);
                    return Ok(());
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
        self.compared(index, &request, answers)
    }

    fn compared(
        &mut self,
        index: usize,
        request: &Request,
        answers: (Answer, Answer),
    ) -> Result<(), Box<Difference>> {
        let (left, right) = answers;
        let mut differences = compare(&mut self.mapping, request, &left, &right);
        if let (Some(left), Some(right)) = (&left.events, &right.events) {
            differences.extend(compare_events(&mut self.mapping, request.bookmarks, left, right));
        } else if left.events.is_some() != right.events.is_some() {
            differences.push("only one is a watch".to_owned());
        }
        self.push(left.body.clone(), right.body.clone());
        if !differences.is_empty() {
            return Err(Box::new(Difference { step: index, answers: (left, right), differences }));
        }
        Ok(())
    }

    fn push(&mut self, left: Value, right: Value) {
        self.answers[0].bodies.push(left);
        self.answers[1].bodies.push(right);
    }
}
