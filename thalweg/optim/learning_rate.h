#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <variant>

#include "thalweg/optim/schedules.h"

namespace thalweg::optim {

// A number, a schedule, or a function of the host that is asked before each update for how many were made.
class TW_API LearningRate {
 public:
  using Host = std::function<double(std::int64_t updates)>;

  template <class T>
  requires std::is_arithmetic_v<T> LearningRate(T rate) : rate_(static_cast<double>(rate)) {}
  LearningRate(schedules::Schedule schedule) : rate_(std::move(schedule)) {}
  template <std::invocable<std::int64_t> F>
  LearningRate(F rate) : rate_(Host(std::move(rate))) {}

  const std::variant<double, schedules::Schedule, Host>& get() const { return rate_; }

 private:
  std::variant<double, schedules::Schedule, Host> rate_;
};

}  // namespace thalweg::optim
