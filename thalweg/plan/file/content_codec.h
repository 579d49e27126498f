#pragma once

// What graphs and the bodies of branches and loops have in common, as bytes and back: values, constants and nodes. Ops
// go by name and attributes by their fields; bodies are in a table, and nodes refer to them by their places in it.
#include <unordered_map>

#include "thalweg/graph/control/control.h"
#include "thalweg/plan/file/bytes.h"
#include "thalweg/plan/file/container.h"

namespace thalweg {

// Bodies, each behind those that its own nodes hold.
class BodyTable {
 public:
  void add(BodyPointer body);
  bool contains(const BodyPointer& body) const { return entries_.contains(body.get()); }
  std::uint32_t place(const BodyPointer& body) const { return entries_.at(body.get()).place; }
  int depth(const BodyPointer& body) const { return entries_.at(body.get()).depth; }  // 1: it holds none
  const std::vector<BodyPointer>& bodies() const { return bodies_; }

 private:
  struct Entry {
    std::uint32_t place;
    int depth;
  };
  std::vector<BodyPointer> bodies_;
  std::unordered_map<const Body*, Entry> entries_;
};

void write_content(ByteWriter& out, const Graph& graph, const BodyTable& table, std::vector<Tensor>& data);
// Into a graph that has its other entries already.
void read_content(ByteReader& in, Graph& graph, const BodyTable& table, Container& data);

}  // namespace thalweg
