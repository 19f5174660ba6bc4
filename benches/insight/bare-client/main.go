// A bare client, which reads what the owners and dependents in a namespace can be found with, as
// kubectl-tree does: with client-go, whole objects, all types at the same time, and each in pages of
// 250.
//
// Its arguments are a kubeconfig and the namespace. It prints the number of objects.
package main

import (
	"context"
	"fmt"
	"os"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// pageSize is that of kubectl-tree.
const pageSize = 250

// requestsPerSecond is the client's own limit; the usual one of 5 would be most of the time.
const requestsPerSecond = 1000

func main() {
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(kubeconfig, namespace string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.QPS, config.Burst = requestsPerSecond, requestsPerSecond
	config.WarningHandler = rest.NoWarnings{}
	types, err := namespaced(config)
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	pages := make([][]unstructured.Unstructured, len(types))
	failures := make([]error, len(types))
	var lists sync.WaitGroup
	for place, of := range types {
		lists.Add(1)
		go func(place int, of dynamic.ResourceInterface) {
			defer lists.Done()
			pages[place], failures[place] = all(of)
		}(place, client.Resource(of).Namespace(namespace))
	}
	lists.Wait()
	objects := 0
	for place := range types {
		if failures[place] != nil {
			return failures[place]
		}
		objects += len(pages[place])
	}
	fmt.Println(objects)
	return nil
}

// namespaced returns the types of namespaced objects that can be listed.
func namespaced(config *rest.Config) ([]schema.GroupVersionResource, error) {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	served, err := client.ServerPreferredResources()
	if err != nil {
		return nil, err
	}
	var types []schema.GroupVersionResource
	for _, list := range served {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, resource := range list.APIResources {
			if resource.Namespaced && sets.NewString(resource.Verbs...).Has("list") {
				types = append(types, version.WithResource(resource.Name))
			}
		}
	}
	return types, nil
}

// all returns the objects of a type.
func all(of dynamic.ResourceInterface) ([]unstructured.Unstructured, error) {
	var objects []unstructured.Unstructured
	options := metav1.ListOptions{Limit: pageSize}
	for {
		page, err := of.List(context.Background(), options)
		if err != nil {
			return nil, err
		}
		objects = append(objects, page.Items...)
		options.Continue = page.GetContinue()
		if options.Continue == "" {
			return objects, nil
		}
	}
}
