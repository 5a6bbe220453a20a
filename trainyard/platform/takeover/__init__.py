"""Takeover of objects and installations that others created, and the way back."""
