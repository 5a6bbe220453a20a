package trainyard.lib.owners

import data.trainyard.lib.request
import rego.v1

# Owner references in metadata to the controller of the object; the API server allows one.
controllers(metadata) := [owner |
	some owner in request.list(metadata, "ownerReferences")
	owner.controller == true
]
