package trainyard.lib.listed_controllers

import data.trainyard.lib.request
import rego.v1

# Controllers of pods whose kinds a stack lists: data.trainyard.podTemplates has the places of their pod templates, by
# group and kind, as entries {list, path, beside}: the list whose items have a template (empty: there is one), the path
# of the template, and that of the number of its pods (empty: one pod).
templates := data.trainyard.podTemplates[request.api_group][request.kind]

# Whether the kind is one of them: its fields with names of fields of Volcano, JobSet and the trainer mean something else.
listed if count(templates) > 0

# Entries like those of pod_templates.pods.
pods := [entry |
	not request.continued
	some template in templates
	some root in roots(template)
	path := sprintf("%s%s", [root.at, concat(".", template.path)])
	entry := {
		"path": path, "specPath": sprintf("%s.spec", [path]),
		"metadata": object.get(root.object, array.concat(template.path, ["metadata"]), {}),
		"spec": object.get(root.object, array.concat(template.path, ["spec"]), {}),
		"counts": [object.get(root.object, template.beside, 1)],
	}
]

roots(template) := [{"at": "", "object": request.object}] if template.list == []

roots(template) := [{"at": sprintf("%s[%d].", [concat(".", template.list), i]), "object": item} |
	list := object.get(request.object, template.list, [])
	is_array(list)
	some i, item in list
	is_object(item)
] if {
	template.list != []
}

# Whether an update leaves each template as it was and adds no pods.
kept if {
	listed
	not changed
}

changed if {
	some template in templates
	not same(template)
}

same(template) if {
	object.get(request.object, template.list, null) == object.get(request.old_object, template.list, null)
}

same(template) if {
	template.list == []
	object.get(request.object, template.path, null) == object.get(request.old_object, template.path, null)
	number(request.object, template.beside) <= number(request.old_object, template.beside)
}

number(subject, path) := value if {
	value := object.get(subject, path, [])
	is_number(value)
} else := 1
