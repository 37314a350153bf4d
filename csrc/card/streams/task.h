// A piece of work: a move-only callable that keeps small closures inside itself.
#pragma once

#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

namespace openspyre {

class Task {
 public:
  static constexpr size_t kInlineBytes = 128;

  Task() = default;

  template <typename Work>
    requires(!std::is_same_v<std::remove_cvref_t<Work>, Task> && std::is_invocable_v<std::remove_cvref_t<Work>&>)
  Task(Work&& work) {  // implicit, so that a lambda can be submitted as it is
    using Closure = std::remove_cvref_t<Work>;
    if constexpr (fits<Closure>()) {
      new (storage_) Closure(std::forward<Work>(work));
      operations_ = &kInline<Closure>;
    } else {
      new (storage_) Closure*(new Closure(std::forward<Work>(work)));
      operations_ = &kHeap<Closure>;
    }
  }

  Task(Task&& other) noexcept { take(other); }
  Task& operator=(Task&& other) noexcept {
    if (this != &other) {
      clear();
      take(other);
    }
    return *this;
  }
  ~Task() { clear(); }

  void operator()() { operations_->call(storage_); }
  explicit operator bool() const { return operations_ != nullptr; }

  template <typename Closure>
  static constexpr bool fits() {
    return sizeof(Closure) <= kInlineBytes && alignof(Closure) <= alignof(std::max_align_t) &&
           std::is_nothrow_move_constructible_v<Closure>;
  }

 private:
  struct Operations {
    void (*call)(void* storage);
    void (*move)(void* from, void* to) noexcept;  // leaves `from` destroyed
    void (*destroy)(void* storage) noexcept;
  };

  template <typename Closure>
  static constexpr Operations kInline = {
      [](void* storage) { (*static_cast<Closure*>(storage))(); },
      [](void* from, void* to) noexcept {
        new (to) Closure(std::move(*static_cast<Closure*>(from)));
        static_cast<Closure*>(from)->~Closure();
      },
      [](void* storage) noexcept { static_cast<Closure*>(storage)->~Closure(); },
  };

  template <typename Closure>
  static constexpr Operations kHeap = {
      [](void* storage) { (**static_cast<Closure**>(storage))(); },
      [](void* from, void* to) noexcept { new (to) Closure*(*static_cast<Closure**>(from)); },
      [](void* storage) noexcept { delete *static_cast<Closure**>(storage); },
  };

  void take(Task& other) noexcept {
    operations_ = std::exchange(other.operations_, nullptr);
    if (operations_) operations_->move(other.storage_, storage_);
  }

  void clear() noexcept {
    if (const Operations* operations = std::exchange(operations_, nullptr)) operations->destroy(storage_);
  }

  alignas(std::max_align_t) std::byte storage_[kInlineBytes];
  const Operations* operations_ = nullptr;
};

}  // namespace openspyre
