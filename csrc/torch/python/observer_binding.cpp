// Recorders for Python, and launches that Python makes itself.
#include <map>
#include <optional>

#include "device/observer.h"
#include "python/python_half.h"

namespace py = pybind11;

namespace torch_spyre {
namespace {

const char* word(Observed::What what) {
  switch (what) {
    case Observed::What::Launch:
      return "launch";
    case Observed::What::CopyToCard:
      return "to card";
    case Observed::What::CopyFromCard:
      return "from card";
    case Observed::What::CopyWithin:
      return "within card";
    case Observed::What::Fallback:
      return "fallback";
  }
  return "";
}

py::tuple tuples(const PredictedTimes& predicted) {
  py::list times;
  for (const PredictedTime& time : predicted ? *predicted : std::vector<PredictedTime>{})
    times.append(py::make_tuple(time.kernel_class, time.us, time.off));
  return times;
}

py::list records(const Recorder& recorder) {
  py::list told;
  std::map<PredictedTimes, py::tuple> once;  // launches of one program share theirs
  for (const Observed& observed : recorder.records()) {
    auto [known, fresh] = once.try_emplace(observed.predicted);
    if (fresh) known->second = tuples(observed.predicted);
    told.append(py::make_tuple(word(observed.what), observed.name, known->second, observed.bytes_down,
                               observed.bytes_up, observed.turned));
  }
  return told;
}

// As a context manager.
struct PythonUnobserved {
  std::optional<Unobserved> within;
};

}  // namespace

PredictedTimes predicted_from(const py::handle& times) {
  auto read = std::make_shared<std::vector<PredictedTime>>();
  for (const py::handle time : times) {
    const auto [kernel_class, us, off] = py::cast<std::tuple<std::string, double, double>>(time);
    read->push_back({kernel_class, us, off});
  }
  return read;
}

void bind_observer(py::module_& m) {
  py::class_<Recorder, std::shared_ptr<Recorder>>(m, "Recorder")
      .def(py::init<bool>(), py::arg("all_threads"))
      .def("start", &Recorder::start)
      .def("stop", &Recorder::stop)
      .def("records", &records);
  py::class_<PythonUnobserved>(m, "Unobserved")
      .def(py::init<>())
      .def("__enter__", [](PythonUnobserved& scope) { scope.within.emplace(); })
      .def("__exit__", [](PythonUnobserved& scope, const py::args&) { scope.within.reset(); });
  m.def("tell_launch", [](const std::string& name, const py::handle& predicted) {
    tell({.name = name, .predicted = predicted_from(predicted)});
  });
}

}  // namespace torch_spyre
