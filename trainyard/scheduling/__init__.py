"""Queues, the network fabric, and the configuration of Volcano's scheduler."""
