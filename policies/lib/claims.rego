package trainyard.lib.claims

import data.trainyard.lib.pod_templates
import data.trainyard.lib.request
import rego.v1

# PersistentVolumeClaims that a request writes, and their templates: entries {spec, metadata, claim} with the paths of
# spec and metadata; a claim of a Volcano Job has no metadata.
all := array.flatten([of_object, of_pods, of_stateful_set, of_tasks, of_job_sets])

of_object := [{"spec": "spec", "metadata": "metadata", "claim": request.object} |
	request.kind == "PersistentVolumeClaim"
]

of_pods := [entry |
	some pod in pod_templates.pods
	some i, volume in request.list(pod.spec, "volumes")
	claim := request.map(volume, "ephemeral").volumeClaimTemplate
	entry := template(sprintf("%s.volumes[%d].ephemeral.volumeClaimTemplate", [pod.specPath, i]), claim)
]

of_stateful_set := [template(sprintf("spec.volumeClaimTemplates[%d]", [i]), claim) |
	some i, claim in request.list(request.spec, "volumeClaimTemplates")
	not claim in immutable
]

# Templates that a StatefulSet has: it could otherwise not change its image.
default immutable := []

immutable := request.list(request.old_object.spec, "volumeClaimTemplates") if {
	request.kind == "StatefulSet"
}

of_tasks := [{"spec": sprintf("spec.volumes[%d].volumeClaim", [i]), "claim": {"spec": claim}} |
	request.api_group == "batch.volcano.sh"
	some i, volume in request.list(request.spec, "volumes")
	claim := volume.volumeClaim
]

of_job_sets := [template(sprintf("%s.volumeClaimPolicies[%d].templates[%d]", [holder.path, i, k]), claim) |
	some holder in job_sets
	some i, policy in request.list(holder.spec, "volumeClaimPolicies")
	some k, claim in request.list(policy, "templates")
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

template(path, claim) := {
	"spec": sprintf("%s.spec", [path]),
	"metadata": sprintf("%s.metadata", [path]),
	"claim": claim,
}
