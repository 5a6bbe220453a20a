"""Control planes and nodes on this machine, images, and simulations on the real scheduler."""
