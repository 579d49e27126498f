#pragma once

// The inside of a dataset. A Node is a stage with its settings and never changes; a Cursor walks through the epochs of
// one. Cursors draw jobs in order (pull) and make elements of them (run), so that the making can be spread over threads
// without any influence on the order.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "thalweg/data/counters.h"
#include "thalweg/data/dataset.h"
#include "thalweg/data/job.h"
#include "thalweg/data/state_io.h"

namespace thalweg::data {

class Cursor {
 public:
  virtual ~Cursor() = default;
  virtual void start(std::int64_t epoch) = 0;  // at the beginning of the epoch, from anywhere
  // Appends the next job; false, with nothing appended: the end. After a throw the job's appended part has no meaning.
  virtual bool pull(Job& job) = 0;
  virtual Element run(JobReader& job) const = 0;  // on any thread, several at a time
  virtual void save(StateWriter& state) const = 0;
  virtual void restore(std::int64_t epoch, StateReader& state) = 0;
  virtual void seek(std::int64_t position);  // within the epoch; only for nodes that are seekable

  bool skip_one();                // draws and makes nothing of it
  std::optional<Element> next();  // draws and makes
};

using CursorPtr = std::unique_ptr<Cursor>;

// Elements that can be reached by number, by several threads at a time.
class Rows {
 public:
  virtual ~Rows() = default;
  virtual std::int64_t size() const = 0;
  virtual Element at(std::int64_t index) const = 0;
  virtual Element gather(std::span<const std::int64_t> indices) const;  // a batch of them
};

using NodePtr = std::shared_ptr<const Node>;

class Node {
 public:
  // `settings` is what distinguishes the results of this stage from those of another one of the same name.
  Node(std::string name, const std::string& settings, std::vector<NodePtr> inputs);
  virtual ~Node() = default;

  virtual CursorPtr open(Counters& counters) const = 0;
  virtual std::int64_t cardinality() const = 0;
  virtual bool seekable() const { return false; }  // implies that the cardinality is known
  // Where every job is one number, the index of a row: these rows.
  virtual std::shared_ptr<const Rows> rows() const { return nullptr; }
  // Threads that the stages whose work is still in the job ask for.
  virtual int workers() const { return 0; }
  // Whether it works ahead by itself.
  virtual bool buffered() const { return false; }

  const std::string& name() const { return name_; }
  const std::vector<NodePtr>& inputs() const { return inputs_; }
  const Node& input() const { return *inputs_.front(); }
  std::uint64_t fingerprint() const { return fingerprint_; }  // of this stage, its settings and all before it

 private:
  std::string name_;
  std::vector<NodePtr> inputs_;
  std::uint64_t fingerprint_;
};

// A node in front of which nothing has to be made: its jobs are those of its input, or fewer, or in another order.
class LazyNode : public Node {
 public:
  using Node::Node;
  bool seekable() const override { return input().seekable(); }
  std::shared_ptr<const Rows> rows() const override { return input().rows(); }
  int workers() const override { return input().workers(); }
};

// A cursor over one input that hands on what it does not change.
class Over : public Cursor {
 public:
  explicit Over(CursorPtr input) : input_(std::move(input)) {}
  void start(std::int64_t epoch) override { input_->start(epoch); }
  Element run(JobReader& job) const override { return input_->run(job); }
  void save(StateWriter& state) const override { input_->save(state); }
  void restore(std::int64_t epoch, StateReader& state) override { input_->restore(epoch, state); }
  void seek(std::int64_t position) override { input_->seek(position); }

 protected:
  CursorPtr input_;
};

// One that counts what it draws; elements that could not be drawn count too.
class Counting : public Over {
 public:
  // `element` is how the number is called in errors about states: "the element of take".
  Counting(CursorPtr input, StageCounters& counters, const char* element)
      : Over(std::move(input)), counters_(counters), element_(element) {}
  void start(std::int64_t epoch) override {
    position_ = 0;
    Over::start(epoch);
  }
  void save(StateWriter& state) const override {
    state.put(position_);
    Over::save(state);
  }
  void restore(std::int64_t epoch, StateReader& state) override {
    position_ = state.take(element_);
    Over::restore(epoch, state);
  }
  void seek(std::int64_t position) override {
    position_ = position;
    Over::seek(position);
  }

 protected:
  std::int64_t position() const { return position_; }  // of the next element
  bool draw(Job& job) {
    ++position_;
    if (!input_->pull(job)) {
      --position_;
      return false;
    }
    counters_.count();
    return true;
  }
  StageCounters& counters_;

 private:
  const char* element_;
  std::int64_t position_ = 0;
};

// A cursor that has to make its elements when they are drawn.
class Whole : public Cursor {
 public:
  bool pull(Job& job) final {
    if (job.dropped) return drop();
    std::optional<Element> element = make();
    if (element) job.elements.push_back(std::move(*element));
    return element.has_value();
  }
  Element run(JobReader& job) const final { return job.element(); }

 protected:
  virtual std::optional<Element> make() = 0;
  virtual bool drop() { return make().has_value(); }  // where nobody needs the element
};

// A cursor over the node whose elements are wanted whole: made by threads of its own where its stages ask for some.
CursorPtr open_whole(const Node& node, Counters& counters);
// The same with the making left to the caller; the states of both fit each other.
CursorPtr open_drawn(const Node& node, Counters& counters);

// Draws that many elements again and drops them. Errors among them were thrown when they were due.
void replay(Cursor& cursor, std::int64_t count);

// Stages of this name from the sources to the node; sources that it has.
int stages_until(const Node& node, std::string_view name);
int sources_of(const Node& node);

// The smaller of two cardinalities, and of one and a count.
std::int64_t smaller_cardinality(std::int64_t a, std::int64_t b);

// Elements one after the other into the rows of a batch.
class BatchBuilder {
 public:
  explicit BatchBuilder(std::int64_t rows) : rows_(rows) {}
  void add(const Element& element);
  Element take() { return std::move(batch_); }

 private:
  void begin(const Element& first);
  std::int64_t rows_, filled_ = 0;
  Element batch_;
};

// A batch of that many rows of each part.
Element allocate_batch(const Element& first, std::int64_t rows);

}  // namespace thalweg::data
