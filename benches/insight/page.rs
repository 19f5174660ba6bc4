//! What the page for browsers costs beside a large collector.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::cluster::Number;
use crate::pages::get;
use crate::report::Row;
use crate::scenarios::events::as_many_as_possible;
use crate::subject::Subject;
use crate::{milliseconds, quantile, streams, uid};

/// How often the page is opened, and how many objects change.
const TIMES: usize = 20;
/// How many searches are made.
const SEARCHES: usize = 50;
/// The pause of somebody who looks at one object after the other.
const PAUSE: Duration = Duration::from_millis(100);
/// The time limit of an event.
const DEADLINE: Duration = Duration::from_secs(30);
/// How the page asks for an object, as `REACH` of `src/http/ui/live.js`.
const REACH: &str = "max=140&limit=140";
const SECOND: Option<Duration> = Some(Duration::from_secs(1));

/// The files that the page consists of, by the names in it and in its scripts.
async fn files(subject: &Subject) -> Result<Vec<String>> {
    let page = subject.collector.get_debug("/ui/main.js").await?.body;
    let scripts = page.lines().filter_map(|line| Some(line.split_once("from \"./")?.1.split_once('"')?.0));
    let mut files: Vec<String> = scripts.map(|name| format!("/ui/{name}")).collect();
    files.extend(["page.css", "object.css", "drawing.css", "main.js"].map(|name| format!("/ui/{name}")));
    Ok(files)
}

/// Opens the page of an object: its files, the stream up to the drawing, and the explanation, one
/// after the other, which a browser does not.
pub async fn opened(subject: &Subject, roots: &[String], objects: u64) -> Result<[Row; 2]> {
    let files = files(subject).await?;
    let mut times = Vec::new();
    for root in roots.iter().cycle().take(TIMES) {
        let began = Instant::now();
        for file in &files {
            let answer = subject.collector.get_debug(file).await?;
            ensure!(answer.status == 200, "{file}: {answer:?}");
        }
        let mut stream = Stream::begin(subject, root).await?;
        stream.until(root).await?;
        get(subject, &format!("/debug/explain?uid={root}")).await?;
        times.push(began.elapsed());
    }
    let mut searches = Vec::new();
    for number in 0..SEARCHES {
        // Nothing has this name, so everything is looked at.
        searches.push(get(subject, &format!("/debug/search?q=pod/nothing-{number}")).await?.0);
    }
    let of = format!("{objects} objects");
    let opened = format!("the data of the page of an object, {of}: all requests, slowest of {TIMES}");
    let searched = format!("`/debug/search` that finds nothing, {of}, 99th percentile");
    Ok([
        milliseconds(opened, quantile(&mut times, 1.0), SECOND),
        milliseconds(searched, quantile(&mut searches, 0.99), SECOND),
    ])
}

/// The time from a change in the cluster to the event that shows it.
pub async fn changed(subject: &Subject, objects: u64) -> Result<Row> {
    let cluster = &subject.feeder.cluster;
    let mut times = Vec::new();
    for number in (cluster.end().0..).map(Number).take(TIMES) {
        let owner = cluster.owners(number).next().context("a pod has an owner")?;
        let mut stream = Stream::begin(subject, &uid(cluster, owner)).await?;
        stream.until("event: neighbourhood").await?;
        let began = Instant::now();
        subject.feeder.create().await;
        stream.until(&uid(cluster, number)).await?;
        times.push(began.elapsed());
    }
    let what = format!("a new pod on the stream of its owner, {objects} objects, slowest of {TIMES}");
    Ok(milliseconds(what, quantile(&mut times, 1.0), SECOND))
}

/// The rate of a collector that is given as many events as it takes, without and with somebody who
/// searches and moves from object to object all the time.
pub async fn beside_events(subject: &Subject, roots: &[String], events: u64) -> Result<[Row; 4]> {
    let mut rates = [0.0; 2];
    let (mut looks, mut searches) = (Vec::new(), Vec::new());
    for (place, rate) in rates.iter_mut().enumerate() {
        let looking = async {
            if place == 0 {
                return std::future::pending::<Result<()>>().await;
            }
            for uid in roots.iter().cycle() {
                looks.push(get(subject, &format!("/debug/neighbourhood?uid={uid}&{REACH}")).await?.0);
                searches.push(get(subject, &format!("/debug/search?q=pod/{}", &uid[..6])).await?.0);
                sleep(PAUSE).await;
            }
            Ok(())
        };
        tokio::select! {
            seconds = as_many_as_possible(subject, events) => *rate = events as f64 / seconds?,
            looked = looking => looked?,
        }
    }
    let [alone, beside] = rates;
    let less = (1.0 - beside / alone) * 100.0;
    let during = "during as many events as it takes, 99th percentile";
    Ok([
        Row { what: "events per second, alone".to_owned(), measured: alone, unit: "", target: None },
        Row {
            what: "beside somebody who looks and searches ten times a second: fewer events".to_owned(),
            measured: less,
            unit: "%",
            target: None,
        },
        milliseconds(format!("`/debug/neighbourhood` {during}"), quantile(&mut looks, 0.99), SECOND),
        milliseconds(format!("`/debug/search` {during}"), quantile(&mut searches, 0.99), SECOND),
    ])
}

/// A stream, of which the end is kept.
struct Stream {
    stream: TcpStream,
    text: String,
}

impl Stream {
    async fn begin(subject: &Subject, uid: &str) -> Result<Self> {
        let stream = streams::connect(subject, &format!("{uid}&{REACH}")).await?;
        Ok(Self { stream, text: String::new() })
    }

    /// Reads until an event has this text, and forgets what came before.
    async fn until(&mut self, wanted: &str) -> Result<()> {
        let mut bytes = vec![0; 64 << 10];
        let read = async {
            while !self.text.contains(wanted) {
                let length = self.stream.read(&mut bytes).await?;
                ensure!(length > 0, "the stream has ended before {wanted}");
                self.text.push_str(&String::from_utf8_lossy(&bytes[..length]));
            }
            self.text.clear();
            Ok(())
        };
        timeout(DEADLINE, read).await.with_context(|| format!("{wanted} does not come"))?
    }
}
