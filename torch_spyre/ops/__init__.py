"""Operators on the device."""
