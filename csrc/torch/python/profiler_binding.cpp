// What the profiler shows of the card, for torch_spyre.profiler.
#include "profiler/trace.h"
#include "python/python_half.h"

namespace py = pybind11;

namespace torch_spyre {

void bind_profiler(py::module_& m) {
  m.def("trace_options", [] {
    const TraceOptions options = trace_options();
    return std::pair(options.steps, options.predicted);
  });
  m.def("set_trace_options", [](bool steps, bool predicted) { set_trace_options({steps, predicted}); });
}

}  // namespace torch_spyre
