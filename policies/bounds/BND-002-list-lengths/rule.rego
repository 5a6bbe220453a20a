package trainyard.rules.bnd_002

import data.trainyard.lib.list_lengths
import data.trainyard.lib.list_sums
import data.trainyard.lib.name_lengths
import data.trainyard.lib.old_lengths
import rego.v1

violation contains {"path": path, "message": sprintf("%d pod templates exceed the limit of %d", [list.length, list.limit])} if {
	some path, list in list_lengths.of_object
	old_lengths.grows(path, list)
}

violation contains {"path": path, "message": sprintf("%d containers exceed the limit of %d", [list.length, list.limit])} if {
	some path, list in list_lengths.of_containers
	old_lengths.grows(path, list)
}

violation contains {"path": path, "message": sprintf("%d items exceed the limit of %d", [list.length, list.limit])} if {
	some path, list in list_sums.lists
	old_lengths.grows(path, list)
}

violation contains {"path": path, "message": message} if {
	some path, list in list_sums.of_all_containers
	message := sprintf("%d items of all containers exceed the limit of %d", [list.length, list.limit])
}

violation contains {"path": path, "message": sprintf("a name of %d characters exceeds the limit of %d", [name.length, name.limit])} if {
	some path, name in name_lengths.long
	old_lengths.grows(path, name)
}
