// Command cel_costs prints what the API server's evaluation of policies costs.
//
// It reads a JSON object with policies (ValidatingAdmissionPolicies) and inputs, compiles and evaluates the policies as
// the admission plug-in does, and prints one entry for each policy that matches an input: the cost of all validations
// and messages, which has a budget per binding, and of the dearest expression, which has a limit of its own.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/version"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/lazy"
	"k8s.io/apiserver/pkg/cel/library"

	unstructuredjson "k8s.io/apimachinery/pkg/util/json"
)

type question struct {
	Policies []admissionregistrationv1.ValidatingAdmissionPolicy `json:"policies"`
	Inputs   []input                                             `json:"inputs"`
}

type input struct {
	Name      string          `json:"name"`
	Policies  []string        `json:"policies"`
	Variables json.RawMessage `json:"variables"`
}

type answer struct {
	Policy     string `json:"policy"`
	Input      string `json:"input"`
	Total      int64  `json:"total"`
	Conditions int64  `json:"conditions"`
	Expression string `json:"expression"`
	Dearest    int64  `json:"dearest"`
	Error      string `json:"error,omitempty"`
}

type expression struct {
	name     string
	compiled plugincel.CompilationResult
}

type policy struct {
	name                                         string
	variables, conditions, validations, messages []expression
}

// evaluation is the activation of one policy and one input.
type evaluation struct {
	variables map[string]any
	total     int64
	dearest   int64
	name      string
	err       string
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	var asked question
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		return err
	}
	compiled := map[string]policy{}
	for _, each := range asked.Policies {
		found, err := compile(each)
		if err != nil {
			return fmt.Errorf("%s: %w", each.Name, err)
		}
		compiled[each.Name] = found
	}
	answers := []answer{}
	for _, each := range asked.Inputs {
		for _, name := range each.Policies {
			found, err := evaluate(compiled[name], each)
			if err != nil {
				return fmt.Errorf("%s: %w", each.Name, err)
			}
			if found != nil {
				answers = append(answers, *found)
			}
		}
	}
	limits := map[string]int64{
		"expression": celconfig.PerCallLimit,
		"policy":     celconfig.RuntimeCELCostBudget,
		"conditions": celconfig.RuntimeCELCostBudgetMatchConditions,
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{"limits": limits, "costs": answers})
}

// compile does what the function compilePolicy of the plug-in does.
func compile(from admissionregistrationv1.ValidatingAdmissionPolicy) (policy, error) {
	set := environment.MustBaseEnvSet(version.MustParse(environment.DefaultCompatibilityVersion().String()))
	compiler, err := plugincel.NewCompositedCompiler(set)
	if err != nil {
		return policy{}, err
	}
	options := plugincel.OptionalVariableDeclarations{HasParams: from.Spec.ParamKind != nil, HasAuthorizer: true}
	ofMessages := plugincel.OptionalVariableDeclarations{HasParams: options.HasParams}
	result := policy{name: from.Name}
	for _, each := range from.Spec.Variables {
		accessor := &validating.Variable{Name: each.Name, Expression: each.Expression}
		stored := compiler.CompileAndStoreVariable(accessor, options, environment.StoredExpressions)
		result.variables = append(result.variables, expression{"variables." + each.Name, stored})
	}
	for _, each := range from.Spec.MatchConditions {
		accessor := (*matchconditions.MatchCondition)(&each)
		stored := compiler.CompileCELExpression(accessor, options, environment.StoredExpressions)
		result.conditions = append(result.conditions, expression{each.Name, stored})
	}
	for _, each := range from.Spec.Validations {
		accessor := &validating.ValidationCondition{Expression: each.Expression}
		stored := compiler.CompileCELExpression(accessor, options, environment.StoredExpressions)
		result.validations = append(result.validations, expression{each.Expression, stored})
		if each.MessageExpression != "" {
			accessor := &validating.MessageExpressionCondition{MessageExpression: each.MessageExpression}
			stored := compiler.CompileCELExpression(accessor, ofMessages, environment.StoredExpressions)
			result.messages = append(result.messages, expression{each.MessageExpression, stored})
		}
	}
	for _, list := range [][]expression{result.variables, result.conditions, result.validations, result.messages} {
		for _, each := range list {
			if each.compiled.Error != nil {
				return policy{}, fmt.Errorf("%s: %w", each.name, each.compiled.Error)
			}
		}
	}
	return result, nil
}

// evaluate returns nil where a match condition excludes the input.
func evaluate(of policy, from input) (*answer, error) {
	matching, err := begin(of, from)
	if err != nil {
		return nil, err
	}
	for _, each := range of.conditions {
		if value := matching.run(each); value != types.True && matching.err == "" {
			return nil, nil
		}
	}
	evaluated, err := begin(of, from)
	if err != nil {
		return nil, err
	}
	for _, each := range of.validations {
		evaluated.run(each)
	}
	// Messages have variables of their own.
	messages, err := begin(of, from)
	if err != nil {
		return nil, err
	}
	for _, each := range of.messages {
		messages.run(each)
	}
	// A message that fails is replaced by the title of the rule.
	if messages.dearest > evaluated.dearest {
		evaluated.dearest, evaluated.name = messages.dearest, messages.name
	}
	return &answer{
		Policy: of.name, Input: from.Name, Conditions: matching.total, Total: evaluated.total + messages.total,
		Dearest: evaluated.dearest, Expression: evaluated.name, Error: matching.err + evaluated.err,
	}, nil
}

func begin(of policy, from input) (*evaluation, error) {
	values := map[string]any{}
	if err := unstructuredjson.Unmarshal(from.Variables, &values); err != nil {
		return nil, err
	}
	who := &user.DefaultInfo{Name: "ann@example.com"}
	values["authorizer"] = library.NewAuthorizerVal(who, authorizerfactory.NewAlwaysDenyAuthorizer())
	result := &evaluation{variables: values}
	object := apiservercel.NewObjectType("kubernetes.variables", map[string]*apiservercel.DeclField{})
	composed := lazy.NewMapValue(object)
	for _, each := range of.variables {
		composed.Append(each.name[len("variables."):], func(*lazy.MapValue) ref.Val { return result.run(each) })
	}
	values["variables"] = composed
	return result, nil
}

// run evaluates an expression and adds its cost, without that of the variables, which report their own.
func (e *evaluation) run(each expression) ref.Val {
	value, details, err := each.compiled.Program.ContextEval(context.Background(), e)
	if details != nil && details.ActualCost() != nil {
		cost := int64(*details.ActualCost())
		e.total += cost
		if cost > e.dearest {
			e.dearest, e.name = cost, each.name
		}
	}
	if err != nil {
		if e.err == "" {
			e.err = fmt.Sprintf("%s: %s; ", each.name, err)
		}
		return types.NewErr("%s", err.Error())
	}
	return value
}

// ResolveName returns a value of the input, or the composed variables.
func (e *evaluation) ResolveName(name string) (any, bool) {
	value, found := e.variables[name]
	return value, found
}

// Parent returns nothing: the input is all there is.
func (e *evaluation) Parent() interpreter.Activation {
	return nil
}
