// Command kubernetes prints what Kubernetes counts as the requests of each pod.
//
// It reads a JSON list of pod specifications, sets the API server's defaults, and calls the function of the scheduler.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"
	defaults "k8s.io/kubernetes/pkg/apis/core/v1"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	var specs []corev1.PodSpec
	if err := json.NewDecoder(os.Stdin).Decode(&specs); err != nil {
		return err
	}
	requests := make([]corev1.ResourceList, 0, len(specs))
	for _, spec := range specs {
		pod := &corev1.Pod{Spec: spec}
		defaults.SetObjectDefaults_Pod(pod)
		requests = append(requests, resource.PodRequests(pod, resource.PodResourcesOptions{}))
	}
	return json.NewEncoder(os.Stdout).Encode(requests)
}
