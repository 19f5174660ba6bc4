// Package envtest stands for controller-runtime's package of this name, so that
// the example of docs/testing.md runs without a network. It has what the example
// uses, and its control plane is the one that KUBECONFIG names.
package envtest

import (
	"errors"
	"os"
)

// Config stands for rest.Config of client-go.
type Config struct{}

// Environment is a control plane.
type Environment struct {
	// BinaryAssetsDirectory is where its binaries are.
	BinaryAssetsDirectory string

	started bool
}

// User is a user of the control plane.
type User struct {
	Name   string
	Groups []string
}

// AuthenticatedUser is a user with credentials.
type AuthenticatedUser struct {
	kubeconfig string
}

// Start starts the control plane.
func (te *Environment) Start() (*Config, error) {
	te.started = true
	return &Config{}, nil
}

// Stop stops it.
func (te *Environment) Stop() error {
	te.started = false
	return nil
}

// AddUser adds a user.
func (te *Environment) AddUser(user User, baseConfig *Config) (*AuthenticatedUser, error) {
	if !te.started {
		return nil, errors.New("the control plane does not run")
	}
	return &AuthenticatedUser{kubeconfig: os.Getenv("KUBECONFIG")}, nil
}

// KubeConfig is the content of a kubeconfig.
func (u AuthenticatedUser) KubeConfig() ([]byte, error) { return os.ReadFile(u.kubeconfig) }
