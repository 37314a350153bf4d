"""Cards at work, seen from outside: counters that processes publish, their rates, and views of them."""
