"""Waist 2: what a card executes."""
