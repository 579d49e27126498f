#include "thalweg/ops/limit_skips/limit_skips.h"

#include "thalweg/core/check.h"
#include "thalweg/ops/registry.h"

namespace thalweg {
namespace {

// Lines of a text.
struct Names {
  std::string text;
  friend bool operator==(const Names&, const Names&) = default;
};
[[maybe_unused]] void visit(FieldVisitor& visitor, std::string_view name, Names& names) {
  std::string text = names.text;
  visitor.text(name, text);
  detail::replace(names, Names{text});
}

struct LimitSkips {
  std::int64_t most = 0;
  Names names;
};
TW_FIELDS(LimitSkips, most, names)

Specs infer(const LimitSkips&, Inputs in) {
  TW_CHECK_INTERNAL(in[0] == (Spec{i64, {}}) && in[0] == in[1], "limit_skips", "inputs are {} {} and {} {}",
                    in[0].dtype, in[0].shape, in[1].dtype, in[1].shape);
  return {in[0]};
}

std::string line(const std::string& text, std::int64_t number) {
  std::size_t begin = 0;
  for (; number > 0 && begin != std::string::npos; --number) begin = text.find('\n', begin + 1);
  if (begin == std::string::npos) return {};
  if (begin < text.size() && text[begin] == '\n') ++begin;
  return text.substr(begin, text.find('\n', begin) - begin);
}

void run(const LimitSkips& op, Arrays in, Arrays out) {
  const std::int64_t skips = *in[0].as<const std::int64_t>();
  TW_CHECK(failed_precondition, skips <= op.most, "apply",
           "look for a division, a logarithm or an exponential that overflows before this variable; a smaller learning "
           "rate, clipped gradients or bf16 may help",
           "the gradient of variable \"{}\" is not finite: expected at most {} skipped steps in a row, got {}",
           line(op.names.text, *in[1].as<const std::int64_t>()), op.most, skips);
  *out[0].as<std::int64_t>() = skips;
}

[[maybe_unused]] bool differentiable(const LimitSkips&) { return false; }
[[maybe_unused]] bool checks_values(const LimitSkips&) { return true; }

}  // namespace

TW_DEFINE_OP(limit_skips, LimitSkips)

Tensor limit_skips(const Tensor& skips, const Tensor& place, std::int64_t most, const std::vector<std::string>& names) {
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : "\n") + name;
  return apply(limit_skips_info(), LimitSkips{most, {text}}, {skips, place})[0];
}

}  // namespace thalweg
