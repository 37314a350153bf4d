// A tiny test harness: TEST(name) { CHECK(...); } in one file is one program; arguments select tests by part of their
// name.
#pragma once

#include <cstdio>
#include <cstring>
#include <exception>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

#include "error.h"

namespace check {

struct Test {
  const char* name;
  void (*body)();
};

inline std::vector<Test>& tests() {
  static std::vector<Test> all;
  return all;
}

inline int failures = 0;  // of the running test

struct Registration {
  Registration(const char* name, void (*body)()) { tests().push_back({name, body}); }
};

inline void report(const char* file, int line, const std::string& what) {
  ++failures;
  std::printf("%s:%d: %s\n", file, line, what.c_str());
}

template <typename Value>
std::string show(const Value& value) {
  if constexpr (requires(std::ostream& out) { out << value; }) {
    std::ostringstream out;
    out.precision(17);
    if constexpr (std::is_integral_v<Value> && sizeof(Value) == 1) {
      out << static_cast<int>(value);
    } else {
      out << value;
    }
    return out.str();
  } else if constexpr (std::is_enum_v<Value>) {
    return std::to_string(static_cast<long long>(value));
  } else {
    return "?";
  }
}

template <typename Left, typename Right>
bool equal(const Left& left, const Right& right) {
  if constexpr (std::is_integral_v<Left> && std::is_integral_v<Right> && !std::is_same_v<Left, bool>) {
    return left == static_cast<std::common_type_t<Left, Right>>(right) && (left < Left{}) == (right < Right{});
  } else {
    return left == right;
  }
}

inline int run(int argc, char** argv) {
  int passed = 0, failed = 0;
  for (const Test& test : tests()) {
    bool selected = argc < 2;
    for (int i = 1; i < argc; ++i) selected |= std::strstr(test.name, argv[i]) != nullptr;
    if (!selected) continue;
    failures = 0;
    try {
      test.body();
    } catch (const std::exception& error) {
      report(test.name, 0, std::string("unexpected exception: ") + error.what());
    }
    if (failures) std::printf("FAILED %s\n", test.name);
    (failures ? failed : passed)++;
    std::fflush(stdout);
  }
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed || !passed;
}

}  // namespace check

#define TEST(name)                                               \
  static void name();                                            \
  static const check::Registration register_##name(#name, name); \
  static void name()

#define CHECK(condition)                                                          \
  do {                                                                            \
    if (!(condition)) check::report(__FILE__, __LINE__, "CHECK(" #condition ")"); \
  } while (0)

#define CHECK_EQ(left, right)                                                                                 \
  do {                                                                                                        \
    const auto& check_left = (left);                                                                          \
    const auto& check_right = (right);                                                                        \
    if (!check::equal(check_left, check_right))                                                               \
      check::report(                                                                                          \
          __FILE__, __LINE__,                                                                                 \
          "CHECK_EQ(" #left ", " #right "): " + check::show(check_left) + " != " + check::show(check_right)); \
  } while (0)

// The expression must throw openspyre::Error of the given kind, e.g. CHECK_THROWS(InvalidArgument, f(-1)).
#define CHECK_THROWS(kind_name, ...) CHECK_THROWS_SAYING(kind_name, "", __VA_ARGS__)

// ... and its message must contain `text`.
#define CHECK_THROWS_SAYING(kind_name, text, ...)                                                                 \
  do {                                                                                                            \
    try {                                                                                                         \
      (void)(__VA_ARGS__);                                                                                        \
      check::report(__FILE__, __LINE__, "no exception from " #__VA_ARGS__);                                       \
    } catch (const openspyre::Error& error) {                                                                     \
      if (error.kind != openspyre::Fault::kind_name)                                                              \
        check::report(__FILE__, __LINE__, std::string(#__VA_ARGS__ " is not a " #kind_name ": ") + error.what()); \
      else if (std::string(error.what()).find(text) == std::string::npos)                                         \
        check::report(__FILE__, __LINE__, std::string("expected \"") + (text) + "\" in: " + error.what());        \
    }                                                                                                             \
  } while (0)

int main(int argc, char** argv) { return check::run(argc, argv); }
