use std::net::Ipv4Addr;

use futures::FutureExt as _;

use super::*;

/// Knows one token, and allows its user one page.
#[derive(Clone, Default)]
struct Fake {
    asked: Arc<Mutex<Vec<String>>>,
    down: Arc<AtomicBool>,
    revoked: Arc<AtomicBool>,
}

impl Fake {
    /// The answer of the server, unless it is down.
    fn ask<T>(&self, question: String, answer: Result<T, &str>) -> Result<T, ReviewError> {
        self.asked.lock().unwrap().push(question);
        if self.down.load(Ordering::SeqCst) {
            return Err(ReviewError::Unanswered("it is down".to_owned()));
        }
        answer.map_err(|reason| ReviewError::Denied(reason.to_owned()))
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }
}

impl Reviewer for Fake {
    fn identify<'a>(&'a self, token: &'a Token) -> BoxFuture<'a, Result<Arc<User>, ReviewError>> {
        let is_good = token.reveal() == "good" && !self.revoked.load(Ordering::SeqCst);
        let user = Arc::new(User { username: "prometheus".to_owned(), ..User::default() });
        let bearer = self.ask(token.reveal().to_owned(), is_good.then_some(user).ok_or("no such token"));
        async { bearer }.boxed()
    }

    fn may_get<'a>(&'a self, user: &'a User, path: &'a str) -> BoxFuture<'a, Result<(), ReviewError>> {
        let access = (path == "/metrics").then_some(()).ok_or("");
        let access = self.ask(format!("{} {path}", user.username), access);
        async { access }.boxed()
    }
}

async fn admit(authorizer: &Authorizer, token: &str, path: &str) -> Result<(), Rejection> {
    admit_from(authorizer, token, path, 1).await
}

async fn admit_from(authorizer: &Authorizer, token: &str, path: &str, host: u8) -> Result<(), Rejection> {
    let source = IpAddr::from([10, 0, 0, host]).into();
    authorizer.admit(&Token::new(token).unwrap(), path, source).await
}

fn unavailable() -> Result<(), Rejection> {
    Err((HttpRefusal::Unavailable, "the API server does not answer the review: it is down".to_owned()))
}

#[tokio::test]
async fn approvals_are_cached_for_a_minute_and_denials_for_ten_seconds() {
    tokio::time::pause();
    let fake = Fake::default();
    let authorizer = Authorizer::new(fake.clone());
    let forbidden = Err((HttpRefusal::Forbidden, "prometheus may not get /debug/graph".to_owned()));
    let unknown = "the API server does not know this token: no such token";
    let unknown = Err((HttpRefusal::Unauthenticated, unknown.to_owned()));
    for _ in 0..2 {
        assert_eq!(admit(&authorizer, "good", "/metrics").await, Ok(()));
        assert_eq!(admit(&authorizer, "good", "/debug/graph").await, forbidden);
        assert_eq!(admit(&authorizer, "bad", "/metrics").await, unknown);
    }
    assert_eq!(fake.asked(), ["good", "prometheus /metrics", "prometheus /debug/graph", "bad"]);

    tokio::time::advance(DENIED_FOR).await;
    assert_eq!(admit(&authorizer, "good", "/metrics").await, Ok(()));
    assert_eq!(admit(&authorizer, "good", "/debug/graph").await, forbidden);
    assert_eq!(admit(&authorizer, "bad", "/metrics").await, unknown);
    assert_eq!(fake.asked(), ["prometheus /debug/graph", "bad"]);

    fake.revoked.store(true, Ordering::SeqCst);
    tokio::time::advance(ALLOWED_FOR).await;
    assert_eq!(admit(&authorizer, "good", "/metrics").await, unknown);
}

#[tokio::test]
async fn nobody_is_admitted_without_an_approval() {
    tokio::time::pause();
    let fake = Fake::default();
    let authorizer = Authorizer::new(fake.clone());
    assert_eq!(admit(&authorizer, "good", "/metrics").await, Ok(()));
    fake.down.store(true, Ordering::SeqCst);
    assert_eq!(admit(&authorizer, "good", "/metrics").await, Ok(()), "it is remembered");
    assert_eq!(admit(&authorizer, "good", "/debug/graph").await, unavailable());
    assert_eq!(admit(&authorizer, "new", "/metrics").await, unavailable());
    tokio::time::advance(ALLOWED_FOR).await;
    assert_eq!(admit(&authorizer, "good", "/metrics").await, unavailable());
    fake.down.store(false, Ordering::SeqCst);
    assert_eq!(admit(&authorizer, "good", "/metrics").await, Ok(()), "failures are not remembered");
}

