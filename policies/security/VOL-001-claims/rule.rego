package trainyard.rules.vol_001

import data.trainyard.lib.environment
import data.trainyard.lib.pod_templates
import data.trainyard.lib.request
import data.trainyard.lib.users
import rego.v1

violation contains {"path": path, "message": sprintf("claims of this namespace cannot name volume \"%v\"", [name])} if {
	some entry in claims
	name := request.text(request.map(entry.claim, "spec"), "volumeName")
	name != ""
	not trusted
	not listed(name)
	not kept(["spec", "volumeName"], name)
	path := sprintf("%s.volumeName", [entry.spec])
}

violation contains {"path": path, "message": message} if {
	not binding
	some entry in claims
	namespace := request.text(request.map(request.map(entry.claim, "spec"), "dataSourceRef"), "namespace")
	not namespace in ["", request.namespace]
	path := sprintf("%s.dataSourceRef.namespace", [entry.spec])
	message := sprintf("namespace \"%v\" of the data source is not the claim's own", [namespace])
}

violation contains {"path": class.path, "message": sprintf("storage class \"%v\" is not allowed", [class.name])} if {
	not trusted
	some entry in claims
	some class in classes(entry)
	class.name != null
	not class.name in request.parameter("VOL-001", "storageClasses")
	not kept(class.field, class.name)
}

violation contains {"path": path, "message": sprintf("volume attributes class \"%v\" is not allowed", [name])} if {
	not trusted
	some entry in claims
	name := request.text(request.map(entry.claim, "spec"), "volumeAttributesClassName")
	name != ""
	not name in request.parameter("VOL-001", "volumeAttributesClasses")
	not kept(["spec", "volumeAttributesClassName"], name)
	path := sprintf("%s.volumeAttributesClassName", [entry.spec])
}

violation contains {"path": path, "message": "a selector can bind the volume of another tenant"} if {
	not binding
	not trusted
	not "*" in request.parameter("VOL-001", "volumes")
	some entry in claims
	request.object_get(request.map(entry.claim, "spec"), "selector", null) != null
	path := sprintf("%s.selector", [entry.spec])
}

violation contains {"path": path, "message": sprintf("only the cluster sets annotation %s", [key])} if {
	not trusted
	some entry in claims
	some key in cluster_annotations
	value := request.map(request.map(entry.claim, "metadata"), "annotations")[key]
	value != null
	not kept(["metadata", "annotations", key], value)
	path := sprintf("%s.annotations[%s]", [entry.metadata, key])
}

# Annotations of the scheduler and the volume controller.
cluster_annotations := [
	"pv.kubernetes.io/bind-completed",
	"pv.kubernetes.io/bound-by-controller",
	"volume.beta.kubernetes.io/storage-provisioner",
	"volume.kubernetes.io/selected-node",
	"volume.kubernetes.io/storage-provisioner",
]

classes(entry) := array.concat(
	[class |
		name := request.map(entry.claim, "spec").storageClassName
		path := sprintf("%s.storageClassName", [entry.spec])
		class := {"path": path, "field": ["spec", "storageClassName"], "name": name}
	],
	[class |
		name := request.map(request.map(entry.claim, "metadata"), "annotations")[annotation]
		path := sprintf("%s.annotations[%s]", [entry.metadata, annotation])
		class := {"path": path, "field": ["metadata", "annotations", annotation], "name": name}
	],
)

annotation := "volume.beta.kubernetes.io/storage-class"

listed(name) if {
	some pattern in request.parameter("VOL-001", "volumes")
	environment.matches(name, replace(pattern, "{namespace}", request.namespace))
}

# A value that the existing claim has.
kept(field, value) if {
	binding
	object.get(request.old_object, field, null) == value
}

# The platform binds claims, and the platform team creates them. A claim that a controller of Kubernetes creates has the
# values of a user's template.
trusted if {
	request.kind == "PersistentVolumeClaim"
	users.is_platform("VOL-001")
	not from_template
}

from_template if {
	request.operation == "CREATE"
	request.user.name == "system:kube-controller-manager"
}

from_template if {
	request.operation == "CREATE"
	startswith(request.user.name, "system:serviceaccount:kube-system:")
}

binding if {
	request.kind == "PersistentVolumeClaim"
	request.operation == "UPDATE"
}

# Claims and their templates: entries {spec, metadata, claim} with the paths of spec and metadata.
claims := array.flatten([of_claim, of_pods, of_stateful_set, of_tasks, of_job_sets])

of_claim := [{"spec": "spec", "metadata": "metadata", "claim": request.object} |
	request.kind == "PersistentVolumeClaim"
]

of_pods := [entry |
	some pod in pod_templates.pods
	some i, volume in request.list(pod.spec, "volumes")
	claim := request.map(volume, "ephemeral").volumeClaimTemplate
	is_object(claim)
	path := sprintf("%s.volumes[%d].ephemeral.volumeClaimTemplate", [pod.specPath, i])
	entry := {"spec": sprintf("%s.spec", [path]), "metadata": sprintf("%s.metadata", [path]), "claim": claim}
]

of_stateful_set := [{"spec": sprintf("%s.spec", [path]), "metadata": sprintf("%s.metadata", [path]), "claim": claim} |
	some i, claim in request.list(request.spec, "volumeClaimTemplates")
	not claim in immutable_templates
	path := sprintf("spec.volumeClaimTemplates[%d]", [i])
]

# Templates that a StatefulSet has: it could otherwise not change its image.
default immutable_templates := []

immutable_templates := request.list(request.old_object.spec, "volumeClaimTemplates") if {
	request.kind == "StatefulSet"
	request.operation == "UPDATE"
}

of_tasks := [{"spec": sprintf("spec.volumes[%d].volumeClaim", [i]), "metadata": "", "claim": {"spec": claim}} |
	request.api_group == "batch.volcano.sh"
	some i, volume in request.list(request.spec, "volumes")
	claim := volume.volumeClaim
	claim != null
]

of_job_sets := [entry |
	some holder in job_sets
	some i, policy in request.list(holder.spec, "volumeClaimPolicies")
	some k, claim in request.list(policy, "templates")
	path := sprintf("%s.volumeClaimPolicies[%d].templates[%d]", [holder.path, i, k])
	entry := {"spec": sprintf("%s.spec", [path]), "metadata": sprintf("%s.metadata", [path]), "claim": claim}
]

job_sets := array.concat(
	[
		{"path": "spec", "spec": request.spec},
		{"path": "spec.template.spec", "spec": request.map(request.map(request.spec, "template"), "spec")},
	],
	[{"path": path, "spec": spec} |
		some i, patch in pod_templates.patches
		spec := patch.trainingRuntimeSpec.template.spec
		path := sprintf("spec.runtimePatches[%d].trainingRuntimeSpec.template.spec", [i])
	],
)
