// Parts that a person has opened or closed stay so when a page is updated.
Idiomorph.defaults.callbacks.beforeAttributeUpdated = (name, node) => !(name === "open" && node.localName === "details");
