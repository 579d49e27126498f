#include "thalweg/core/check.h"

#include <cstring>

#include "thalweg/core/caller.h"
#include "thalweg/core/layer.h"

// fmt's own functions, compiled here once and hidden, so that libthalweg needs no libfmt at run time.
#include <fmt/format-inl.h>

FMT_BEGIN_NAMESPACE
namespace detail {
template FMT_API auto dragonbox::to_decimal(float x) noexcept -> dragonbox::decimal_fp<float>;
template FMT_API auto dragonbox::to_decimal(double x) noexcept -> dragonbox::decimal_fp<double>;
template FMT_API void buffer<char>::append(const char*, const char*);
template FMT_API void vformat_to(buffer<char>&, string_view, basic_format_args<FMT_BUFFER_CONTEXT(char)>, locale_ref);
template FMT_API auto thousands_sep_impl(locale_ref) -> thousands_sep_result<char>;
template FMT_API auto decimal_point_impl(locale_ref) -> char;
}  // namespace detail
FMT_END_NAMESPACE

namespace thalweg {

// A loss or metric stands for the ops inside of it, which are then told behind the message.
void throw_error(ErrorCode code, const char* op, const std::string& message, const std::string& hint) {
  const char* caller = current_caller();
  std::string places = caller && std::strcmp(caller, op) != 0 ? fmt::format("in {}", op) : "";
  if (const Layer layer = current_layer(); layer != 0)
    places += fmt::format("{}layer \"{}\"", places.empty() ? "" : ", ", path_of(layer));
  throw Error(code, caller ? caller : op, places.empty() ? message : fmt::format("{} ({})", message, places), hint);
}

}  // namespace thalweg
