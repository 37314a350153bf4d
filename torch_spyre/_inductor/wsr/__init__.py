"""Working set reduction: where later documents have the names of dims."""
