// Command upstream_render measures how many TrainJobs a second upstream's own code renders and validates on one core.
//
// It calls the code of the upstream controller directly; the API server is replaced by a client that hands out copies,
// as the controller's cache does.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	goruntime "runtime"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	"sigs.k8s.io/yaml"

	trainer "github.com/kubeflow/trainer/v2/pkg/apis/trainer/v1alpha1"
	trainerruntime "github.com/kubeflow/trainer/v2/pkg/runtime"
	"github.com/kubeflow/trainer/v2/pkg/runtime/core"
)

// cache answers reads with copies and accepts every write.
type cache struct {
	client.Client
	scheme   *runtime.Scheme
	runtime  *trainer.ClusterTrainingRuntime
	snapshot *corev1.ConfigMap
}

func (c *cache) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	switch target := object.(type) {
	case *trainer.ClusterTrainingRuntime:
		c.runtime.DeepCopyInto(target)
		return nil
	case *corev1.ConfigMap:
		if c.snapshot != nil {
			c.snapshot.DeepCopyInto(target)
			return nil
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{Resource: fmt.Sprintf("%T", object)}, key.Name)
}

func (c *cache) Apply(context.Context, runtime.ApplyConfiguration, ...client.ApplyOption) error {
	return nil
}
func (c *cache) Scheme() *runtime.Scheme     { return c.scheme }
func (c *cache) RESTMapper() meta.RESTMapper { return meta.NewDefaultRESTMapper(nil) }

// noIndex is an indexer for a cache that is never searched.
type noIndex struct{}

func (noIndex) IndexField(context.Context, client.Object, string, client.IndexerFunc) error {
	return nil
}

func main() {
	runtimeFile := flag.String("runtime", "", "manifest of the ClusterTrainingRuntime")
	jobFile := flag.String("job", "", "manifest of the TrainJob")
	seconds := flag.Float64("seconds", 2, "how long each measurement takes")
	flag.Parse()
	goruntime.GOMAXPROCS(1)
	if err := measure(*runtimeFile, *jobFile, time.Duration(*seconds*float64(time.Second))); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func measure(runtimeFile, jobFile string, lasting time.Duration) error {
	ctx := context.Background()
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(trainer.AddToScheme(scheme))
	utilruntime.Must(jobsetv1alpha2.AddToScheme(scheme))
	store := &cache{scheme: scheme, runtime: &trainer.ClusterTrainingRuntime{}}
	job := &trainer.TrainJob{}
	for file, target := range map[string]any{runtimeFile: store.runtime, jobFile: job} {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := yaml.Unmarshal(text, target); err != nil {
			return err
		}
	}
	// The namespaced runtime holds the machinery that the cluster-scoped one uses.
	if _, err := core.NewTrainingRuntime(ctx, store, noIndex{}, nil); err != nil {
		return err
	}
	subject, err := core.NewClusterTrainingRuntime(ctx, store, noIndex{}, nil)
	if err != nil {
		return err
	}
	first, err := rate(lasting, func() error { return render(ctx, subject, job) })
	if err != nil {
		return err
	}
	validations, err := rate(lasting, func() error {
		if _, errs := subject.ValidateObjects(ctx, job, job.DeepCopy()); len(errs) > 0 {
			return errs.ToAggregate()
		}
		return nil
	})
	if err != nil {
		return err
	}
	text, err := yaml.Marshal(store.runtime)
	if err != nil {
		return err
	}
	store.snapshot = &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{
			{UID: job.UID, Kind: trainer.TrainJobKind, Name: job.Name, Controller: ptr.To(true)},
		}},
		Data: map[string]string{"runtime": string(text)},
	}
	again, err := rate(lasting, func() error { return render(ctx, subject, job) })
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]float64{
		"renders_per_second":               first,
		"renders_from_snapshot_per_second": again,
		"validations_per_second":           validations,
	})
}

func render(ctx context.Context, subject trainerruntime.Runtime, job *trainer.TrainJob) error {
	// Plugins write into the TrainJob, so the controller works on a copy from its cache.
	objects, err := subject.NewObjects(ctx, job.DeepCopy())
	if err == nil && len(objects) == 0 {
		err = fmt.Errorf("nothing was rendered")
	}
	return err
}

// rate returns how often work is done in a second of this process's own time, the garbage collector's included.
func rate(lasting time.Duration, work func() error) (float64, error) {
	for warm := 0; warm < 50; warm++ {
		if err := work(); err != nil {
			return 0, err
		}
	}
	started, count := spent(), 0
	for spent()-started < lasting {
		if err := work(); err != nil {
			return 0, err
		}
		count++
	}
	return float64(count) / (spent() - started).Seconds(), nil
}

func spent() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
