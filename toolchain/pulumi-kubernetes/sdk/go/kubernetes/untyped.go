// Package kubernetes is what the provider's own component resources (Helm charts, YAML and Kustomize folders) need of
// the Go SDK. The published SDK is generated from every kind of Kubernetes: 60 packages that take more than five
// minutes to compile and that no resource of the provider itself uses.
package kubernetes

import "reflect"

// UntypedArgs are the properties of an object of any kind.
type UntypedArgs map[string]any

// ElementType makes UntypedArgs an input of the Pulumi SDK.
func (UntypedArgs) ElementType() reflect.Type { return reflect.TypeFor[map[string]any]() }
