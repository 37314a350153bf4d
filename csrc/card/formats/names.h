// What the members of a generated enumeration are called: in program texts, reports and Python.
#pragma once

#include <cstddef>
#include <iterator>
#include <optional>
#include <string_view>

namespace openspyre {

template <typename Enum>
struct Names;

template <typename Enum>
constexpr const char* name(Enum value)
  requires requires { Names<Enum>::of; }
{
  const auto place = static_cast<size_t>(value);
  return place < std::size(Names<Enum>::of) ? Names<Enum>::of[place] : "?";
}

template <typename Enum>
constexpr std::optional<Enum> named(std::string_view text) {
  for (size_t place = 0; place < std::size(Names<Enum>::of); ++place)
    if (text == Names<Enum>::of[place]) return static_cast<Enum>(place);
  return std::nullopt;
}

}  // namespace openspyre
