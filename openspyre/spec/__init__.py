"""What every room agrees on: formats, layouts, the machine, the switches, the errors. Imports nothing of ours."""
