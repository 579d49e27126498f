#include "thalweg/train/place.h"

#include <bit>
#include <nlohmann/json.hpp>

#include "thalweg/core/check.h"

namespace thalweg::train {
namespace {

using nlohmann::json;

// Numbers by their bits: JSON has no infinity.
std::uint64_t bits(double value) { return std::bit_cast<std::uint64_t>(value); }
double from_bits(const json& value) { return std::bit_cast<double>(value.get<std::uint64_t>()); }

json history_of(const History& history) {
  json epochs = json::array();
  for (const auto& logs : history.epochs) {
    epochs.push_back(json::array());
    for (const auto& [name, value] : logs) epochs.back().push_back({name, bits(value)});
  }
  return epochs;
}

std::vector<Logs> logs_of(const json& epochs) {
  std::vector<Logs> list;
  for (const auto& epoch : epochs) {
    list.emplace_back();
    for (const auto& entry : epoch) list.back().set(entry.at(0), from_bits(entry.at(1)));
  }
  return list;
}

std::string to_text(const Session& session, const Place& place) {
  return json{{"epoch", session.epoch},
              {"step", session.step},
              {"epoch_step", session.epoch_step},
              {"epoch_done", place.epoch_done},
              {"loss", bits(place.sums.loss)},
              {"examples", bits(place.sums.examples)},
              {"history", history_of(session.history)}}
      .dump(-1, ' ', false, json::error_handler_t::replace);  // names of metrics may be no UTF-8
}

void from_text(const std::string& text, Session& session, Place& place) {
  const json values = json::parse(text);
  session.epoch = values.at("epoch");
  session.step = values.at("step");
  session.epoch_step = values.at("epoch_step");
  session.history.epochs = logs_of(values.at("history"));
  session.history.steps = session.step;
  place.epoch_done = values.at("epoch_done");
  place.sums = {from_bits(values.at("loss")), from_bits(values.at("examples"))};
  place.restored = true;
}

std::string prefix_of(std::size_t metric) { return fmt::format("{}/", metric); }

}  // namespace

checkpoint::Item place_item(Session& session, Place& place, const std::vector<metrics::Metric*>& metrics) {
  const auto save = [&session, &place, metrics] {
    checkpoint::ItemState state{{}, to_text(session, place)};
    for (std::size_t i = 0; i < metrics.size(); ++i)
      for (const auto& variable : metrics[i]->variables())
        state.tensors.emplace(prefix_of(i) + variable.name(), variable.value());
    return state;
  };
  const auto load = [&session, &place, metrics](const checkpoint::ItemState& state) {
    try {
      from_text(state.text, session, place);
    } catch (const json::exception& error) {
      TW_FAIL(data_loss, "fit", "use another checkpoint", "the place in the run cannot be read: {}", error.what());
    }
    for (std::size_t i = 0; i < metrics.size(); ++i) {
      const std::string prefix = prefix_of(i);
      std::map<std::string, Tensor> values;
      for (const auto& [name, value] : state.tensors)
        if (name.starts_with(prefix)) values.emplace(name.substr(prefix.size()), value);
      metrics[i]->set_state(values);
    }
  };
  return {"fit", save, load};
}

}  // namespace thalweg::train
