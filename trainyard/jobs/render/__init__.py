"""Render a TrainJob and its runtime into JobSet, PodGroup and ConfigMap; pure: no clock, no randomness, no I/O."""
