"""The cases, one module per subject. A module here is found by itself; its cases register where they are written."""
