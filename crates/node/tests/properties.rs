//! What must hold for any text from outside. The test `worlds` judges rules and invariants.

use kube_gc_node::Ledger;
use kube_gc_node::logs::c8_log_file;
use kube_gc_node::rules::LogRoots;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// C8: whatever the path, what comes out leads back to it, beneath the root, in the pod's directory.
    #[test]
    fn c8_no_path_leads_out(
        path in "(/var/log/pods/)?([a-z_.*/\0-]|\\.\\./|ns_pod_u1/){0,12}",
        uid in "u[12]",
    ) {
        let roots = LogRoots { pods: "/var/log/pods".to_owned(), containers: "/var/log/containers".to_owned() };
        if let Ok(file) = c8_log_file(&path, &uid, &roots) {
            let below = file.directories.join("/") + "/" + &file.name;
            prop_assert_eq!(format!("/var/log/pods/{below}"), path);
            prop_assert!(!below.split('/').any(|part| matches!(part, "" | "." | "..")));
            prop_assert!(file.directories[0].rsplit('_').next() == Some(uid.as_str()));
        }
    }

    #[test]
    fn any_state_file_is_read_or_is_an_error(content in any::<Vec<u8>>()) {
        let _ = Ledger::parse(&content);
    }
}
