"""Helpers shared by the components: objects, permissions, workloads, webhooks, images, ownership."""
