// Programs in the Python module of the card.
#pragma once

#include <pybind11/pybind11.h>

void bind_programs(pybind11::module_& m);
