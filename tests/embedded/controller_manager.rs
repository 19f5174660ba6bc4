//! kube-controller-manager.