/// Users of one name and different groups are different.
#[tokio::test]
async fn the_cache_evicts_the_answer_that_expires_first() {
    tokio::time::pause();
    let user = |group: &str| User { groups: vec![group.to_owned()], ..User::default() };
    let cache = Cache::new(2);
    for (group, seconds) in [("a", 60), ("b", 120), ("c", 60)] {
        cache.keep(user(group), group.to_owned(), Duration::from_secs(seconds));
    }
    assert_eq!(["a", "b", "c"].map(|group| cache.get(&user(group)).is_some()), [false, true, true]);
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(["b", "c"].map(|group| cache.get(&user(group))), [Some("b".to_owned()), None]);
}

/// Fails if a client can cause a review for each token that it makes up, as fast as the API
/// server answers.
#[tokio::test]
async fn made_up_tokens_cost_the_api_server_little_and_block_no_other_client() {
    tokio::time::pause();
    let fake = Fake::default();
    let authorizer = Authorizer::new(fake.clone());
    assert_eq!(admit_from(&authorizer, "good", "/metrics", 1).await, Ok(()));
    fake.asked();
    let mut refused = 0;
    for number in 0..1000 {
        let answer = admit_from(&authorizer, &format!("made-up-{number}"), "/metrics", 2).await;
        refused += usize::from(matches!(answer, Err((HttpRefusal::Busy, _))));
    }
    assert_eq!((fake.asked().len(), refused), (BURST as usize, 1000 - BURST as usize));
    assert_eq!(admit_from(&authorizer, "good", "/metrics", 2).await, Ok(()), "it is known");
    tokio::time::advance(ALLOWED_FOR).await;
    assert_eq!(admit_from(&authorizer, "good", "/metrics", 1).await, Ok(()), "reviewed again");
}

#[tokio::test]
async fn no_more_than_1024_answers_of_reviews_are_in_memory() {
    tokio::time::pause();
    let authorizer = Authorizer::new(Fake::default());
    for number in 0..1100 {
        let host = (number % 256) as u8;
        assert!(admit_from(&authorizer, &format!("made-up-{number}"), "/metrics", host).await.is_err());
        let _ = admit_from(&authorizer, "good", &format!("/{number}"), host).await;
    }
    let kept =
        [authorizer.tokens.answers.lock().unwrap().len(), authorizer.rights.answers.lock().unwrap().len()];
    assert_eq!(kept, [1024, 1024]);
}

/// Fails if paths of any length are reviewed and cached: 1,024 of 60 KiB.
#[tokio::test]
async fn paths_that_are_no_pages_are_neither_reviewed_nor_cached() {
    tokio::time::pause();
    let fake = Fake::default();
    let authorizer = Authorizer::new(fake.clone());
    let long = "/".repeat(129);
    assert!(matches!(admit(&authorizer, "good", &long).await, Err((HttpRefusal::Forbidden, _))));
    assert_eq!(fake.asked(), ["good"]);
    assert!(admit(&authorizer, "good", &long[..128]).await.is_err());
    assert_eq!(fake.asked(), [format!("prometheus {}", &long[..128])]);
    for number in 0..1000 {
        assert!(admit(&authorizer, "good", &format!("/{number}")).await.is_err());
    }
    assert_eq!(fake.asked().len() + 2, BURST as usize);
}

#[test]
fn a_token_is_never_printed() {
    let token = Token::new("secret").unwrap();
    assert_eq!(format!("{token:?}"), "Token(…)");
    assert!(Token::new("").is_none() && Token::new("a b").is_none() && Token::new("ä").is_none());
}

fn source(number: u32) -> Source {
    IpAddr::V4(Ipv4Addr::from_bits(number)).into()
}

#[tokio::test]
async fn a_source_has_a_burst_and_then_a_steady_rate_and_few_are_remembered() {
    tokio::time::pause();
    let rate = RateLimiter::default();
    assert_eq!((BURST, REFILL, SOURCES), (20, Duration::from_millis(200), 4096), "the documented limits");
    let asks = |times: u32| (0..times).filter(|_| rate.try_acquire(source(1))).count();
    assert_eq!(asks(1000), BURST as usize);
    tokio::time::advance(REFILL).await;
    assert_eq!(asks(1000), 1);
    tokio::time::advance(Duration::from_secs(3600)).await;
    let others = |from: u32| (from..from + 10_000).filter(|number| rate.try_acquire(source(*number))).count();
    assert_eq!((others(10_000), rate.0.lock().unwrap().len()), (SOURCES, SOURCES), "the first is forgotten");
    tokio::time::advance(REFILL).await;
    assert_eq!(others(30_000), SOURCES);
}
