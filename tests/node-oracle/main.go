// The garbage collection of the kubelet, without the kubelet.
//
// It runs the kubelet's own container and image garbage collectors against a container runtime, on
// demand, with the pods and the disk that it is told. It is compiled within the kubelet's sources;
// ensure.sh does that.
//
// Standard input is lines of JSON, each with a setup or a pass. A setup forgets what the collectors
// have seen before. Each line is answered by a line of JSON on standard output, which says how it ended.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	cadvisorapi "github.com/google/cadvisor/info/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"
	internalapi "k8s.io/cri-api/pkg/apis"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/kubernetes/pkg/kubelet/cri/remote"
	"k8s.io/kubernetes/pkg/kubelet/images"
	"k8s.io/kubernetes/pkg/kubelet/kuberuntime"
	"k8s.io/kubernetes/pkg/kubelet/logs"
	proberesults "k8s.io/kubernetes/pkg/kubelet/prober/results"
)

const connectTimeout = 10 * time.Second

// line is a line of standard input.
type line struct {
	Setup *setup `json:"setup"`
	Pass  *pass  `json:"pass"`
}

// setup is what stays the same for the passes after it.
type setup struct {
	// The runtime's socket, as a URL.
	Endpoint string `json:"endpoint"`
	// The directory that stands for / where the kubelet has its logs.
	Root string `json:"root"`

	MinAgeSeconds   int64 `json:"min_age_seconds"`
	MaxPerContainer int   `json:"max_per_container"`
	MaxTotal        int   `json:"max_total"`

	ImageHigh          int    `json:"image_high"`
	ImageLow           int    `json:"image_low"`
	ImageMinAgeSeconds int64  `json:"image_min_age_seconds"`
	SandboxImage       string `json:"sandbox_image"`
}

// pass is one round.
type pass struct {
	Containers bool `json:"containers"`
	Images     bool `json:"images"`
	// Collect what is collected under pressure.
	Pressure bool `json:"pressure"`
	// The uids of the pods that exist, and of those of them that are terminated.
	Pods       []types.UID `json:"pods"`
	Terminated []types.UID `json:"terminated"`
	// Whether all pods are known.
	SourcesReady bool `json:"sources_ready"`
	// The file system of images.
	Capacity  uint64 `json:"capacity"`
	Available uint64 `json:"available"`
}

// answer says how a line ended; without an error, a text is empty.
type answer struct {
	Setup      string `json:"setup"`
	Containers string `json:"containers"`
	Images     string `json:"images"`
}

// world is what the collectors ask about.
type world struct {
	exists, terminated  map[types.UID]bool
	sourcesReady        bool
	capacity, available uint64
}

func (w *world) IsPodDeleted(uid types.UID) bool    { return !w.exists[uid] }
func (w *world) IsPodTerminated(uid types.UID) bool { return w.terminated[uid] }
func (w *world) AllReady() bool                     { return w.sourcesReady }

func (w *world) ImageFsStats() (*statsapi.FsStats, error) {
	return &statsapi.FsStats{CapacityBytes: &w.capacity, AvailableBytes: &w.available}, nil
}

// rooted moves the kubelet's logs below another directory.
type rooted struct {
	kubecontainer.RealOS
	root string
}

func (r rooted) at(path string) string {
	if strings.HasPrefix(path, "/var/log/") {
		return filepath.Join(r.root, path)
	}
	return path
}

func (r rooted) MkdirAll(path string, mode os.FileMode) error {
	return r.RealOS.MkdirAll(r.at(path), mode)
}
func (r rooted) Stat(path string) (os.FileInfo, error)      { return r.RealOS.Stat(r.at(path)) }
func (r rooted) Remove(path string) error                   { return r.RealOS.Remove(r.at(path)) }
func (r rooted) RemoveAll(path string) error                { return r.RealOS.RemoveAll(r.at(path)) }
func (r rooted) ReadDir(path string) ([]os.FileInfo, error) { return r.RealOS.ReadDir(r.at(path)) }

func (r rooted) Glob(pattern string) ([]string, error) {
	found, err := r.RealOS.Glob(r.at(pattern))
	if r.at(pattern) != pattern {
		for at, path := range found {
			found[at] = strings.TrimPrefix(path, filepath.Clean(r.root))
		}
	}
	return found, err
}

