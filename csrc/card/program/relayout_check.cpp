// What can be wrong with a relayout: the DMA goes by its views alone, so they must say the truth about their buffers.
#include <algorithm>
#include <string>

#include "dma/dma.h"
#include "formats/convert.h"
#include "program/prepared_step.h"

namespace openspyre {
namespace {

class RelayoutCheck {
 public:
  RelayoutCheck(const Step& step, int32_t symbols, std::vector<std::string>& problems)
      : step_(step), symbols_(symbols), problems_(problems) {}

  void run() {
    require(step_.views.size() == 2 && step_.inputs.size() == 1 && step_.outputs.size() == 1,
            "a relayout has one input, one output and a view of each");
    if (!problems_.empty()) return;
    check_operand(step_.inputs[0]);
    check_operand(step_.outputs[0]);
    check_view(step_.views[0], "the source");
    check_view(step_.views[1], "the target");
    if (problems_.empty()) check_pair();
  }

 private:
  void require(bool holds, const std::string& otherwise) {
    if (!holds) problems_.push_back(otherwise);
  }

  void check_operand(const Operand& operand) {
    require(operand.space == Space::Memory, "the DMA of a relayout does not reach scratchpads");
    require(operand.symbol >= 0 && operand.symbol < symbols_,
            "symbol " + std::to_string(operand.symbol) + " of " + std::to_string(symbols_));
    require(operand.offset >= 0 && operand.offset < kFarthestElement,
            "its buffer begins at element " + std::to_string(operand.offset) + " behind the symbol");
  }

  void check_view(const Step::View& view, const std::string& which) {
    require(view.shape != nullptr, which + " has no buffer shape");
    require(view.size.size() == view.stride.size(), which + " has as many strides as sizes");
    if (!problems_.empty()) return;
    const DeviceElement element = element_of(view.shape, view.dtype);
    require(device_itemsize(element.format) == device_itemsize(view.shape->layout().format),
            which + " is read as " + name(view.dtype) + " in " + name(element.format) + ", its buffer holds " +
                name(view.shape->layout().format) + ": elements of another width");
    const auto sound = [](int64_t number) { return number >= 0 && number < kFarthestElement; };
    require(sound(view.offset) && std::all_of(view.size.begin(), view.size.end(), sound) &&
                std::all_of(view.stride.begin(), view.stride.end(), sound),
            which + " has an offset, sizes or strides that are negative or beyond any card");
    if (!problems_.empty() || is_empty(view)) return;
    __int128 last = view.offset;
    for (size_t i = 0; i < view.size.size(); ++i) last += static_cast<__int128>(view.size[i] - 1) * view.stride[i];
    require(last < view.shape->host_elements(),
            which + " leaves its buffer, which has " + std::to_string(view.shape->host_elements()) + " host elements");
  }

  // A relayout writes every element once.
  void check_pair() {
    const Step::View &source = step_.views[0], &target = step_.views[1];
    require(source.size == target.size, "source and target of a relayout have different sizes");
    const DeviceElement from = element_of(source.shape, source.dtype), to = element_of(target.shape, target.dtype);
    require(between(from, to) != nullptr, std::string("there is no conversion from ") + name(from.dtype) + " in " +
                                              name(from.format) + " to " + name(to.dtype) + " in " + name(to.format));
    if (!problems_.empty() || is_empty(target)) return;
    __int128 elements = 1;
    for (const int64_t count : target.size) elements = std::min<__int128>(elements * count, kFarthestElement);
    require(elements <= target.shape->host_elements(),
            "more elements are moved than the target's buffer has, " + std::to_string(target.shape->host_elements()));
  }

  static bool is_empty(const Step::View& view) {
    return std::find(view.size.begin(), view.size.end(), 0) != view.size.end();
  }

  const Step& step_;
  const int32_t symbols_;
  std::vector<std::string>& problems_;
};

}  // namespace

void check_relayout(const Step& step, int32_t symbols, std::vector<std::string>& problems) {
  RelayoutCheck(step, symbols, problems).run();
}

}  // namespace openspyre
