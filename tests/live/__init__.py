"""Tests of what is read from and done to a live cluster."""
