// Package envtest declares what docs/testing.md uses of controller-runtime's
// package of this name, so that the compiler checks the page without a network.
// Nothing here does anything.
package envtest

// Config stands for rest.Config of client-go.
type Config struct{}

// Environment is a control plane.
type Environment struct{}

// User is a user of the control plane.
type User struct {
	Name   string
	Groups []string
}

// AuthenticatedUser is a user with credentials.
type AuthenticatedUser struct{}

// Start starts the control plane.
func (te *Environment) Start() (*Config, error) { return nil, nil }

// Stop stops it.
func (te *Environment) Stop() error { return nil }

// AddUser adds a user.
func (te *Environment) AddUser(user User, baseConfig *Config) (*AuthenticatedUser, error) {
	return nil, nil
}

// KubeConfig is the content of a kubeconfig.
func (u *AuthenticatedUser) KubeConfig() ([]byte, error) { return nil, nil }
