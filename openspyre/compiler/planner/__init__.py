"""How work is divided over the cores: pure rules on iteration spaces. `docs/work_division.md` tells them in words."""
