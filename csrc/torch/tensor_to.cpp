// torch.Tensor.to with device_layout=. A method of C like torch's own: Dynamo knows those by their kind and puts them
// into graphs, also where they are called as torch.Tensor.to(x, ...); a function of Python it would have to break at.
#include "tensor_to.h"

#include <c10/util/SmallVector.h>

#include <string>

namespace torch_spyre {
namespace {

PyObject *original = nullptr, *with_layout = nullptr;

bool names_layout(PyObject* names) {
  for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names); ++i)
    if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, i), "device_layout") == 0) return true;
  return false;
}

PyObject* to(PyObject* self, PyObject* const* arguments, Py_ssize_t positional, PyObject* names) {
  const Py_ssize_t count = positional + (names ? PyTuple_GET_SIZE(names) : 0);
  c10::SmallVector<PyObject*, 8> all = {self};
  all.append(arguments, arguments + count);
  return PyObject_Vectorcall(names_layout(names) ? with_layout : original, all.data(),
                             static_cast<size_t>(positional) + 1, names);
}

PyMethodDef definition = {"to", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&to)),
                          METH_FASTCALL | METH_KEYWORDS, nullptr};

}  // namespace

pybind11::object tensor_to(pybind11::object torchs_own, pybind11::object taking_layout) {
  auto* owner = reinterpret_cast<PyTypeObject*>(torchs_own.attr("__objclass__").ptr());
  static const std::string documentation = pybind11::str(torchs_own.attr("__doc__"));
  definition.ml_doc = documentation.c_str();
  original = torchs_own.release().ptr();  // as long as the process
  with_layout = taking_layout.release().ptr();
  return pybind11::reinterpret_steal<pybind11::object>(PyDescr_NewMethod(owner, &definition));
}

}  // namespace torch_spyre
