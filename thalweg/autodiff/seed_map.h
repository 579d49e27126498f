#pragma once

// A backward pass for many seeds at once. A symbolic tensor of the shape of one seed stands for all of them: the rules
// compute with it as with any other, and every op they call runs once, on [seeds, ...]:
// - ops that broadcast, and those that say how they look with one more axis in front (lifted), as they are;
// - other ops along an axis that their batch rule lets grow, where the seeds follow each other;
// - what is left, one seed after the other.
#include <functional>
#include <memory>

#include "thalweg/autodiff/id_map.h"
#include "thalweg/core/dispatch.h"

namespace thalweg {

class SeedMap final : public Mapper {
 public:
  explicit SeedMap(std::int64_t seeds);
  ~SeedMap() = default;

  // [seeds, shape...], or a reshape of it -> a tensor of this shape.
  Tensor stand_in(const Tensor& entries, const Shape& shape);
  // What it stands for, [seeds, size]; a tensor that stands for itself is repeated.
  Tensor flat_entries(const Tensor& tensor) const;

  bool maps(const Tensor& tensor) const override { return find(tensor) != nullptr; }
  Tensors map(const OpInfo& info, const void* op, std::span<const Tensor> inputs, const Specs& outputs) override;
  Mapper* outer() const override { return outer_; }

  // f for one seed after the other; a result may be undefined for some of them.
  using ListFunction = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;
  std::vector<Tensor> loop(std::span<const Tensor> inputs, const ListFunction& f);

 private:
  // Owned by the symbolic tensor, so that entries go as soon as nobody reads them.
  struct Held {
    std::string name;
    Tensor entries;
  };
  struct Growth;  // how an op is computed along an axis that grows

  std::shared_ptr<const Held> find(const Tensor& tensor) const;
  std::vector<const Spec*> specs_of(std::span<const Tensor> inputs) const;
  Tensor entries(const Tensor& tensor) const;  // [seeds, ...]
  Tensor aligned(const Tensor& tensor, int rank) const;
  Tensors stand_ins(const std::vector<Tensor>& results, const Specs& outputs);

  std::vector<Tensor> broadcast(const OpInfo& info, const void* op, std::span<const Tensor> inputs) const;
  std::vector<Tensor> lift(const OpInfo& info, const void* op, std::span<const Tensor> inputs) const;
  std::vector<Tensor> drop_out(const OpInfo& info, const void* op, std::span<const Tensor> inputs) const;
  std::vector<Tensor> grow(const OpInfo& info, const void* op, std::span<const Tensor> inputs, const Specs& outputs,
                           const Growth& growth) const;
  Growth find_growth(const OpInfo& info, const void* op, std::span<const Tensor> inputs, const Specs& outputs) const;

  std::int64_t seeds_;
  Mapper* outer_;
  IdMap<std::weak_ptr<const Held>> held_;  // by the symbolic tensor's id
};

// f(seeds), one seed after the other where the tensors stand for many: for rules of the host program, which may read
// values.
std::vector<Tensor> for_each_seed(const std::vector<Tensor>& seeds, const SeedMap::ListFunction& f);

}  // namespace thalweg
