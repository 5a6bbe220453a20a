// Command volcano prints what Volcano counts as the requests of each pod: cores in thousandths, memory in bytes,
// pods, and thousandths of everything else.
//
// It reads a JSON list of pod specifications, sets the API server's defaults, and calls the function of the scheduler.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	defaults "k8s.io/kubernetes/pkg/apis/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
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
	requests := make([]map[corev1.ResourceName]float64, 0, len(specs))
	for _, spec := range specs {
		pod := &corev1.Pod{Spec: spec}
		defaults.SetObjectDefaults_Pod(pod)
		counted := api.GetPodResourceRequest(pod)
		amounts := map[corev1.ResourceName]float64{corev1.ResourceCPU: counted.MilliCPU, corev1.ResourceMemory: counted.Memory}
		for name, amount := range counted.ScalarResources {
			amounts[name] = amount
		}
		requests = append(requests, amounts)
	}
	return json.NewEncoder(os.Stdout).Encode(requests)
}
