//! Request counts, with the names of kube-apiserver's `/metrics`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::resources::ResourceName;

/// The number of answered requests, by verb and type.
#[derive(Clone, Debug, Default)]
pub struct Counts(BTreeMap<(&'static str, ResourceName), u64>);

impl Counts {
    /// Counts a request. A watch counts when it begins; in kube-apiserver it counts when it ends.
    pub fn add(&mut self, verb: &'static str, resource: &ResourceName) {
        *self.0.entry((verb, resource.clone())).or_default() += 1;
    }

    /// The page, including the number of open watches of each type.
    #[must_use]
    pub fn page(&self, watches: &BTreeMap<ResourceName, usize>) -> String {
        let mut page = String::from("# TYPE apiserver_request_total counter\n");
        for ((verb, ResourceName { group, plural }), count) in &self.0 {
            let _ = writeln!(
                page,
                "apiserver_request_total{{group=\"{group}\",resource=\"{plural}\",verb=\"{verb}\"}} {count}"
            );
        }
        page.push_str("# TYPE apiserver_longrunning_gauge gauge\n");
        for (ResourceName { group, plural }, count) in watches {
            let _ = writeln!(
                page,
                "apiserver_longrunning_gauge{{group=\"{group}\",resource=\"{plural}\",verb=\"WATCH\"}} {count}"
            );
        }
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_watches_are_counted_by_type() {
        let widgets = ResourceName::new("example.com", "widgets");
        let mut counts = Counts::default();
        counts.add("LIST", &widgets);
        counts.add("LIST", &widgets);
        let page = counts.page(&BTreeMap::from([(ResourceName::new("", "pods"), 3)]));
        assert!(
            page.contains("_total{group=\"example.com\",resource=\"widgets\",verb=\"LIST\"} 2\n"),
            "{page}"
        );
        assert!(page.contains("_gauge{group=\"\",resource=\"pods\",verb=\"WATCH\"} 3\n"), "{page}");
    }
}
