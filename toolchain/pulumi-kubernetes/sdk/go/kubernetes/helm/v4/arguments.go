// Package v4 has the two structured arguments of the provider's Helm chart.
package v4

import (
	"context"
	"reflect"

	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
)

// PostRenderer is the program that changes a rendered chart.
type PostRenderer struct {
	Args    []string `pulumi:"args"`
	Command string   `pulumi:"command"`
}

// PostRendererInput is a PostRenderer that may not be known yet.
type PostRendererInput interface {
	pulumi.Input
	ToPostRendererOutput() PostRendererOutput
	ToPostRendererOutputWithContext(context.Context) PostRendererOutput
}

// PostRendererOutput is a PostRenderer that comes from elsewhere.
type PostRendererOutput struct{ *pulumi.OutputState }

// ElementType makes PostRendererOutput an output of the Pulumi SDK.
func (PostRendererOutput) ElementType() reflect.Type { return reflect.TypeFor[PostRenderer]() }

// ToPostRendererOutput makes the output an input.
func (o PostRendererOutput) ToPostRendererOutput() PostRendererOutput { return o }

// ToPostRendererOutputWithContext makes the output an input.
func (o PostRendererOutput) ToPostRendererOutputWithContext(context.Context) PostRendererOutput {
	return o
}

// RepositoryOpts say where a chart is and who may read it.
type RepositoryOpts struct {
	CaFile   pulumi.AssetOrArchive `pulumi:"caFile"`
	CertFile pulumi.AssetOrArchive `pulumi:"certFile"`
	KeyFile  pulumi.AssetOrArchive `pulumi:"keyFile"`
	Password *string               `pulumi:"password"`
	Repo     *string               `pulumi:"repo"`
	Username *string               `pulumi:"username"`
}

// RepositoryOptsInput are RepositoryOpts that may not be known yet.
type RepositoryOptsInput interface {
	pulumi.Input
	ToRepositoryOptsOutput() RepositoryOptsOutput
	ToRepositoryOptsOutputWithContext(context.Context) RepositoryOptsOutput
}

// RepositoryOptsOutput are RepositoryOpts that come from elsewhere.
type RepositoryOptsOutput struct{ *pulumi.OutputState }

// ElementType makes RepositoryOptsOutput an output of the Pulumi SDK.
func (RepositoryOptsOutput) ElementType() reflect.Type { return reflect.TypeFor[RepositoryOpts]() }

// ToRepositoryOptsOutput makes the output an input.
func (o RepositoryOptsOutput) ToRepositoryOptsOutput() RepositoryOptsOutput { return o }

// ToRepositoryOptsOutputWithContext makes the output an input.
func (o RepositoryOptsOutput) ToRepositoryOptsOutputWithContext(context.Context) RepositoryOptsOutput {
	return o
}

func init() {
	pulumi.RegisterOutputType(PostRendererOutput{})
	pulumi.RegisterOutputType(RepositoryOptsOutput{})
}
