//! The request counts of the API server.

use super::*;

impl Cluster {
    /// The requests that the API server has answered so far.
    pub async fn request_counts(&self) -> Result<RequestCounts> {
        let mut counts: BTreeMap<(String, String), u64> = BTreeMap::new();
        for (series, value) in self.metrics().await? {
            let Some(labels) = series.strip_prefix("apiserver_request_total{") else { continue };
            let labels = format!(",{labels}");
            let label = |name: &str| {
                let (_, rest) = labels.split_once(&format!(",{name}=\""))?;
                rest.split('"').next()
            };
            let (Some(verb), Some(plural)) = (label("verb"), label("resource")) else { continue };
            let resource = match label("group") {
                None | Some("") => plural.to_owned(),
                Some(group) => format!("{plural}.{group}"),
            };
            // Counts are small enough for a float to be exact.
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let value = value as u64;
            *counts.entry((verb.to_owned(), resource)).or_default() += value;
        }
        Ok(RequestCounts { counts })
    }

    async fn metrics(&self) -> Result<BTreeMap<String, f64>> {
        let request = http::Request::get("/metrics").body(Vec::new())?;
        Ok(parse_metrics(&self.client.request_text(request).await?))
    }

    /// The number of open watches of a group's types.
    pub async fn watches_of(&self, group: &str) -> Result<f64> {
        let metrics = self.metrics().await?;
        let group = format!("group=\"{group}\"");
        let is_one = |series: &str| {
            series.starts_with("apiserver_longrunning_gauge{")
                && series.contains(&group)
                && series.contains("verb=\"WATCH\"")
        };
        Ok(metrics.iter().filter(|(series, _)| is_one(series)).map(|(_, count)| count).sum())
    }
}

/// The API server's own count of requests.
#[derive(Clone, Debug, Default)]
pub struct RequestCounts {
    counts: BTreeMap<(String, String), u64>,
}

impl RequestCounts {
    /// The number of requests with a verb, such as `DELETE` or `LIST`, for a resource, such as
    /// `configmaps` or `widgets.example.com`.
    pub fn get(&self, verb: &str, resource: &str) -> u64 {
        self.counts.get(&(verb.to_owned(), resource.to_owned())).copied().unwrap_or_default()
    }

    /// The number of requests with a verb for any resource.
    pub fn verb(&self, verb: &str) -> u64 {
        self.counts.iter().filter(|((found, _), _)| found == verb).map(|(_, count)| count).sum()
    }

    /// The number of requests that may have written.
    pub fn writes(&self) -> u64 {
        ["POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"]
            .iter()
            .map(|verb| self.verb(verb))
            .sum()
    }

    /// The requests since an earlier count.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let counts = self.counts.iter().map(|(key, count)| {
            let before = earlier.counts.get(key).copied().unwrap_or_default();
            (key.clone(), count.saturating_sub(before))
        });
        Self { counts: counts.filter(|(_, count)| *count > 0).collect() }
    }
}
