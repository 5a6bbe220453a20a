// Command api-validator answers what an API server would say to the creation of an object, without an API server.
//
// It reads one JSON object a line and writes one answer a line, in the same order:
//
//	{"errors": [{"path": "spec.template.spec.volumes[0].name", "message": "Required value", "reason": "FieldValueRequired"}]}
//
// It knows pods, the built-in kinds that create pods, and ValidatingAdmissionPolicies. Each is decoded, defaulted, converted, prepared and validated by
// the code of the API server's own registries, the compilation of CEL included. Unknown fields are in "unknown".
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubejson "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/admissionregistration/install"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	"k8s.io/kubernetes/pkg/capabilities"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/validatingadmissionpolicy"
	"k8s.io/kubernetes/pkg/registry/apps/daemonset"
	"k8s.io/kubernetes/pkg/registry/apps/deployment"
	"k8s.io/kubernetes/pkg/registry/apps/replicaset"
	"k8s.io/kubernetes/pkg/registry/apps/statefulset"
	"k8s.io/kubernetes/pkg/registry/batch/cronjob"
	"k8s.io/kubernetes/pkg/registry/batch/job"
	"k8s.io/kubernetes/pkg/registry/core/pod"
)

// maxLine bounds one object. The API server's own limit of a request is 3 MiB.
const maxLine = 16 << 20

var strategies = map[schema.GroupVersionKind]rest.RESTCreateStrategy{
	{Version: "v1", Kind: "Pod"}:                        pod.Strategy,
	{Group: "batch", Version: "v1", Kind: "Job"}:        job.Strategy,
	{Group: "batch", Version: "v1", Kind: "CronJob"}:    cronjob.Strategy,
	{Group: "apps", Version: "v1", Kind: "Deployment"}:  deployment.Strategy,
	{Group: "apps", Version: "v1", Kind: "StatefulSet"}: statefulset.Strategy,
	{Group: "apps", Version: "v1", Kind: "DaemonSet"}:   daemonset.Strategy,
	{Group: "apps", Version: "v1", Kind: "ReplicaSet"}:  replicaset.Strategy,
	{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingAdmissionPolicy"}: validatingadmissionpolicy.NewStrategy(
		nil, nil,
	),
}

type finding struct {
	Path    string `json:"path"`
	Message string `json:"message"`
	Reason  string `json:"reason"`
}

type answer struct {
	Errors  []finding `json:"errors"`
	Unknown []string  `json:"unknown,omitempty"`
}

func main() {
	// Libraries log to stderr, which the caller shows only after a crash.
	klog.SetOutput(io.Discard)
	klog.LogToStderr(false)
	// As on clusters of kubeadm and of Trainyard: the API server runs with --allow-privileged.
	capabilities.Setup(true, 0)
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(input io.Reader, output io.Writer) error {
	decoder := kubejson.NewSerializerWithOptions(
		kubejson.DefaultMetaFactory, legacyscheme.Scheme, legacyscheme.Scheme, kubejson.SerializerOptions{Strict: true},
	)
	lines := bufio.NewScanner(input)
	lines.Buffer(make([]byte, 0, 1<<20), maxLine)
	encoder := json.NewEncoder(output)
	for lines.Scan() {
		if err := encoder.Encode(validated(decoder, lines.Bytes())); err != nil {
			return err
		}
	}
	return lines.Err()
}

func validated(decoder runtime.Decoder, line []byte) answer {
	object, kind, err := decoder.Decode(line, nil, nil)
	var found answer
	if strict, ok := runtime.AsStrictDecodingError(err); ok && object != nil {
		for _, each := range strict.Errors() {
			found.Unknown = append(found.Unknown, each.Error())
		}
	} else if err != nil {
		return answer{Errors: []finding{{Message: err.Error()}}}
	}
	strategy, known := strategies[*kind]
	if !known {
		return answer{Errors: []finding{{Message: fmt.Sprintf("%s is not a kind that is validated", kind)}}}
	}
	found.Errors = created(strategy, object)
	return found
}

// created returns the errors with which the API server rejects the creation of an object.
func created(strategy rest.RESTCreateStrategy, object runtime.Object) []finding {
	legacyscheme.Scheme.Default(object)
	internal, err := legacyscheme.Scheme.ConvertToVersion(object, runtime.InternalGroupVersioner)
	if err != nil {
		return []finding{{Message: err.Error()}}
	}
	metadata, err := meta.Accessor(internal)
	if err != nil {
		return []finding{{Message: err.Error()}}
	}
	rest.FillObjectMetaSystemFields(metadata)
	ctx := request.WithNamespace(context.Background(), metadata.GetNamespace())
	err = rest.BeforeCreate(strategy, ctx, internal)
	if err == nil {
		return []finding{}
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil || len(status.Status().Details.Causes) == 0 {
		return []finding{{Message: err.Error()}}
	}
	return fields(status.Status().Details.Causes)
}

func fields(causes []metav1.StatusCause) []finding {
	found := make([]finding, 0, len(causes))
	for _, cause := range causes {
		found = append(found, finding{Path: cause.Field, Message: cause.Message, Reason: string(cause.Type)})
	}
	return found
}
