// Package kubegc starts kube-gc, a Kubernetes garbage collector, for a test.
//
// Control planes for tests, such as that of envtest, have no
// kube-controller-manager: an object whose owner was deleted stays. This
// package runs the binary kube-gc on the API server of the test, which then
// deletes dependents as in a cluster:
//
//	collector, err := kubegc.Start(ctx, kubeconfig)
//	if err != nil {
//		return err
//	}
//	defer collector.Stop()
//
// Start returns when the collector watches all types of the API server. It
// looks for the binary where envtest has its own: in the directories that
// WithAssets and KUBEBUILDER_ASSETS name, in the releases of bin/k8s beside
// go.mod and of setup-envtest, and in /usr/local/kubebuilder/bin, then in PATH.
// In each place, the newest release comes first. WithBinary names another one. The
// collector also ends when the process that started it ends, even if that
// process was killed.
//
// # Waiting
//
// Wait for an object to go with the means of your test, such as Eventually of
// Gomega. To show that nothing more is deleted, wait until the collector is
// idle:
//
//	err = collector.WaitIdle(ctx, kubegc.Seen{Resource: "configmaps", Version: version})
//
// The collector is told about changes a little later than the client that made
// them. Without Seen, it may be idle because it does not know yet of your
// deletion. The API server does not say at which version it deleted an object.
// Therefore create or change another object of the same type after the
// deletion, and pass the resourceVersion of that object.
//
// WaitIdle waits for the whole API server. WaitIdleIn and WaitIdleBelow do not
// wait for other namespaces, or for what another owner had: tests that run at
// the same time do not wait for each other.
//
// The package uses the standard library alone.
package kubegc
