#include "python/device_layout_keyword.h"

#include <array>
#include <utility>

namespace torch_spyre {
namespace {

namespace py = pybind11;

// Python hands a function of C its arguments and nothing of its own, so every extended one needs a function here.
constexpr size_t kSlots = 8;

struct Extension {
  PyCFunctionWithKeywords original = nullptr;
  PyObject* taking_layout = nullptr;  // as long as the process
  bool is_method = false;
};
std::array<Extension, kSlots> extensions;

PyObject* keyword() {
  static PyObject* const name = PyUnicode_InternFromString("device_layout");
  return name;
}

PyObject* call_with_layout(const Extension& extension, PyObject* self, PyObject* arguments, PyObject* keywords) {
  if (!extension.is_method) return PyObject_Call(extension.taking_layout, arguments, keywords);
  const auto one = py::reinterpret_steal<py::object>(PyTuple_Pack(1, self));
  if (!one) return nullptr;
  const auto all = py::reinterpret_steal<py::object>(PySequence_Concat(one.ptr(), arguments));
  return all ? PyObject_Call(extension.taking_layout, all.ptr(), keywords) : nullptr;
}

PyObject* call_without(const Extension& extension, PyObject* self, PyObject* arguments, PyObject* keywords) {
  const auto others = py::reinterpret_steal<py::object>(PyDict_Copy(keywords));
  if (!others || PyDict_DelItem(others.ptr(), keyword()) < 0) return nullptr;
  return extension.original(self, arguments, PyDict_GET_SIZE(others.ptr()) == 0 ? nullptr : others.ptr());
}

template <size_t slot>
PyObject* extended(PyObject* self, PyObject* arguments, PyObject* keywords) {
  const Extension& extension = extensions[slot];
  PyObject* const layout = keywords ? PyDict_GetItemWithError(keywords, keyword()) : nullptr;
  if (!layout) return PyErr_Occurred() ? nullptr : extension.original(self, arguments, keywords);
  return layout == Py_None ? call_without(extension, self, arguments, keywords)
                           : call_with_layout(extension, self, arguments, keywords);
}

template <size_t... slots>
std::array<PyCFunctionWithKeywords, kSlots> functions(std::index_sequence<slots...>) {
  return {&extended<slots>...};
}

const std::array<PyCFunctionWithKeywords, kSlots> entries = functions(std::make_index_sequence<kSlots>());

PyMethodDef& definition_of(const py::object& function) {
  PyMethodDef* found = nullptr;
  if (Py_IS_TYPE(function.ptr(), &PyMethodDescr_Type)) {
    found = reinterpret_cast<PyMethodDescrObject*>(function.ptr())->d_method;
  } else if (PyCFunction_CheckExact(function.ptr())) {
    found = reinterpret_cast<PyCFunctionObject*>(function.ptr())->m_ml;
  }
  TORCH_CHECK_TYPE(found && (found->ml_flags & ~METH_STATIC) == (METH_VARARGS | METH_KEYWORDS),
                   py::repr(function).cast<std::string>(), " is no function of C that takes keywords");
  return *found;
}

PyCFunctionWithKeywords code_of(const PyMethodDef& definition) {
  return reinterpret_cast<PyCFunctionWithKeywords>(reinterpret_cast<void (*)()>(definition.ml_meth));
}

}  // namespace

bool takes_device_layout(const py::object& function) {
  return std::find(entries.begin(), entries.end(), code_of(definition_of(function))) != entries.end();
}

void take_device_layout(const py::object& function, py::object taking_layout) {
  if (takes_device_layout(function)) return;
  for (size_t slot = 0; slot < kSlots; ++slot) {
    Extension& extension = extensions[slot];
    if (extension.original) continue;
    PyMethodDef& definition = definition_of(function);
    extension = {code_of(definition), taking_layout.release().ptr(),
                 Py_IS_TYPE(function.ptr(), &PyMethodDescr_Type) != 0};
    definition.ml_meth = reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(entries[slot]));
    return;
  }
  TORCH_CHECK(false, "no room for another function that takes device_layout=: raise kSlots");
}

}  // namespace torch_spyre
