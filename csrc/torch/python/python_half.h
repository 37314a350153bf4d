// What the C++ half asks of Python: callables that the Python half connects once, and their errors.
#pragma once

#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

#include "device/observer.h"

namespace torch_spyre {

struct [[gnu::visibility("hidden")]] PythonHalf {  // as pybind11 wants its objects
  pybind11::object configure;                      // reads the environment and configures the cards
  pybind11::object raise;                          // (fault name, message): raises the catalogue's class
  pybind11::object announce;                       // (operator, mode): warns or raises
  pybind11::object compile;                        // (operator, arguments): a plan, or None for the CPU fallback
  pybind11::object specialise;                     // (key, text, inputs, symbols, offset classes): the plan of a graph
  pybind11::object planning;                       // (): a number for the options that programs are planned with
};
PythonHalf& python();

// Dynamo, where it watches the calling thread, would trace our own compiler as if it were the user's code.
class [[gnu::visibility("hidden")]] Unwatched {
 public:
  Unwatched() : before_(watch()(pybind11::none())) {}
  ~Unwatched() {
    PyObject* unwatched = PyObject_CallOneArg(watch().ptr(), before_.ptr());
    if (!unwatched) PyErr_WriteUnraisable(watch().ptr());
    Py_XDECREF(unwatched);
  }
  Unwatched(const Unwatched&) = delete;
  Unwatched& operator=(const Unwatched&) = delete;

 private:
  static const pybind11::object& watch() {
    static const auto* function = new pybind11::object(
        pybind11::module_::import("torch").attr("_C").attr("_dynamo").attr("eval_frame").attr("set_eval_frame"));
    return *function;
  }
  pybind11::object before_;
};

// Errors of Python pass through C++ as what they are.
template <typename Body>
decltype(auto) with_python_errors(Body&& body) {
  try {
    const Unwatched unwatched;
    return std::forward<Body>(body)();
  } catch (pybind11::error_already_set& error) {
    error.restore();
    python_error python;
    python.persist();
    throw python;
  }
}

template <typename... Arguments>
void call_python(const pybind11::object& callable, Arguments&&... arguments) {
  with_python_errors([&] { callable(std::forward<Arguments>(arguments)...); });
}

void bind_graphs(pybind11::module_& m);
void bind_copy_log(pybind11::module_& m);
void bind_memory_history(pybind11::module_& m);
void bind_observer(pybind11::module_& m);
void bind_profiler(pybind11::module_& m);
void bind_raw_copy(pybind11::module_& m);
void bind_shown_launches(pybind11::module_& m);
PredictedTimes predicted_from(const pybind11::handle& times);

}  // namespace torch_spyre
