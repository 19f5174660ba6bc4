package kubegc

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

const (
	// pollEvery is the interval between two looks at a file or a page.
	pollEvery = 5 * time.Millisecond
	// stopWithin is the time that the collector has to end, before it is killed.
	stopWithin = 15 * time.Second
	// answerWithin is the time for one answer.
	answerWithin = 30 * time.Second
	// maxAnswer bounds what is read of an answer of the collector.
	maxAnswer = 64 << 10
)

// ready is the content of the file of --ready-file.
type ready struct {
	Version string `json:"version"`
	Health  string `json:"health"`
	Debug   string `json:"debug"`
}

// A Collector is a process of kube-gc. Its methods can be called from several
// goroutines at the same time.
type Collector struct {
	command *exec.Cmd
	// readyFile is the file of --ready-file.
	readyFile string
	ready     ready
	log       *tail
	client    *http.Client
	// ended is closed when the process has ended; err is set before.
	ended chan struct{}
	err   error
	stop  sync.Once
	// stopped is the result of Stop.
	stopped error
}

// Start runs the collector on the API server of a kubeconfig file, and returns
// when the collector is ready. The context bounds only the start: a collector
// that has started runs until Stop, or until this process ends.
func Start(ctx context.Context, kubeconfig string, options ...Option) (*Collector, error) {
	return start(ctx, kubeconfig, nil, options)
}

// StartWithConfig is like Start, but takes the content of the kubeconfig. It is
// in no file: the collector reads it from its standard input. Relative paths in
// it start at the working directory.
func StartWithConfig(ctx context.Context, kubeconfig []byte, options ...Option) (*Collector, error) {
	return start(ctx, "/dev/stdin", bytes.NewReader(kubeconfig), options)
}

// StartEnvtest is like Start, on the control plane of envtest. It takes the
// method AddUser of the Environment, because this package does not depend on
// controller-runtime.
func StartEnvtest[User ~struct {
	Name   string
	Groups []string
}, Config any, Added interface{ KubeConfig() ([]byte, error) }](
	ctx context.Context, addUser func(User, Config) (Added, error), options ...Option,
) (*Collector, error) {
	var base Config
	user, err := addUser(User{Name: name, Groups: []string{"system:masters"}}, base)
	if err != nil {
		return nil, fmt.Errorf("cannot add the user of the garbage collector: %w", err)
	}
	kubeconfig, err := user.KubeConfig()
	if err != nil {
		return nil, fmt.Errorf("cannot make the kubeconfig of the garbage collector: %w", err)
	}
	return StartWithConfig(ctx, kubeconfig, options...)
}

func start(ctx context.Context, kubeconfig string, input io.Reader, options []Option) (*Collector, error) {
	var s settings
	for _, option := range options {
		option(&s)
	}
	binary, err := find(s.binary, s.assets)
	if err != nil {
		return nil, fmt.Errorf("cannot find the garbage collector: %w", err)
	}
	// The collector makes this file, and removes it at its end. Nobody can guess its name.
	var random [16]byte
	if _, err := rand.Read(random[:]); err != nil {
		return nil, fmt.Errorf("cannot name a file for the garbage collector: %w", err)
	}
	file := filepath.Join(os.TempDir(), fmt.Sprintf("kube-gc-%x.json", random))
	c := &Collector{readyFile: file, log: &tail{next: s.log}, ended: make(chan struct{})}
	// Requests to this machine never go through a proxy.
	c.client = &http.Client{Transport: &http.Transport{}, Timeout: answerWithin}
	if err := c.run(ctx, binary, kubeconfig, input, s.args); err != nil {
		c.remove()
		return nil, err
	}
	return c, nil
}

func (c *Collector) run(ctx context.Context, binary, kubeconfig string, input io.Reader, args []string) error {
	c.command = exec.Command(binary, append([]string{
		"run", "--kubeconfig", kubeconfig,
		"--listen", "127.0.0.1:0", "--debug-listen", "127.0.0.1:0",
		"--ready-file", c.readyFile, fmt.Sprintf("--exit-with-parent=%d", os.Getpid()),
	}, args...)...)
	c.command.Stdin = input
	// Tests have no slow webhooks for whose objects a namespace would have to wait. Of two
	// variables with one name, the last counts.
	c.command.Env = append([]string{"KUBE_GC__NAMESPACES__QUIET=500ms"}, os.Environ()...)
	c.command.Stderr = c.log
	if err := c.command.Start(); err != nil {
		return fmt.Errorf("cannot run the garbage collector: %w", err)
	}
	go func() {
		c.err = c.command.Wait()
		close(c.ended)
	}()
	if err := c.awaitReady(ctx); err != nil {
		_ = c.command.Process.Kill()
		<-c.ended
		return err
	}
	return nil
}

