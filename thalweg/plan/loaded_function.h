#pragma once

// A function from a file: what it does and its variables, without the code that was traced.
//   auto again = tw::load_function("step.tws");
//   float loss = again(x, y).item<float>();
//   tw::Tensor scores = again.entry("predict")(x);
//   again.variables().at("hidden/kernel").assign(kernel);
#include "thalweg/plan/function.h"

namespace thalweg {

// What a call returned: its tensors in their order, lists among them one after the other.
class TW_API LoadedResults {
 public:
  explicit LoadedResults(Tensors tensors) : tensors_(std::move(tensors)) {}
  std::size_t size() const { return tensors_.size(); }
  const Tensor& operator[](std::size_t i) const;
  const Tensor* begin() const { return tensors_.begin(); }
  const Tensor* end() const { return tensors_.end(); }
  operator const Tensor&() const;  // if there is exactly one
  template <class T>
  T item() const {
    return static_cast<const Tensor&>(*this).item<T>();
  }

 private:
  Tensors tensors_;
};

// One function of a file. Copies, and the functions that entry() gives, share the variables and the random numbers.
class TW_API LoadedFunction {
 public:
  // Runs the trace of such arguments; not_found lists those there are. A trace made in training runs as that whatever
  // the switch of this thread is, unless there is one for each.
  template <class... A>
  LoadedResults operator()(const A&... arguments) const {
    return call(detail::flattened(arguments...));
  }
  // The plan that such a call would run: built if need be, not run.
  template <class... A>
  const Plan& plan(const A&... arguments) const {
    return plan_of(detail::flattened(arguments...));
  }
  FunctionStats stats() const;

  const std::string& name() const;
  std::vector<std::string> signatures() const;  // "(f32 [64, 10], f32 [64])"
  std::vector<std::string> entries() const;     // the names of all functions of the file, the step's first
  LoadedFunction entry(const std::string& name) const;
  std::map<std::string, Variable> variables() const;  // of all functions of the file, by name
  // The whole file again, with the values as they are now.
  void save(const std::string& path) const;

 private:
  struct File;
  LoadedFunction(std::shared_ptr<const File> file, std::size_t entry) : file_(std::move(file)), entry_(entry) {}
  friend TW_API LoadedFunction load_function(const std::string& path);
  LoadedResults call(const detail::Flat& given) const;
  const Plan& plan_of(const detail::Flat& given) const;

  std::shared_ptr<const File> file_;
  std::size_t entry_;
};

// Throws not_found if there is no such file, and data_loss if it is not what Function::save wrote.
TW_API LoadedFunction load_function(const std::string& path);

}  // namespace thalweg
