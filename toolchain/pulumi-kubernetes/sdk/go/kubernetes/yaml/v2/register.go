// Package v2 registers the objects that a component resource of the provider makes.
package v2

import (
	"strings"

	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
)

// RegisterResource registers an object of any kind under the type that the provider's schema gives the kind. The
// object's fields are in the state; none of them is an output of the component, so none has a Go type.
func RegisterResource(ctx *pulumi.Context, apiVersion, kind, name string, properties pulumi.Input,
	options ...pulumi.ResourceOption) (pulumi.CustomResource, error) {
	if !strings.Contains(apiVersion, "/") {
		apiVersion = "core/" + apiVersion
	}
	var object pulumi.CustomResourceState
	if err := ctx.RegisterResource("kubernetes:"+apiVersion+":"+kind, name, properties, &object, options...); err != nil {
		return nil, err
	}
	return &object, nil
}
