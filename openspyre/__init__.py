"""The Spyre half of the stack: specification, card and tools. It never imports torch."""