// connection is used again by a setup with the same endpoint, because it cannot be closed.
type connection struct {
	endpoint string
	runtime  internalapi.RuntimeService
	images   internalapi.ImageManagerService
}

func (c *connection) connect(endpoint string) (err error) {
	if c.endpoint == endpoint {
		return nil
	}
	if c.runtime, err = remote.NewRemoteRuntimeService(endpoint, connectTimeout); err != nil {
		return err
	}
	if c.images, err = remote.NewRemoteImageService(endpoint, connectTimeout); err != nil {
		return err
	}
	c.endpoint = endpoint
	return nil
}

type collectors struct {
	world      *world
	containers kubecontainer.GC
	images     images.ImageGCManager
}

func newCollectors(s *setup, c *connection) (*collectors, error) {
	if err := c.connect(s.Endpoint); err != nil {
		return nil, err
	}
	files := rooted{root: s.Root}
	logManager, err := logs.NewContainerLogManager(c.runtime, files, "10Mi", 2)
	if err != nil {
		return nil, err
	}
	w := &world{}
	recorder := &record.FakeRecorder{}
	runtime, err := kuberuntime.NewKubeGenericRuntimeManager(
		recorder,
		proberesults.NewManager(),
		proberesults.NewManager(),
		"",
		&cadvisorapi.MachineInfo{},
		w,
		files,
		nil,
		nil,
		flowcontrol.NewBackOff(time.Second, time.Minute),
		true,
		0,
		0,
		"",
		"",
		false,
		metav1.Duration{Duration: 100 * time.Millisecond},
		c.runtime,
		c.images,
		cm.NewFakeInternalContainerLifecycle(),
		nil,
		logManager,
		nil,
	)
	if err != nil {
		return nil, err
	}
	containerPolicy := kubecontainer.GCPolicy{
		MinAge:             time.Duration(s.MinAgeSeconds) * time.Second,
		MaxPerPodContainer: s.MaxPerContainer,
		MaxContainers:      s.MaxTotal,
	}
	containerGC, err := kubecontainer.NewContainerGC(runtime, containerPolicy, w)
	if err != nil {
		return nil, err
	}
	imagePolicy := images.ImageGCPolicy{
		HighThresholdPercent: s.ImageHigh,
		LowThresholdPercent:  s.ImageLow,
		MinAge:               time.Duration(s.ImageMinAgeSeconds) * time.Second,
	}
	node := &v1.ObjectReference{Kind: "Node", Name: "node"}
	imageGC, err := images.NewImageGCManager(runtime, w, recorder, node, imagePolicy, s.SandboxImage)
	if err != nil {
		return nil, err
	}
	return &collectors{world: w, containers: containerGC, images: imageGC}, nil
}

func (c *collectors) run(p *pass) (a answer) {
	*c.world = world{
		exists:       set(p.Pods),
		terminated:   set(p.Terminated),
		sourcesReady: p.SourcesReady,
		capacity:     p.Capacity,
		available:    p.Available,
	}
	collectContainers, collectImages := c.containers.GarbageCollect, c.images.GarbageCollect
	if p.Pressure {
		collectContainers, collectImages = c.containers.DeleteAllUnusedContainers, c.images.DeleteUnusedImages
	}
	if p.Containers {
		a.Containers = text(collectContainers())
	}
	if p.Images {
		a.Images = text(collectImages())
	}
	return a
}

func set(uids []types.UID) map[types.UID]bool {
	all := make(map[types.UID]bool, len(uids))
	for _, uid := range uids {
		all[uid] = true
	}
	return all
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func main() {
	var (
		connection connection
		collectors *collectors
	)
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	out := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var l line
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			fail(err)
		}
		var a answer
		switch {
		case l.Setup != nil:
			c, err := newCollectors(l.Setup, &connection)
			collectors, a.Setup = c, text(err)
		case l.Pass != nil && collectors != nil:
			a = collectors.run(l.Pass)
		default:
			fail(errors.New("a line has neither a setup nor a pass after one"))
		}
		if err := out.Encode(a); err != nil {
			fail(err)
		}
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
