#include "tests/golden_runner/case.h"

#include <algorithm>
#include <fstream>
#include <limits>

#include "tests/golden_runner/json_reader.h"

namespace thalweg::golden {
namespace {

constexpr auto max_integer = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());

Attribute attribute_of(const Json& value, int depth) {
  if (value.is_null()) return {nullptr};
  if (value.is_boolean()) return {value.get<bool>()};
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > max_integer)
    throw Malformed("an attribute is too large");
  if (value.is_number_integer()) return {value.get<std::int64_t>()};
  if (value.is_number()) return {value.get<double>()};
  if (value.is_string()) return {value.get<std::string>()};
  if (depth == 0) throw Malformed("an attribute is nested too deeply");
  if (value.is_object()) {
    Attribute::Members members;
    for (const auto& [name, entry] : value.items()) members.emplace(name, attribute_of(entry, depth - 1));
    return {members};
  }
  std::vector<Attribute> list;
  for (const auto& entry : value) list.push_back(attribute_of(entry, depth - 1));
  return {list};
}

// The attributes, and what optimizers and mixed layers are told besides.
Attributes attributes_of(const Json& object) {
  const auto& values = object_of(object, "attrs");
  constexpr int depth = 4;  // a list in the configuration of a schedule
  std::map<std::string, Attribute> attributes;
  for (const auto& [name, value] : values.items()) attributes.emplace(name, attribute_of(value, depth));
  for (const char* name : {"vars", "exclude_from_weight_decay", "output_dtype"})
    if (object.contains(name)) attributes.emplace(name, attribute_of(object.at(name), depth));
  if (object.contains("finalized")) attributes.emplace("finalized", Attribute{true});
  if (object.contains("final_state")) {
    std::vector<Attribute> names;
    for (const auto& [name, key] : object.at("final_state").items()) names.push_back({name});
    attributes.emplace("final_state", Attribute{names});
  }
  return Attributes(std::move(attributes));
}

// Optimizers give more than their outputs: the averaged variables and the state at the end, which they are asked for
// by the attribute "final_state".
void add_final_values(const Json& object, Case& result) {
  result.output_names = texts_of(object, "vars");
  const auto add = [&](const std::string& name, const Json& key) {
    result.output_names.push_back(name);
    result.outputs.push_back(text_of(key, "key"));
  };
  if (object.contains("finalized"))
    for (const auto& key : list_of(object, "finalized")) add("finalized", key);
  for (const auto& [name, key] : object.at("final_state").items()) add(name, key);
}

std::map<std::size_t, SparseKeys> sparse_of(const Json& object, std::size_t inputs) {
  std::map<std::size_t, SparseKeys> sparse;
  if (!object.contains("sparse_input_grads")) return sparse;
  for (const auto& [number, keys] : object_of(object, "sparse_input_grads").items()) {
    const bool digits = number.size() == 1 && number[0] >= '0' && number[0] <= '9';
    const auto input = digits ? static_cast<std::size_t>(number[0] - '0') : inputs;
    if (input >= inputs) throw Malformed("\"sparse_input_grads\" names no input: " + number);
    SparseKeys entry{text_of(member(keys, "values"), "values"), text_of(member(keys, "indices"), "indices"), {}};
    for (const auto& size : list_of(keys, "dense_shape")) {
      if (!size.is_number_integer()) throw Malformed("\"dense_shape\" is not a list of whole numbers");
      entry.dense_shape.push_back(size.get<std::int64_t>());
    }
    sparse.emplace(input, std::move(entry));
  }
  return sparse;
}

Policy policy_of(const Json& object) {
  if (!object.contains("policy")) return Policy::follow;
  const auto text = text_of(object.at("policy"), "policy");
  if (text != "follow" && text != "document") throw Malformed("unknown policy \"" + text + "\"");
  return text == "document" ? Policy::document : Policy::follow;
}

// Those listed, and the statistics that a normalization learns.
std::map<std::string, std::string> weights_after_of(const Json& object) {
  std::map<std::string, std::string> keys;
  if (object.contains("weights_after")) keys = names_of(object, "weights_after");
  for (const char* name : {"mean", "variance"})
    if (object.contains(name)) keys[name] = text_of(object.at(name), name);
  return keys;
}

// A list of keys, or of a metric a list of such lists.
void read_inputs(const Json& object, Case& result) {
  const auto& inputs = list_of(object, "inputs");
  if (inputs.empty() || !inputs[0].is_array()) {
    result.inputs = texts_of(object, "inputs");
    return;
  }
  for (const auto& update : inputs) result.updates.push_back(keys_of(Json{{"inputs", update}}, "inputs"));
}

void read_values(const Json& object, Case& result) {
  result.attributes = attributes_of(object);
  if (object.contains("roles")) result.roles = texts_of(object, "roles");
  read_inputs(object, result);
  result.outputs = keys_of(object, "outputs");
  result.output_gradients = keys_of(object, "output_grads");
  result.input_gradients = keys_of(object, "input_grads");
  if (object.contains("output_names")) result.output_names = texts_of(object, "output_names");
  result.weights_after = weights_after_of(object);
  if (object.contains("final_state")) add_final_values(object, result);
  result.sparse_input_gradients = sparse_of(object, result.inputs.size());
  if (object.contains("runs")) {  // which have tolerances of their own
    result.training = training_of(object);
    return;
  }
  result.f32 = tolerance_of(object_of(object, "tol"), "f32");
  result.f64 = tolerance_of(object_of(object, "tol"), "f64");
  result.policy = policy_of(object);
  // Expected values that are themselves f32 are no closer to the truth than its tolerance.
  const auto compute = text_of(member(object, "compute"), "compute");
  static const std::set<std::string> known{"f32", "f64", "exact", "f64 on 16-bit inputs"};
  if (!known.contains(compute)) throw Malformed("unknown compute \"" + compute + "\"");
  if (compute == "f32")
    result.f64 = {std::max(result.f32.relative, result.f64.relative),
                  std::max(result.f32.absolute, result.f64.absolute)};
}

Case case_of(const Json& object, bool with_values) {
  Case result;
  result.name = text_of(member(object, "name"), "name");
  result.op = text_of(member(object, "op"), "op");
  if (!with_values) return result;
  try {
    read_values(object, result);
  } catch (const Malformed& error) {
    throw Malformed("case " + result.name + ": " + error.what());
  }
  return result;
}

Group group_of(const Json& file, const std::filesystem::path& directory) {
  const auto& format = member(file, "format");
  if (!format.is_number_integer() || format != 1) throw Malformed("\"format\" is not 1");
  Group group{text_of(member(file, "group"), "group"), {}, {}};
  const std::filesystem::path tensors = text_of(member(file, "tensors"), "tensors");
  if (tensors.filename() != tensors) throw Malformed("\"tensors\" is not the name of a file in this directory");
  group.tensors = directory / tensors;
  for (const auto& object : list_of(file, "cases")) group.cases.push_back(case_of(object, is_run(group.name)));
  return group;
}

}  // namespace

Group load_group(const std::filesystem::path& directory) {
  const auto path = directory / "cases.json";
  std::ifstream stream(path);
  if (!stream) throw Malformed(path.string() + ": cannot be read");
  try {
    return group_of(Json::parse(stream), directory);
  } catch (const Json::exception& error) {
    throw Malformed(path.string() + ": " + error.what());
  } catch (const Malformed& error) {
    throw Malformed(path.string() + ": " + error.what());
  }
}

}  // namespace thalweg::golden
