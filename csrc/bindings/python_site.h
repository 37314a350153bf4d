// The line of Python that launched something, and notices of the card as Python warnings. Shared by both
// modules.
#pragma once

#include <pybind11/pybind11.h>

#include <initializer_list>
#include <string>
#include <string_view>

#include "sanitizer/sanitize_findings.h"

namespace openspyre {

// Where torch lies, if it was imported; code that it writes for itself claims to lie there too.
inline std::string torch_directory() {
  namespace py = pybind11;
  const py::dict modules = py::module_::import("sys").attr("modules");
  if (!modules.contains("torch") || !py::hasattr(modules["torch"], "__path__"))
    return "";  // or its import is forbidden
  return py::cast<std::string>(py::list(modules["torch"].attr("__path__"))[0]) + "/";
}

// Frames of torch and of this project stand between the user and the card; so does code that Inductor wrote.
inline bool is_users(std::string_view module, std::string_view file, const std::string& torch) {
  for (const std::string_view package : {"torch", "torch_spyre", "openspyre.card", "openspyre.tools", "importlib"})
    if (module == package || (module.starts_with(package) && module[package.size()] == '.')) return false;
  if (!torch.empty() && file.starts_with(torch)) return false;
  return file.find("torchinductor_") == std::string_view::npos && !file.starts_with('<');
}

inline Site python_site() {
  namespace py = pybind11;
  if (!Py_IsInitialized()) return {};
  const py::gil_scoped_acquire gil;
  const py::error_scope keep;  // a caller's error stays what it is
  PyFrameObject* frame = PyEval_GetFrame();
  if (!frame) return {};
  Py_INCREF(frame);
  const std::string torch = torch_directory();
  Site site;
  while (frame && !site.known()) {
    const auto code = py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(PyFrame_GetCode(frame)));
    const auto globals = py::reinterpret_steal<py::dict>(PyFrame_GetGlobals(frame));
    const auto module = globals.contains("__name__") ? py::cast<std::string>(py::str(globals["__name__"])) : "";
    const auto file = py::cast<std::string>(code.attr("co_filename"));
    if (is_users(module, file, torch))
      site = {file, PyFrame_GetLineNumber(frame), py::cast<std::string>(code.attr("co_name"))};
    PyFrameObject* outer = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = outer;
  }
  Py_XDECREF(frame);
  return site;
}

// Needs the GIL. Throws where the user's filters turn the warning into an error.
inline void warn_of_notices() {
  namespace py = pybind11;
  if (!has_notices()) return;
  const py::module_ errors = py::module_::import("openspyre.spec.errors");
  const py::object note = py::module_::import("openspyre.spec.recent_errors").attr("note");
  for (const Notice& notice : take_notices()) {
    note(notice.finding ? "SanitizerWarning" : "MonitorWarning", notice.text);
    const std::string file = notice.site.known() ? notice.site.file : "<spyre>";
    const py::object category = errors.attr(notice.finding ? "SanitizerWarning" : "MonitorWarning");
    if (PyErr_WarnExplicit(category.ptr(), notice.text.c_str(), file.c_str(), notice.site.line, nullptr, nullptr) != 0)
      throw py::error_already_set();
  }
}

}  // namespace openspyre
