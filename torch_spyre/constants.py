"""Names that other projects import from here."""

DEVICE_NAME = "spyre"
