// Command typed_client is a client of the trainer API that knows the Go types of one upstream release.
//
// With "types" it prints the fields of these types and how each is encoded. With "update" it reads objects, one a
// line, and prints each as such a client sends it in an update: decoded and encoded.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	kjson "sigs.k8s.io/json"

	trainer "github.com/kubeflow/trainer/v2/pkg/apis/trainer/v1alpha1"
)

var scalars = map[reflect.Type]string{
	reflect.TypeFor[resource.Quantity]():    "quantity",
	reflect.TypeFor[metav1.Time]():          "time",
	reflect.TypeFor[metav1.MicroTime]():     "any",
	reflect.TypeFor[metav1.Duration]():      "any",
	reflect.TypeFor[metav1.FieldsV1]():      "any",
	reflect.TypeFor[intstr.IntOrString]():   "any",
	reflect.TypeFor[runtime.RawExtension](): "any",
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	if len(arguments) == 1 && arguments[0] == "types" {
		return printTypes()
	}
	if len(arguments) == 1 && arguments[0] == "update" {
		return update()
	}
	return fmt.Errorf("usage: typed_client types|update")
}

type table map[string]map[string]string

func printTypes() error {
	found := table{}
	found.add(reflect.TypeFor[trainer.TrainJobSpec]())
	found.add(reflect.TypeFor[trainer.TrainingRuntimeSpec]())
	output := json.NewEncoder(os.Stdout)
	output.SetIndent("", " ")
	return output.Encode(found)
}

// add records a type and those of its fields, and returns its notation.
func (t table) add(of reflect.Type) string {
	if name, ok := scalars[of]; ok {
		return name
	}
	switch of.Kind() {
	case reflect.Pointer:
		return "*" + t.add(of.Elem())
	case reflect.Slice:
		if of.Elem().Kind() == reflect.Uint8 {
			return "string"
		}
		return "[]" + t.add(of.Elem())
	case reflect.Map:
		return "{}" + t.add(of.Elem())
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "bool"
	case reflect.Int, reflect.Int32, reflect.Int64:
		return "int"
	case reflect.Struct:
		name := path.Base(path.Dir(of.PkgPath())) + "." + of.Name()
		if _, known := t[name]; !known {
			fields := map[string]string{}
			t[name] = fields
			t.addFields(of, fields)
		}
		return name
	}
	panic(fmt.Sprintf("%s: kind %s is not supported", of, of.Kind()))
}

func (t table) addFields(of reflect.Type, fields map[string]string) {
	for index := range of.NumField() {
		field := of.Field(index)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-" || !field.IsExported():
		case field.Anonymous && name == "":
			t.addFields(field.Type, fields)
		default:
			notation := t.add(field.Type)
			if strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero") {
				notation += "?"
			}
			fields[name] = notation
		}
	}
}

func update() error {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	output := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		object, err := decoded(lines.Bytes())
		if err != nil {
			return fmt.Errorf("%w: %s", err, lines.Text())
		}
		if err := output.Encode(object); err != nil {
			return err
		}
	}
	return lines.Err()
}

// decoded returns the object of a line, decoded as the client library does it.
func decoded(line []byte) (any, error) {
	var about metav1.TypeMeta
	if err := json.Unmarshal(line, &about); err != nil {
		return nil, err
	}
	var object any
	switch about.Kind {
	case "TrainJob":
		object = &trainer.TrainJob{}
	case "TrainingRuntime":
		object = &trainer.TrainingRuntime{}
	case "ClusterTrainingRuntime":
		object = &trainer.ClusterTrainingRuntime{}
	case "Quantity":
		object = &struct {
			Kind  string            `json:"kind"`
			Value resource.Quantity `json:"value"`
		}{}
	default:
		return nil, fmt.Errorf("kind %q is not supported", about.Kind)
	}
	return object, kjson.UnmarshalCaseSensitivePreserveInts(line, object)
}
