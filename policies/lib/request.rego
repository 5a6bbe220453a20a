package trainyard.lib.request

import rego.v1

# What a request is about: the object it leaves behind, or, for a deletion, the one it removes.

object := input.request.object if {
	is_object(input.request.object)
} else := input.request.oldObject

old_object := input.request.oldObject if is_object(input.request.oldObject)

operation := input.request.operation

# The part of the object that is written; empty for the object itself.
default subresource := ""

subresource := input.request.subResource if input.request.subResource != null

# The runtime a TrainJob names; null or undefined where it is not known.
runtime := input.request.runtime

namespace := input.request.namespace

namespace_labels := input.request.namespaceLabels

user := input.request.user

kind := object.kind

api_group := parts[0] if {
	parts := split(object.apiVersion, "/")
	count(parts) == 2
} else := ""

# No map is no spec; a cluster's schema refuses it.
default spec := {}

spec := object.spec if is_object(object.spec)

metadata := object_get(object, "metadata", {})

platform := input.params.platform

tenant_policy := input.params.tenantPolicy

# A stack's value of a rule's parameter, else its default.
parameter(id, name) := value if {
	value := input.parameters[id][name]
} else := data.trainyard.catalog[id].parameters[name]

# The value of a field, or the given one where the field is absent or null.
object_get(subject, name, otherwise) := value if {
	value := subject[name]
	value != null
} else := otherwise

# What a field says, as text; empty where it is absent or null. A number or a list where text belongs is no error of the
# rule: a cluster's schema refuses it, and the rule judges what it says.
text(subject, name) := sprintf("%v", [object_get(subject, name, "")])

# The number of pods or Jobs a field asks for: one where it is absent, null or something else.
copies(subject, name) := number(subject, name, 1)

# The number that a field says; the given one where it is absent, null or something else.
number(subject, name, otherwise) := value if {
	value := subject[name]
	is_number(value)
} else := otherwise

# The items of a list field; nothing where it is absent, null or something else.
list(subject, name) := value if {
	value := subject[name]
	is_array(value)
} else := []

# The items of a list field, as text.
texts(subject, name) := [sprintf("%v", [item]) | some item in list(subject, name)]

# The entries of a map field; nothing where it is absent, null or something else.
map(subject, name) := value if {
	value := subject[name]
	is_object(value)
} else := {}
