#pragma once

#include <functional>
#include <map>
#include <string>

#include "thalweg/core/variable.h"
#include "thalweg/data/iterator.h"
#include "thalweg/nn/module.h"
#include "thalweg/optim/loss_scale.h"
#include "thalweg/optim/optimizer.h"

namespace thalweg::checkpoint {

// What a checkpoint keeps of one thing.
struct ItemState {
  std::map<std::string, Tensor> tensors = {};
  std::string text = {};
  std::string place = {};  // of what was read: the file
};

// Something whose state checkpoints keep: a pointer to a module, an optimizer, a variable, an iterator over data or a
// loss scale. Of other things `kind`, `save` and `load` say how; `check` refuses a state that does not fit, before
// anything is loaded.
struct TW_API Item {
  Item(nn::Module* module);
  Item(optim::Optimizer* optimizer);
  Item(Variable* variable);
  Item(data::Iterator* iterator);
  Item(LossScale* scale);
  Item(std::string kind, std::function<ItemState()> save, std::function<void(const ItemState&)> load,
       std::function<void(const ItemState&)> check = {})
      : kind(std::move(kind)), save(std::move(save)), load(std::move(load)), check(std::move(check)) {}

  std::string kind;
  std::function<ItemState()> save;
  std::function<void(const ItemState&)> load, check;
  bool optional = false;  // a checkpoint without it is read all the same, and it stays as it is
};

// {"model", &model}; the name is part of a file's name.
struct NamedItem {
  std::string name;
  Item item;
};

}  // namespace thalweg::checkpoint
