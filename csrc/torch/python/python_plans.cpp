// Plans come from Python: eager calls and graphs are compiled there, and this reads what it returns.
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>

#include "operators/eager.h"
#include "operators/graph_launch.h"
#include "python/python_half.h"

namespace py = pybind11;

namespace torch_spyre {

PythonHalf& python() {
  static auto* half = new PythonHalf;  // leaked: it may be needed while the interpreter shuts down
  return *half;
}

namespace {

py::object to_python(const c10::IValue& value) {
  if (value.isTensor()) {
    return value.toTensor().defined() ? py::cast(value.toTensor()) : py::object(py::none());
  }
  if (value.isInt()) return py::cast(value.toInt());
  if (value.isDouble()) return py::cast(value.toDouble());
  if (value.isBool()) return py::cast(value.toBool());
  if (value.isString()) return py::cast(value.toStringRef());
  if (value.isIntList()) return py::cast(value.toIntVector());
  if (value.isTensorList() || value.isOptionalTensorList()) {
    py::list items;
    for (const c10::IValue& item : value.toListRef()) items.append(to_python(item));
    return items;
  }
  return py::none();
}

openspyre::Layout layout_from(const py::handle& layout) {
  return {py::cast<std::vector<int64_t>>(layout.attr("device_size")),
          py::cast<std::vector<int64_t>>(layout.attr("stride_map")),
          static_cast<openspyre::DataFormat>(py::cast<int>(layout.attr("device_dtype"))),
          static_cast<openspyre::ElementArrangement>(py::cast<int>(layout.attr("element_arrangement")))};
}

ResultPlan result_plan(const py::handle& model) {
  ResultPlan result;
  result.argument = py::cast<int>(model.attr("argument"));
  result.dtype = py::cast<at::ScalarType>(model.attr("dtype"));
  result.size = py::cast<std::vector<int64_t>>(model.attr("size"));
  result.stride = py::cast<std::vector<int64_t>>(model.attr("stride"));
  if (result.argument < 0) {
    result.shape =
        openspyre::intern(result.size, result.stride, dtype_of(result.dtype), layout_from(model.attr("layout")));
  }
  return result;
}

ConstantTensorPtr constant_from(const py::handle& model) {
  const auto size = py::cast<std::vector<int64_t>>(model.attr("size"));
  const auto stride = py::cast<std::vector<int64_t>>(model.attr("stride"));
  const openspyre::DType dtype = dtype_of(py::cast<at::ScalarType>(model.attr("dtype")));
  return constant_tensor(openspyre::intern(size, stride, dtype, layout_from(model.attr("layout"))),
                         py::cast<std::string>(model.attr("values")));
}

// "int8_checked": a rule may follow an integer's encoding.
ScalarPlan scalar_plan(int argument, const std::string& name) {
  for (int e = 0; e < openspyre::kEncodingCount; ++e) {
    const auto encoding = static_cast<openspyre::Encoding>(e);
    const std::string_view begin = openspyre::name(encoding);
    if (!name.starts_with(begin)) continue;
    if (const auto rule = openspyre::named<openspyre::Rule>(std::string_view(name).substr(begin.size())))
      return {argument, encoding, *rule};
  }
  openspyre::fail(openspyre::Fault::InvalidArgument, "no launch writes a number as '" + name + "'");
}

CallPlan call_plan(const py::handle& model) {
  CallPlan plan;
  if (model.is_none()) {
    plan.fallback = true;
    return plan;
  }
  plan.program = py::cast<uint64_t>(model.attr("program"));
  plan.symbols = py::cast<std::vector<int>>(model.attr("symbols"));
  plan.compiled_offsets = py::cast<std::vector<int64_t>>(model.attr("offsets"));
  for (const py::handle scalar : model.attr("scalars")) {
    const auto [argument, encoding] = py::cast<std::pair<int, std::string>>(scalar);
    plan.scalars.push_back(scalar_plan(argument, encoding));
  }
  for (const py::handle result : model.attr("results")) plan.results.push_back(result_plan(result));
  plan.resize = py::cast<std::vector<int>>(model.attr("resize"));
  plan.draws = py::cast<std::vector<int64_t>>(model.attr("draws"));
  plan.constants = py::cast<std::vector<uint32_t>>(model.attr("constants"));
  plan.fixed = py::cast<std::vector<int>>(model.attr("fixed"));
  plan.shapes = py::cast<std::vector<int64_t>>(model.attr("shapes"));
  for (const py::handle tensor : model.attr("tensors")) plan.tensors.push_back(constant_from(tensor));
  plan.pool_bytes = py::cast<size_t>(model.attr("pool_bytes"));
  plan.predicted = predicted_from(model.attr("predicted"));
  plan.described = model.attr("described").cast<std::string>();
  return plan;
}

}  // namespace

CallPlan compile_call(const std::string& op, const torch::jit::Stack& stack, size_t arguments) {
  py::gil_scoped_acquire gil;
  return with_python_errors([&] {
    py::list values;
    for (size_t i = stack.size() - arguments; i < stack.size(); ++i) values.append(to_python(stack[i]));
    return call_plan(python().compile(op, values));
  });
}

int64_t ask_planning_number() {
  py::gil_scoped_acquire gil;
  return with_python_errors([] { return py::cast<int64_t>(python().planning()); });
}

CallPlan specialise_graph(const GraphRequest& request) {
  py::gil_scoped_acquire gil;
  return with_python_errors([&] {
    return call_plan(
        python().specialise(request.key, request.text, request.inputs, request.symbols, request.offset_classes));
  });
}

namespace {

// A number, or a tensor without dims on the host in its place.
c10::Scalar number_from(const py::handle& given) {
  if (PyLong_Check(given.ptr())) return py::cast<int64_t>(given);
  if (!THPVariable_Check(given.ptr())) return py::cast<double>(given);
  const at::Tensor& tensor = THPVariable_Unpack(given.ptr());
  if (!tensor.is_cpu() || tensor.dim() != 0) throw py::type_error("a compiled graph takes numbers from the host");
  return tensor.item();
}

py::list launch_from_python(const CompiledGraph& graph, const py::list& inputs, const std::vector<int64_t>& symbols,
                            const py::sequence& given_numbers) {
  std::vector<at::Tensor> tensors;
  tensors.reserve(inputs.size());
  for (const py::handle input : inputs) {
    if (!THPVariable_Check(input.ptr())) throw py::type_error("a compiled graph takes tensors");
    tensors.push_back(THPVariable_Unpack(input.ptr()));
  }
  c10::SmallVector<c10::Scalar, 4> numbers;
  for (const py::handle number : given_numbers) numbers.push_back(number_from(number));
  Results results;
  {
    py::gil_scoped_release no_gil;  // memory may have to be waited for
    results = translated([&] { return graph.launch(tensors, symbols, numbers); });
  }
  py::list made(results.size());
  for (size_t i = 0; i < results.size(); ++i) {
    PyList_SET_ITEM(made.ptr(), static_cast<Py_ssize_t>(i), THPVariable_Wrap(std::move(results[i])));
  }
  return made;
}

}  // namespace

void bind_graphs(py::module_& m) {
  py::class_<CompiledGraph, std::shared_ptr<CompiledGraph>>(m, "CompiledGraph")
      .def(py::init([](const std::string& key, std::string text, int device) {
        return std::make_shared<CompiledGraph>(key, std::move(text), static_cast<c10::DeviceIndex>(device));
      }));
  m.def("launch_graph", &launch_from_python, py::arg("graph"), py::arg("inputs"), py::arg("symbols"),
        py::arg("numbers") = py::tuple());
  m.def("graph_counts", [] {
    const GraphCounts counts = graph_counts();
    return py::make_tuple(counts.launches, counts.specialisations, counts.programs);
  });
  m.def("limit_graph_plans", &limit_graph_plans);
  m.def("clear_graph_plans", &clear_graph_plans);
  m.def("forget_planning_number", &forget_planning_number);
}

}  // namespace torch_spyre
