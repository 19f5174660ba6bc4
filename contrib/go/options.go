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

type settings struct {
	binary string
	args   []string
	log    io.Writer
}

// An Option changes how Start runs the collector.
type Option func(*settings)

// WithBinary names the binary. Nothing is looked for then.
func WithBinary(path string) Option {
	return func(s *settings) { s.binary = path }
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
func find(named string) (string, error) {
	if named != "" {
		return exec.LookPath(named)
	}
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets != "" {
		path, err := exec.LookPath(filepath.Join(assets, name))
		if err == nil || !errors.Is(err, os.ErrNotExist) {
			return path, err
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%s is neither in KUBEBUILDER_ASSETS (%q) nor in PATH; run “make install-envtest” in the repository of kube-gc, or use WithBinary: %w", name, assets, err)
	}
	return path, nil
}
