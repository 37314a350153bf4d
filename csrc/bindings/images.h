#pragma once

#include <pybind11/pybind11.h>

void bind_images(pybind11::module_& m);
