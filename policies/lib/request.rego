package trainyard.lib.request

import data.trainyard.lib.listed_controllers
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

# Whether the kind is one of Kubernetes, beside Job, whose pods its own controllers create. Other groups have a dot.
pod_controller if {
	not contains(api_group, ".")
	kind in array.concat(replicated_kinds, ["CronJob"])
}

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

spec := written if not continued

# The spec of the object, also where an update leaves it as it was.
written := map(object, "spec")

metadata := {part: evaluated(part, value) | some part, value in map(object, "metadata")} if {
	continued
} else := object_get(object, "metadata", {})

# Labels and annotations of one prefix are evaluated together.
evaluated(part, values) := {key: value | some key, value in values; prefix(key) in touched} if {
	part in ["labels", "annotations"]
	is_object(values)
} else := values

touched contains prefix(key) if {
	some part in ["labels", "annotations"]
	before := map(map(old_object, "metadata"), part)
	after := map(map(object, "metadata"), part)
	some values in [before, after]
	some key, _ in values
	not before[key] == after[key]
}

prefix(key) := split(key, "/")[0]

# An update of a controller of pods that neither changes its templates, nor adds replicas, nor resumes it creates no
# other pods: what it leaves as it was is not evaluated again.
continued if {
	operation == "UPDATE"
	pod_controller
	every part in ["template", "jobTemplate", "volumeClaimTemplates"] {
		object_get(written, part, null) == object_get(old_spec, part, null)
	}
	number(written, "replicas", 1) <= number(old_spec, "replicas", 1)
	not resumed
}

continued if {
	operation == "UPDATE"
	listed_controllers.kept
	not resumed
}

resumed if {
	old_spec.suspend == true
	not written.suspend == true
}

old_spec := map(old_object, "spec")

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
