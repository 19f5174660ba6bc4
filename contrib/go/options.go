package kubegc

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
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
// as BinaryAssetsDirectory of envtest.
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
	places := []string{assets, os.Getenv("KUBEBUILDER_ASSETS")}
	// Projects of kubebuilder keep the binaries of envtest beside go.mod. A test
	// runs in the directory of its package.
	directory, _ := os.Getwd()
	for ; directory != filepath.Dir(directory); directory = filepath.Dir(directory) {
		if _, err := os.Stat(filepath.Join(directory, "go.mod")); err == nil {
			found, _ := filepath.Glob(filepath.Join(directory, "bin", "k8s", "*"))
			places = append(places, found...)
			break
		}
	}
	for _, place := range append(places, usualAssets) {
		if place == "" {
			continue
		}
		path, err := exec.LookPath(filepath.Join(place, name))
		if err == nil || !errors.Is(err, os.ErrNotExist) {
			return path, err
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%s is in none of the directories of envtest (KUBEBUILDER_ASSETS is %q) and not in PATH; run “make install-envtest” in the repository of kube-gc, or use WithAssets or WithBinary: %w", name, os.Getenv("KUBEBUILDER_ASSETS"), err)
	}
	return path, nil
}
