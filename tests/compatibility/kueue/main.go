// Command kueue prints the pod sets that Kueue counts for TrainJobs.
//
// It calls the library of Trainer v2.1, which Kueue 0.16 pins, in the way that Kueue's integration does: runtime
// information, pod counts, and the JobSet builder. Input and output are JSON lists.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	jobsetac "sigs.k8s.io/jobset/client-go/applyconfiguration/jobset/v1alpha2"

	trainer "github.com/kubeflow/trainer/v2/pkg/apis/trainer/v1alpha1"
	trainerruntime "github.com/kubeflow/trainer/v2/pkg/runtime"
	"github.com/kubeflow/trainer/v2/pkg/runtime/core"
	jobsetplugin "github.com/kubeflow/trainer/v2/pkg/runtime/framework/plugins/jobset"
)

// question is a TrainJob and the specification of its runtime.
type question struct {
	TrainJob trainer.TrainJob            `json:"trainJob"`
	Runtime  trainer.TrainingRuntimeSpec `json:"runtime"`
}

// podSet is what is counted of a replicatedJob.
type podSet struct {
	Name     string         `json:"name"`
	Replicas int32          `json:"replicas"`
	Count    int32          `json:"count"`
	Pod      corev1.PodSpec `json:"pod"`
}

type answer struct {
	PodSets []podSet `json:"podSets"`
	Error   string   `json:"error,omitempty"`
}

// empty is a client of a cluster without objects.
type empty struct {
	client.Client
	scheme *runtime.Scheme
}

func (e *empty) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: fmt.Sprintf("%T", object)}, key.Name)
}
func (e *empty) Scheme() *runtime.Scheme     { return e.scheme }
func (e *empty) RESTMapper() meta.RESTMapper { return meta.NewDefaultRESTMapper(nil) }

type noIndex struct{}

func (noIndex) IndexField(context.Context, client.Object, string, client.IndexerFunc) error { return nil }

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	var raw []json.RawMessage
	if err := json.NewDecoder(os.Stdin).Decode(&raw); err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(trainer.AddToScheme(scheme))
	utilruntime.Must(jobset.AddToScheme(scheme))
	subject, err := core.NewTrainingRuntime(context.Background(), &empty{scheme: scheme}, noIndex{})
	if err != nil {
		return err
	}
	answers := make([]answer, 0, len(raw))
	for _, text := range raw {
		podSets, err := count(subject, text)
		found := answer{PodSets: podSets}
		if err != nil {
			found.Error = err.Error()
		}
		answers = append(answers, found)
	}
	return json.NewEncoder(os.Stdout).Encode(answers)
}

func count(subject trainerruntime.Runtime, text json.RawMessage) (found []podSet, err error) {
	// The library dereferences fields that the schema defaults.
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("panic: %v", fault)
		}
	}()
	var asked question
	if err := json.Unmarshal(text, &asked); err != nil {
		return nil, err
	}
	info, err := subject.RuntimeInfo(&asked.TrainJob, asked.Runtime.Template, asked.Runtime.MLPolicy, asked.Runtime.PodGroupPolicy)
	if err != nil {
		return nil, err
	}
	spec, ok := trainerruntime.TemplateSpecApply[jobsetac.JobSetSpecApplyConfiguration](info)
	if !ok {
		return nil, fmt.Errorf("the runtime has no JobSet")
	}
	for index, each := range info.TemplateSpec.PodSets {
		if each.Count != nil {
			spec.ReplicatedJobs[index].Template.Spec.Parallelism = each.Count
			spec.ReplicatedJobs[index].Template.Spec.Completions = each.Count
		}
	}
	built := jobsetplugin.NewBuilder(jobsetac.JobSet(asked.TrainJob.Name, asked.TrainJob.Namespace).WithSpec(spec)).
		Initializer(&asked.TrainJob).Trainer(info, &asked.TrainJob).PodLabels(info.Scheduler.PodLabels).Build()
	data, err := json.Marshal(built)
	if err != nil {
		return nil, err
	}
	var result jobset.JobSet
	if err := json.Unmarshal(data, &result); err != nil {
		return nil, err
	}
	for _, job := range result.Spec.ReplicatedJobs {
		found = append(found, podSet{
			Name:     job.Name,
			Replicas: job.Replicas,
			Count:    min(*job.Template.Spec.Parallelism, *job.Template.Spec.Completions),
			Pod:      job.Template.Spec.Template.Spec,
		})
	}
	return found, nil
}
