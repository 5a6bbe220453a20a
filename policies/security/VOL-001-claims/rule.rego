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
	not listed(name)
	not bound(name)
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
	not binding
	count(request.parameter("VOL-001", "storageClasses")) > 0
	some entry in claims
	some class in classes(entry)
	class.name != null
	not class.name in request.parameter("VOL-001", "storageClasses")
}

classes(entry) := array.concat(
	[{"path": sprintf("%s.storageClassName", [entry.spec]), "name": name} |
		name := request.map(entry.claim, "spec").storageClassName
	],
	[{"path": sprintf("%s.annotations[%s]", [entry.metadata, annotation]), "name": name} |
		name := request.map(request.map(entry.claim, "metadata"), "annotations")[annotation]
	],
)

annotation := "volume.beta.kubernetes.io/storage-class"

listed(name) if {
	some pattern in request.parameter("VOL-001", "volumes")
	environment.matches(name, replace(pattern, "{namespace}", request.namespace))
}

# The volume of an existing claim, and one that the platform binds.
bound(name) if {
	binding
	request.text(request.map(request.old_object, "spec"), "volumeName") == name
}

bound(_) if {
	request.kind == "PersistentVolumeClaim"
	users.is_platform("VOL-001")
}

binding if {
	request.kind == "PersistentVolumeClaim"
	request.operation == "UPDATE"
}

# Claims and their templates: entries {spec, metadata, claim} with the paths of spec and metadata.
claims := array.flatten([of_claim, of_pods, of_tasks, of_job_sets])

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
