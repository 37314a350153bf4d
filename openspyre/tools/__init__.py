"""The `openspyre` command: one module per subcommand."""
