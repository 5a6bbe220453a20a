"""Tests of rules: their cases, and the engines that run them; not used by admission."""
