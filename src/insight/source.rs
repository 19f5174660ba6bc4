//! Which source a question is put to.

use super::collector::{Collector, CollectorOptions, Credentials, Endpoint, SearchScope, find};
use super::error::InsightError;
use super::lists::Watcher;
use super::session::Session;

/// What a user says about the source.
#[derive(Clone, Debug, Default)]
pub enum Source {
    /// Lists of the API server.
    #[default]
    Lists,
    /// The collector at this address.
    Collector(Box<Endpoint>),
    /// The collector that is found in the cluster.
    Found {
        /// Where it is looked for.
        place: SearchScope,
        /// What it takes to be answered.
        credentials: Credentials,
        /// Whether there is no answer without one; else lists answer.
        required: bool,
    },
}

/// What a user may choose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum From {
    /// A collector if there is a URL, or if one is found, and else lists.
    #[default]
    Auto,
    /// Lists.
    Lists,
    /// A collector.
    Collector,
}

/// All that a user says about the source.
#[derive(Clone, Debug, Default)]
pub struct SourceChoice {
    /// The source.
    pub from: From,
    /// The URL of a collector.
    pub url: Option<String>,
    /// The namespace of a collector.
    pub namespace: Option<String>,
    /// What it takes to be answered.
    pub credentials: Credentials,
    /// Whether `auto` looks for a collector without being told of one.
    pub looks: bool,
}

/// What answers a question.
#[derive(Debug)]
pub struct Chosen {
    /// The collector; `None` if lists do.
    pub collector: Option<Collector>,
    /// Which collector was found, or why the one that there is does not answer.
    pub note: Option<String>,
    /// Whether lists answer what the collector does not.
    pub is_optional: bool,
}

impl Source {
    /// The source that a user has chosen.
    ///
    /// # Errors
    ///
    /// The choices contradict each other, or the address cannot be used.
    pub fn choose(choice: SourceChoice) -> Result<Self, String> {
        let SourceChoice { from, url, namespace, credentials, looks } = choice;
        if let (From::Lists, Some(_)) = (from, &url) {
            return Err("--from lists asks no collector, and --collector names one".to_owned());
        }
        if let Some(url) = url {
            let endpoint = Endpoint::new(&CollectorOptions { url, credentials });
            return Ok(Self::Collector(Box::new(endpoint.map_err(|error| error.to_string())?)));
        }
        let is_meant = namespace.is_some() || credentials != Credentials::default();
        let required = match from {
            From::Lists if is_meant => return Err("--from lists asks no collector".to_owned()),
            From::Lists => return Ok(Self::Lists),
            From::Auto if !looks && !is_meant => return Ok(Self::Lists),
            From::Auto => is_meant,
            From::Collector => true,
        };
        // Whoever may create pods somewhere can pretend to be a collector there. Such a pod gets no
        // token, and answers only who asks for any collector.
        let place = if from == From::Collector && namespace.is_none() && credentials.token.is_none() {
            SearchScope::Everywhere
        } else {
            SearchScope::Namespace(namespace)
        };
        Ok(Self::Found { place, credentials, required })
    }
}

impl Chosen {
    /// Asks the collector, or lists, and says where the answer is from. If nobody has asked for a
    /// collector, lists answer what it cannot.
    ///
    /// # Errors
    ///
    /// There is no answer.
    pub async fn answer<A>(
        self,
        watcher: &Watcher<'_>,
        of_collector: impl AsyncFnOnce(&Collector) -> Result<A, InsightError>,
        of_lists: impl AsyncFnOnce() -> Result<A, InsightError>,
    ) -> Result<(A, Option<String>), InsightError> {
        let Self { collector, mut note, is_optional } = self;
        if let Some(collector) = collector {
            match of_collector(&collector).await {
                Ok(answer) => return Ok((answer, note)),
                Err(error) if is_optional && !watcher.interrupted.is_cancelled() => {
                    note = Some(from_lists(&error));
                }
                Err(error) => return Err(error),
            }
        }
        Ok((of_lists().await?, note))
    }
}

impl Session {
    /// The collector, after it has said that it is one, or lists.
    ///
    /// # Errors
    ///
    /// The collector that was asked for cannot be found or reached, or is none.
    pub async fn choose(&self, source: &Source, watcher: &Watcher<'_>) -> Result<Chosen, InsightError> {
        match source {
            Source::Lists => Ok(Chosen { collector: None, note: None, is_optional: false }),
            Source::Collector(endpoint) => {
                let collector = watcher.wait(Collector::at(Endpoint::clone(endpoint))).await?;
                Ok(Chosen { collector: Some(collector), note: None, is_optional: false })
            }
            Source::Found { place, credentials, required } => {
                let found = Box::pin(find(&self.api, place, credentials));
                match watcher.wait(found).await {
                    Ok(collector) => {
                        let standby = if collector.is_standby() { ", a standby" } else { "" };
                        let note = format!("From the collector at {collector}{standby}");
                        Ok(Chosen { collector: Some(collector), note: Some(note), is_optional: !required })
                    }
                    Err(InsightError::Collector(error)) if !required => {
                        let note = error.is_of_a_collector().then(|| from_lists(&error));
                        Ok(Chosen { collector: None, note, is_optional: true })
                    }
                    Err(error) => Err(error),
                }
            }
        }
    }
}

fn from_lists(error: &dyn std::fmt::Display) -> String {
    format!("From lists: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choose(from: From, change: impl FnOnce(&mut SourceChoice)) -> Result<Source, String> {
        let mut choice = SourceChoice { from, looks: true, ..SourceChoice::default() };
        change(&mut choice);
        Source::choose(choice)
    }

    #[test]
    fn a_url_is_asked_unless_lists_are_wanted() {
        let with_url = |from| choose(from, |choice| choice.url = Some("http://127.0.0.1:1".to_owned()));
        for from in [From::Auto, From::Collector] {
            assert!(matches!(with_url(from), Ok(Source::Collector(_))));
        }
        assert!(with_url(From::Lists).unwrap_err().contains("--collector names one"));
    }

    #[test]
    fn a_collector_is_looked_for_where_nobody_can_pretend_to_be_one() {
        let found = |from, change: fn(&mut SourceChoice)| match choose(from, change) {
            Ok(Source::Found { place, required, .. }) => Some((place, required)),
            Ok(Source::Lists) => None,
            other => panic!("{other:?}"),
        };
        let (usual, named) = (SearchScope::Namespace(None), SearchScope::Namespace(Some("a".to_owned())));
        assert_eq!(found(From::Lists, |_| {}), None);
        assert_eq!(found(From::Auto, |choice| choice.looks = false), None);
        assert_eq!(found(From::Auto, |_| {}), Some((usual.clone(), false)));
        assert_eq!(found(From::Collector, |_| {}), Some((SearchScope::Everywhere, true)));
        let name: fn(&mut SourceChoice) = |choice| choice.namespace = Some("a".to_owned());
        assert_eq!(found(From::Auto, name), Some((named.clone(), true)));
        assert_eq!(found(From::Collector, name), Some((named, true)));
        let token: fn(&mut SourceChoice) = |choice| choice.credentials.token = Some("/a".into());
        assert_eq!(found(From::Collector, token), Some((usual, true)));
        assert!(choose(From::Lists, token).unwrap_err().contains("asks no collector"));
    }
}
