// Ctrl-C and other signals while the host waits for the card, as Python's handlers see them. Shared by both modules.
#pragma once

#include <pybind11/pybind11.h>

#include "streams/interrupt.h"

namespace openspyre {

inline unsigned long main_thread_of_python = 0;  // the only one that runs handlers

// The exception of a signal's handler, such as KeyboardInterrupt; null if there is none.
inline void* python_interrupt() {
#if PY_VERSION_HEX >= 0x030D0000
  const bool ending = Py_IsFinalizing();
#else
  const bool ending = _Py_IsFinalizing();
#endif
  if (PyThread_get_thread_ident() != main_thread_of_python || !Py_IsInitialized() || ending) return nullptr;
  const pybind11::gil_scoped_acquire gil;
  const pybind11::error_scope keep;  // a caller's error stays what it is
  if (PyErr_CheckSignals() == 0) return nullptr;
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  if (trace) PyException_SetTraceback(value, trace);
  Py_XDECREF(type);
  Py_XDECREF(trace);
  return value;
}

// Needs the GIL. Makes the handler's exception Python's current one.
inline void restore_interrupt(const Interrupted& interrupted) {
  auto* value = static_cast<PyObject*>(interrupted.cause);
  PyErr_Restore(Py_NewRef(Py_TYPE(value)), value, PyException_GetTraceback(value));
}

inline void let_python_interrupt() {
  const pybind11::object main = pybind11::module_::import("threading").attr("main_thread")();
  main_thread_of_python = pybind11::cast<unsigned long>(main.attr("ident"));
  set_interrupt_check(&python_interrupt);
}

}  // namespace openspyre
