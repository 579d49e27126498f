// A program of someone else: it knows the installed package alone.
#include <thalweg/thalweg.h>

#include <cstdio>
#include <memory>
#include <string>

namespace {

// A pool of the host's own: deriving from our class needs its type information.
class InlinePool : public tw::ThreadPool {
 public:
  int threads() const override { return 1; }
  void run(std::int64_t tasks, tw::FunctionRef<void(std::int64_t)> body) override {
    for (std::int64_t i = 0; i < tasks; ++i) body(i);
  }
};

}  // namespace

int main() {
  tw::config::set_thread_pool(std::make_shared<InlinePool>());
  if (std::string(tw::version()) != THALWEG_VERSION) return 1;
  const auto x = tw::Tensor::from(std::vector<float>{1, 2, 3, 4}, {2, 2});
  tw::GradientTape tape;
  tape.watch(x);
  const tw::Tensor y = tw::reduce_sum(tw::matmul(x, x));
  const auto gradient = tape.gradient(y, x).to_vector<float>();
  // d sum(x x) / dx[i][j] is the sum of column i and row j: 4 + 3, 4 + 7, 6 + 3, 6 + 7.
  if (gradient != std::vector<float>{7, 11, 9, 13}) return 1;
  try {
    tw::matmul(x, tw::Tensor::from(std::vector<float>(3), {3, 1}));
    return 1;
  } catch (const tw::Error& error) {  // its type is known on both sides of the library's border
    std::puts(error.code() == tw::ErrorCode::invalid_argument ? "consumer works" : "wrong code");
  }
  return 0;
}