// awaitReady waits for the content of the file, which appears at once and complete.
func (c *Collector) awaitReady(ctx context.Context) error {
	for {
		content, err := os.ReadFile(c.readyFile)
		if len(content) > 0 {
			if err := json.Unmarshal(content, &c.ready); err != nil {
				return fmt.Errorf("cannot read the file of --ready-file: %w", err)
			}
			return nil
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("cannot read the file of --ready-file: %w", err)
		}
		if err := c.pause(ctx); err != nil {
			return fmt.Errorf("the garbage collector is not ready: %w; the end of its log:\n%s", err, c.log)
		}
	}
}

// errEnded says that the process has ended by itself.
var errEnded = errors.New("it has ended")

// pause waits a moment. It fails if the process or the context ends.
func (c *Collector) pause(ctx context.Context) error {
	timer := time.NewTimer(pollEvery)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-c.ended:
		return fmt.Errorf("%w: %v", errEnded, c.command.ProcessState)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Version is the version of the collector.
func (c *Collector) Version() string { return c.ready.Version }

// HealthURL is where /livez, /readyz and /metrics are.
func (c *Collector) HealthURL() string { return "http://" + c.ready.Health }

// DebugURL is where the page of the collector and its debug pages are.
func (c *Collector) DebugURL() string { return "http://" + c.ready.Debug }

// Log is the end of the log.
func (c *Collector) Log() string { return c.log.String() }

// Seen is a version of a type that the collector has to know before it counts
// as idle.
type Seen struct {
	// Resource is the plural name of the type, and its group after a dot if
	// another type has the same plural: “pods”, “deployments.apps”.
	Resource string
	// Version is the resourceVersion of an object of this type.
	Version string
}

// WaitIdle waits until the collector has nothing left to do. It has to know
// the versions of seen by then. Objects that wait for something outside of the
// collector, such as the CRD of an owner, do not count.
func (c *Collector) WaitIdle(ctx context.Context, seen ...Seen) error {
	return c.waitIdle(ctx, url.Values{}, seen)
}

// WaitIdleIn is like WaitIdle, for the objects of one namespace, whatever
// happens to others. Tests that share an API server have a namespace each.
// Work on objects without a namespace counts, too, because they may have
// dependents in any. Discovery of types that are not in seen does not.
func (c *Collector) WaitIdleIn(ctx context.Context, namespace string, seen ...Seen) error {
	return c.waitIdle(ctx, url.Values{"namespace": {namespace}}, seen)
}

// WaitIdleBelow is like WaitIdle, for the object with this uid, even if it is
// gone, and all that it owned, directly or not, whatever happens to others.
func (c *Collector) WaitIdleBelow(ctx context.Context, uid string, seen ...Seen) error {
	return c.waitIdle(ctx, url.Values{"owner": {uid}}, seen)
}

func (c *Collector) waitIdle(ctx context.Context, query url.Values, seen []Seen) error {
	query.Set("parked", "ok")
	for _, s := range seen {
		query.Add("seen", s.Resource+"="+s.Version)
	}
	page := c.DebugURL() + "/debug/idle?" + query.Encode()
	var last string
	for {
		status, answer, err := c.get(ctx, page)
		switch {
		case err != nil:
			// Mostly the collector or the context has ended, and the pause says so. What the
			// end interrupts takes no answer away that came before.
			if last == "" || ctx.Err() == nil {
				last = err.Error()
			}
		case status == http.StatusOK:
			return nil
		case status == http.StatusServiceUnavailable:
			last = answer
		default:
			return fmt.Errorf("the garbage collector does not say whether it is idle: %d %s: %s", status, http.StatusText(status), answer)
		}
		if err := c.pause(ctx); err != nil {
			return fmt.Errorf("the garbage collector is not idle: %w; its last answer: %s; the end of its log:\n%s", err, last, c.log)
		}
	}
}

func (c *Collector) get(ctx context.Context, page string) (int, string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
	if err != nil {
		return 0, "", err
	}
	response, err := c.client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	return response.StatusCode, string(body), err
}

// Stop ends the collector and waits for its end. It fails if the collector had
// ended before, or ends with an error. Further calls do nothing and return the
// same.
func (c *Collector) Stop() error {
	c.stop.Do(func() {
		asked := c.command.Process.Signal(syscall.SIGTERM)
		timer := time.NewTimer(stopWithin)
		defer timer.Stop()
		select {
		case <-c.ended:
		case <-timer.C:
			_ = c.command.Process.Kill()
			<-c.ended
		}
		switch {
		case c.err != nil:
			c.stopped = fmt.Errorf("the garbage collector ended with an error: %w; the end of its log:\n%s", c.err, c.log)
		case asked != nil:
			c.stopped = fmt.Errorf("the garbage collector had ended before it was stopped: %w", asked)
		}
		c.remove()
	})
	return c.stopped
}

// remove removes what Start has made. Nobody can do anything about a failure.
func (c *Collector) remove() {
	c.client.CloseIdleConnections()
	_ = os.Remove(c.readyFile)
}
