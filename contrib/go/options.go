package kubegc

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sort"
	"strings"
)

// name is the name of the binary.
const name = "kube-gc"

// usualAssets is where envtest looks for binaries if nothing says where they are.
var usualAssets = "/usr/local/kubebuilder/bin"

type settings struct {
	binary string
	assets string
	args   []string
	log    io.Writer
}

// An Option changes how Start runs the collector.
type Option func(*settings)

// WithBinary names the binary. Nothing is looked for then.
func WithBinary(path string) Option {
	return func(s *settings) { s.binary = path }
}

// WithAssets names the directory in which the binary is looked for first, such
// as BinaryAssetsDirectory of envtest, with what envtest downloads into it.
func WithAssets(directory string) Option {
	return func(s *settings) { s.assets = directory }
}

// WithArgs appends arguments to those of “kube-gc run”, for example “-v”.
func WithArgs(args ...string) Option {
	return func(s *settings) { s.args = append(s.args, args...) }
}

// WithLog also writes the log of the collector to w. Without this option, only
// errors show the end of the log.
func WithLog(w io.Writer) Option {
	return func(s *settings) { s.log = w }
}

// find returns the path of the binary.
func find(named, assets string) (string, error) {
	if named != "" {
		return exec.LookPath(named)
	}
	var places []string
	if assets != "" {
		// envtest downloads each release into a directory of its own.
		places = append(append([]string{assets}, releases(assets)...), releases(filepath.Join(assets, "k8s"))...)
	}
	places = append(places, os.Getenv("KUBEBUILDER_ASSETS"))
	// Projects of kubebuilder keep the binaries of envtest beside go.mod. A test
	// runs in the directory of its package.
	directory, _ := os.Getwd()
	for ; directory != filepath.Dir(directory); directory = filepath.Dir(directory) {
		if _, err := os.Stat(filepath.Join(directory, "go.mod")); err == nil {
			places = append(places, releases(filepath.Join(directory, "bin", "k8s"))...)
			break
		}
	}
	// setup-envtest and “make install-envtest” use this directory.
	data := os.Getenv("XDG_DATA_HOME")
	if home, err := os.UserHomeDir(); data == "" && err == nil {
		data = filepath.Join(home, ".local", "share")
	}
	// Without a home, this would be a path in the working directory.
	if data != "" {
		places = append(places, releases(filepath.Join(data, "kubebuilder-envtest", "k8s"))...)
	}
	var unusable error
	for _, place := range append(places, usualAssets) {
		if place == "" {
			continue
		}
		path, err := exec.LookPath(filepath.Join(place, name))
		if err == nil {
			return path, nil
		}
		if unusable == nil && !errors.Is(err, os.ErrNotExist) {
			unusable = err
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		if unusable != nil {
			err = unusable
		}
		return "", fmt.Errorf("%s is in none of the directories of envtest (KUBEBUILDER_ASSETS is %q) and not in PATH; run “make install-envtest” in the repository of kube-gc, or use WithAssets or WithBinary: %w", name, os.Getenv("KUBEBUILDER_ASSETS"), err)
	}
	return path, nil
}

// releases returns the directories of releases of envtest, the newest first.
// They are named VERSION-OS-ARCH.
func releases(directory string) []string {
	entries, _ := os.ReadDir(directory)
	type release struct {
		path                string
		major, minor, patch int
	}
	var found []release
	for _, entry := range entries {
		r := release{path: filepath.Join(directory, entry.Name())}
		if !strings.HasSuffix(entry.Name(), "-"+runtime.GOOS+"-"+runtime.GOARCH) {
			continue
		}
		if _, err := fmt.Sscanf(entry.Name(), "%d.%d.%d-", &r.major, &r.minor, &r.patch); err == nil {
			found = append(found, r)
		}
	}
	sort.Slice(found, func(i, j int) bool {
		a, b := found[i], found[j]
		if a.major != b.major {
			return a.major > b.major
		}
		if a.minor != b.minor {
			return a.minor > b.minor
		}
		return a.patch > b.patch
	})
	paths := make([]string, len(found))
	for i, r := range found {
		paths[i] = r.path
	}
	return paths
}
