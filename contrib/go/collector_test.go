package kubegc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// kubeconfig is that of an API server without a garbage collector. The tests
// that need one are skipped without it.
func kubeconfig(t *testing.T) string {
	t.Helper()
	path := os.Getenv("KUBE_GC_TEST_KUBECONFIG")
	if path == "" {
		t.Skip("KUBE_GC_TEST_KUBECONFIG does not name the kubeconfig of an API server")
	}
	return path
}

// deadline bounds a test that waits for something that never comes.
func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func started(t *testing.T, options ...Option) *Collector {
	t.Helper()
	c, err := Start(deadline(t), kubeconfig(t), options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Stop() })
	return c
}

// kubectl returns what kubectl prints.
func kubectl(t *testing.T, input string, args ...string) string {
	t.Helper()
	command := exec.Command("kubectl", append([]string{"--kubeconfig", kubeconfig(t), "--namespace", "default"}, args...)...)
	command.Stdin = strings.NewReader(input)
	output, err := command.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("kubectl %v: %v: %s", args, err, exit.Stderr)
		}
		t.Fatal(err)
	}
	return strings.TrimSpace(string(output))
}

// create creates a ConfigMap, perhaps with an owner, and returns a field of it.
func create(t *testing.T, name, ownerName, ownerUID, field string) string {
	t.Helper()
	owners := "[]"
	if ownerUID != "" {
		owners = fmt.Sprintf(`[{"apiVersion":"v1","kind":"ConfigMap","name":%q,"uid":%q}]`, ownerName, ownerUID)
	}
	object := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"ownerReferences":%s}}`, name, owners)
	return kubectl(t, object, "create", "--filename", "-", "--output", "jsonpath={.metadata."+field+"}")
}

func TestACascadeIsOverWhenTheCollectorIsIdle(t *testing.T) {
	c := started(t)
	uid := create(t, "go-owner", "", "", "uid")
	for i := 0; i < 5; i++ {
		create(t, fmt.Sprintf("go-dependent-%d", i), "go-owner", uid, "uid")
	}
	kubectl(t, "", "delete", "configmap", "go-owner", "--wait=false")
	version := create(t, "go-marker", "", "", "resourceVersion")
	if err := c.WaitIdle(deadline(t), Seen{Resource: "configmaps", Version: version}); err != nil {
		t.Fatal(err)
	}
	left := kubectl(t, "", "get", "configmaps", "--output", "name")
	if strings.Contains(left, "go-dependent") || !strings.Contains(left, "go-marker") {
		t.Fatalf("left: %s", left)
	}
	kubectl(t, "", "delete", "configmap", "go-marker")
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(c.readyFile); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("%s is left: %v", c.readyFile, err)
	}
	if err := c.Stop(); err != nil {
		t.Fatalf("the second Stop: %v", err)
	}
}

func TestWhatAnOwnerHadIsGoneWhenItIsIdle(t *testing.T) {
	c := started(t)
	uid := create(t, "go-head", "", "", "uid")
	create(t, "go-last", "go-middle", create(t, "go-middle", "go-head", uid, "uid"), "uid")
	kubectl(t, "", "delete", "configmap", "go-head", "--wait=false")
	version := create(t, "go-later", "", "", "resourceVersion")
	if err := c.WaitIdleBelow(deadline(t), uid, Seen{Resource: "configmaps", Version: version}); err != nil {
		t.Fatal(err)
	}
	left := kubectl(t, "", "get", "configmaps", "--output", "name")
	if strings.Contains(left, "go-middle") || strings.Contains(left, "go-last") {
		t.Fatalf("left: %s", left)
	}
	kubectl(t, "", "delete", "configmap", "go-later")
	if err := c.WaitIdleIn(deadline(t), "default", Seen{Resource: "deployments", Version: "1"}); err != nil {
		t.Fatal(err)
	}
	for said, err := range map[string]error{
		"owner= needs a uid":    c.WaitIdleBelow(deadline(t), ""),
		"pass metadata.uid":     c.WaitIdleBelow(deadline(t), "catalog"),
		"is no name of a":       c.WaitIdleIn(deadline(t), ""),
		"the collector ignores": c.WaitIdle(deadline(t), Seen{Resource: "events", Version: "1"}),
	} {
		if err == nil || !strings.Contains(err.Error(), said) || strings.Contains(err.Error(), "{") {
			t.Fatalf("%s: %v", said, err)
		}
	}
}

// user stands for the one that envtest adds.
type user struct{ kubeconfig []byte }

func (u user) KubeConfig() ([]byte, error) { return u.kubeconfig, nil }

func TestEnvtestTakesOneCall(t *testing.T) {
	content, err := os.ReadFile(kubeconfig(t))
	if err != nil {
		t.Fatal(err)
	}
	refused := errors.New("refused")
	type request struct {
		Name   string
		Groups []string
	}
	addUser := func(r request, base *struct{}) (user, error) {
		if base != nil || len(r.Groups) != 1 || r.Groups[0] != "system:masters" {
			return user{}, refused
		}
		return user{content}, nil
	}
	c, err := StartEnvtest(deadline(t), addUser, WithArgs("--dry-run"))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	_, err = StartEnvtest(deadline(t), func(request, *struct{}) (user, error) { return user{}, refused })
	if !errors.Is(err, refused) {
		t.Fatal(err)
	}
}

// TestMain runs a collector in a process that is killed, if a test asks for it.
func TestMain(m *testing.M) {
	path := os.Getenv("KUBE_GC_TEST_KILLED")
	if path == "" {
		os.Exit(m.Run())
	}
	content, err := os.ReadFile(path)
	if err == nil {
		var c *Collector
		if c, err = StartWithConfig(context.Background(), content); err == nil {
			fmt.Println(c.command.Process.Pid)
			select {}
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func TestAProcessThatIsKilledLeavesNeitherACollectorNorAFile(t *testing.T) {
	directory := t.TempDir()
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), "KUBE_GC_TEST_KILLED="+kubeconfig(t), "TMPDIR="+directory)
	command.Stderr = os.Stderr
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	_, err = fmt.Fscan(output, &pid)
	_ = command.Process.Kill()
	_ = command.Wait()
	if err != nil {
		t.Fatal(err)
	}
	ctx := deadline(t)
	for {
		// Its new parent may be slow to collect it.
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(stat), ") Z ") {
			break
		}
		if ctx.Err() != nil {
			t.Fatal("the collector is still there")
		}
		time.Sleep(pollEvery)
	}
	if left, err := os.ReadDir(directory); err != nil || len(left) > 0 {
		t.Fatalf("left: %v, %v", left, err)
	}
}

func TestTheContentOfAKubeconfigSuffices(t *testing.T) {
	content, err := os.ReadFile(kubeconfig(t))
	if err != nil {
		t.Fatal(err)
	}
	c, err := StartWithConfig(deadline(t), content, WithArgs("--dry-run"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Stop()
	if c.Version() == "" || !strings.HasPrefix(c.HealthURL(), "http://127.0.0.1:") {
		t.Fatalf("%+v", c.ready)
	}
	if err := c.WaitIdle(deadline(t)); err != nil {
		t.Fatal(err)
	}
}

// interrupted passes on the first request, and ends the context during the
// next one.
type interrupted struct {
	http.RoundTripper
	asked  bool
	cancel context.CancelFunc
}

func (i *interrupted) RoundTrip(request *http.Request) (*http.Response, error) {
	if i.asked {
		i.cancel()
	}
	i.asked = true
	return i.RoundTripper.RoundTrip(request)
}

func TestWaitingEndsWithItsContext(t *testing.T) {
	c := started(t)
	transport := c.client.Transport
	waitAMoment := func(seen Seen) error {
		ctx, cancel := context.WithCancel(deadline(t))
		defer cancel()
		c.client.Transport = &interrupted{RoundTripper: transport, cancel: cancel}
		defer func() { c.client.Transport = transport }()
		return c.WaitIdle(ctx, seen)
	}
	err := waitAMoment(Seen{Resource: "configmaps", Version: "999999999"})
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "configmaps") || !strings.Contains(err.Error(), "listening") {
		t.Fatal(err)
	}
	err = c.WaitIdle(deadline(t), Seen{Resource: "configmap", Version: "1"})
	if err == nil || !strings.Contains(err.Error(), "404") || !strings.Contains(err.Error(), "no type configmap is watched") {
		t.Fatalf("a type that is not watched: %v", err)
	}
	err = c.WaitIdle(deadline(t), Seen{Version: "1"})
	if err == nil || !strings.Contains(err.Error(), "400") {
		t.Fatalf("a version of no type: %v", err)
	}
	err = c.WaitIdle(deadline(t), Seen{Resource: "configmaps", Version: "newest"})
	if err == nil || !strings.Contains(err.Error(), "not a whole number") {
		t.Fatalf("a version that is not a number: %v", err)
	}
}

func TestACollectorThatHasEndedIsAnError(t *testing.T) {
	c := started(t)
	if err := c.command.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	err := c.WaitIdle(deadline(t), Seen{Resource: "configmaps", Version: "999999999"})
	if !errors.Is(err, errEnded) {
		t.Fatal(err)
	}
	if err := c.Stop(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("Stop says nothing of it: %v", err)
	}
}

func TestACollectorThatCannotStartShowsItsLog(t *testing.T) {
	kubeconfig(t)
	_, err := Start(deadline(t), filepath.Join(t.TempDir(), "missing"))
	if !errors.Is(err, errEnded) || !strings.Contains(err.Error(), "missing") {
		t.Fatal(err)
	}
}

func TestAStartThatTakesTooLongIsAborted(t *testing.T) {
	kubeconfig(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Start(ctx, kubeconfig(t)); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

func TestTheBinaryIsLookedForWhereEnvtestIsAndThenInPath(t *testing.T) {
	executable := func(path string) string {
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	assets, named, path, project := t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir()
	release := func(version string) string { return version + "-" + runtime.GOOS + "-" + runtime.GOARCH }
	store, tests := filepath.Join(project, "bin", "k8s", release("1.36.2")), filepath.Join(project, "internal", "shop")
	data := t.TempDir()
	used := filepath.Join(data, "kubebuilder-envtest", "k8s", release("1.36.2"))
	older, newer := filepath.Join(named, release("1.9.9")), filepath.Join(named, release("1.36.2"))
	foreign := filepath.Join(data, "kubebuilder-envtest", "k8s", "9.9.9-plan9-mips")
	for _, directory := range []string{store, tests, used, foreign, older, newer, filepath.Join(assets, name)} {
		if err := os.MkdirAll(directory, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(project, "go.mod"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	before, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chdir(tests); err != nil {
		t.Fatal(err)
	}
	defer os.Chdir(before)
	defer func(usual string) { usualAssets = usual }(usualAssets)
	usualAssets = t.TempDir()
	programs := os.Getenv("PATH")
	t.Setenv("KUBEBUILDER_ASSETS", assets)
	t.Setenv("PATH", path)
	// Without a home, nothing is looked for in the working directory.
	inHere := filepath.Join(tests, ".local", "share", "kubebuilder-envtest", "k8s", release("1.0.0"))
	if err := os.MkdirAll(inHere, 0o700); err != nil {
		t.Fatal(err)
	}
	executable(filepath.Join(inHere, name))
	t.Setenv("HOME", "")
	t.Setenv("XDG_DATA_HOME", "")
	if found, err := find("", ""); err == nil {
		t.Fatal(found)
	}
	t.Setenv("XDG_DATA_HOME", data)
	if _, err := find("", named); err == nil || !strings.Contains(err.Error(), "make install-envtest") {
		t.Fatalf("found nowhere: %v", err)
	}
	// Each place comes before those above it. What cannot be run is none.
	if err := os.WriteFile(filepath.Join(store, name), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	executable(filepath.Join(path, name))
	if found, err := find("", named); err != nil || found != filepath.Join(path, name) {
		t.Fatalf("%q, %v", found, err)
	}
	for _, unusable := range []string{filepath.Join(store, name), filepath.Join(assets, name)} {
		if err := os.Remove(unusable); err != nil {
			t.Fatal(err)
		}
	}
	// It puts the binary where it is looked for: each place comes before those above it here, too.
	script, binary := filepath.Join(before, "..", "..", "deploy", "install-envtest"), executable(filepath.Join(project, "built"))
	for _, directory := range []string{usualAssets, used, store} {
		for _, place := range []string{directory, foreign} {
			executable(filepath.Join(place, "kube-apiserver"))
		}
		command := exec.Command(script, binary)
		command.Env = append(os.Environ(), "PATH="+programs, "KUBEBUILDER_ASSETS=", "KUBE_GC_ENVTEST_DEFAULT="+usualAssets)
		output, err := command.CombinedOutput()
		if found, _ := find("", ""); err != nil || string(output) != found+"\n" || filepath.Dir(found) != directory {
			t.Fatalf("%q, %s, %v", found, output, err)
		}
	}
	for _, directory := range []string{usualAssets, used, store} {
		if err := os.Remove(filepath.Join(directory, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, directory := range []string{usualAssets, used, store, assets, older, newer, named} {
		there := executable(filepath.Join(directory, name))
		if found, err := find("", named); err != nil || found != there {
			t.Fatalf("%q, %v", found, err)
		}
	}
	inPath := filepath.Join(path, name)
	if found, err := find(inPath, named); err != nil || found != inPath {
		t.Fatalf("%q, %v", found, err)
	}
}

func TestOnlyTheEndOfALogIsKept(t *testing.T) {
	var all strings.Builder
	log := tail{next: &all}
	for i := 0; i < 10_000; i++ {
		fmt.Fprintf(&log, "line %d\n", i)
	}
	end := log.String()
	if len(end) > maxTail || !strings.HasSuffix(end, "line 9999\n") {
		t.Fatalf("%d bytes: %s", len(end), end)
	}
	if !strings.HasPrefix(all.String(), "line 0\n") || !strings.HasSuffix(all.String(), end) {
		t.Fatal("the writer of WithLog has not got everything")
	}
}
