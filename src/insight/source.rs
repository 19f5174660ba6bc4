//! Which source a question is put to.

use super::collector::{Collector, CollectorOptions, Endpoint};
use super::error::InsightError;

/// What a user says about the source.
#[derive(Clone, Debug, Default)]
pub enum Source {
    /// Lists of the API server.
    #[default]
    Lists,
    /// The collector at this address.
    Collector(Box<Endpoint>),
}

/// What a user may choose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum From {
    /// A collector if there is a URL, and else lists.
    #[default]
    Auto,
    /// Lists.
    Lists,
    /// A collector.
    Collector,
}

impl Source {
    /// The source that a user has chosen.
    ///
    /// # Errors
    ///
    /// The choices contradict each other, or the address cannot be used.
    pub fn choose(from: From, collector: Option<&CollectorOptions>) -> Result<Self, String> {
        match (from, collector) {
            (From::Auto | From::Lists, None) => Ok(Self::Lists),
            (From::Auto | From::Collector, Some(options)) => {
                let endpoint = Endpoint::new(options).map_err(|error| error.to_string())?;
                Ok(Self::Collector(Box::new(endpoint)))
            }
            (From::Lists, Some(_)) => Err("--from lists asks no collector, and --collector names one".to_owned()),
            (From::Collector, None) => Err("--from collector needs --collector URL: forward the debug port of the \
                 leader's pod, such as by `kubectl --namespace kube-gc port-forward deployment/kube-gc 8081`, and ask \
                 http://127.0.0.1:8081"
                .to_owned()),
        }
    }

    /// The collector, after it has said that it is one. `None` if lists are asked.
    ///
    /// # Errors
    ///
    /// It cannot be reached, or is none.
    pub async fn collector(&self) -> Result<Option<Collector>, InsightError> {
        match self {
            Self::Lists => Ok(None),
            Self::Collector(endpoint) => Ok(Some(Collector::at(Endpoint::clone(endpoint)).await?)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_asked_unless_lists_are_wanted() {
        let options =
            CollectorOptions { url: "http://127.0.0.1:1".to_owned(), ..CollectorOptions::default() };
        let is_collector = |from, options: Option<&CollectorOptions>| {
            Source::choose(from, options).map(|source| matches!(source, Source::Collector(_)))
        };
        assert_eq!(is_collector(From::Auto, None), Ok(false));
        assert_eq!(is_collector(From::Lists, None), Ok(false));
        assert_eq!(is_collector(From::Auto, Some(&options)), Ok(true));
        assert_eq!(is_collector(From::Collector, Some(&options)), Ok(true));
        assert!(is_collector(From::Lists, Some(&options)).unwrap_err().contains("--collector names one"));
        assert!(is_collector(From::Collector, None).unwrap_err().contains("port-forward"));
    }
}
