package trainyard.lib.request

import rego.v1

# Object of the request: the new object, or for a deletion, the old one.

object := input.request.object if {
	is_object(input.request.object)
} else := input.request.oldObject

old_object := input.request.oldObject if is_object(input.request.oldObject)

operation := input.request.operation

# Subresource that is written; empty for the object itself.
default subresource := ""

subresource := input.request.subResource if input.request.subResource != null

# The runtime that a TrainJob references; null or undefined if unknown.
runtime := input.request.runtime

# Kinds beside Job with a pod template at spec.template.
replicated_kinds := ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController"]

namespace := input.request.namespace

namespace_labels := input.request.namespaceLabels

user := input.request.user

options := map(input.request, "options")

kind := object.kind

api_group := parts[0] if {
	parts := split(object.apiVersion, "/")
	count(parts) == 2
} else := ""

# A value that is not a map is ignored; the cluster's schema rejects it.
default spec := {}

spec := object.spec if is_object(object.spec)

metadata := object_get(object, "metadata", {})

platform := input.params.platform

tenant_policy := input.params.tenantPolicy

# A rule's parameter: the stack's value, or the default.
parameter(id, name) := value if {
	value := input.parameters[id][name]
} else := data.trainyard.catalog[id].parameters[name]

# The value of a field, or the default if it is unset or null.
object_get(subject, name, otherwise) := value if {
	value := subject[name]
	value != null
} else := otherwise

# The value of a field as text; empty if it is unset or null. A number or a list instead of text is not an error of the
# rule: the cluster's schema rejects it, and the rule evaluates its text.
text(subject, name) := sprintf("%v", [object_get(subject, name, "")])

# The number of pods or Jobs in a field: one if it is unset, null or invalid.
copies(subject, name) := number(subject, name, 1)

# The number in a field; the default if it is unset, null or invalid.
number(subject, name, otherwise) := value if {
	value := subject[name]
	is_number(value)
} else := otherwise

# The items of a list field; empty if it is unset, null or invalid.
list(subject, name) := value if {
	value := subject[name]
	is_array(value)
} else := []

# The items of a list field, as text.
texts(subject, name) := [sprintf("%v", [item]) | some item in list(subject, name)]

# The entries of a map field; empty if it is unset, null or invalid.
map(subject, name) := value if {
	value := subject[name]
	is_object(value)
} else := {}
