#pragma once

// Members of a JSON object that must be there and of a kind; anything else is Malformed.
#include <nlohmann/json.hpp>

#include "tests/golden_runner/case.h"

namespace thalweg::golden {

using Json = nlohmann::json;

const Json& member(const Json& object, const char* name);
const Json& object_of(const Json& object, const char* name);
const Json& list_of(const Json& object, const char* name);
std::string text_of(const Json& value, const char* what);
std::vector<std::string> texts_of(const Json& object, const char* name);
std::vector<Key> keys_of(const Json& object, const char* name);
std::map<std::string, std::string> names_of(const Json& object, const char* name);  // an object of texts
Tolerance tolerance_of(const Json& object, const char* name);                       // a pair of numbers

// What a case of the group `trajectories` has besides: see training_case.cpp.
Training training_of(const Json& object);

}  // namespace thalweg::golden
