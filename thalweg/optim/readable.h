#pragma once

#include <cstdint>
#include <ostream>

#include "thalweg/core/variable.h"

namespace thalweg {

// A scalar variable that is a plain number outside of traces.
template <class T>
class TW_API Readable : public Variable {
 public:
  using Variable::Variable;
  operator T() const;
  friend std::ostream& operator<<(std::ostream& out, const Readable& number) { return out << static_cast<T>(number); }
};
extern template class Readable<double>;
extern template class Readable<std::int64_t>;

}  // namespace thalweg
