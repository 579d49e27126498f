#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace thalweg {

// One feature of a tf.train.Example: exactly one of the lists, or none, is in use.
struct ExampleFeature {
  enum class Kind { none, bytes, floats, integers };
  Kind kind = Kind::none;
  std::vector<std::string_view> bytes;  // into the record
  std::vector<float> floats;
  std::vector<std::int64_t> integers;
};

using Example = std::map<std::string_view, ExampleFeature>;

// Reads the protocol-buffer message. data_loss: it is none. The record must outlive the result.
Example parse_example_message(std::string_view record);

}  // namespace thalweg
