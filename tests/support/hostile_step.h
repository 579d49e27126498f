#pragma once

// Step files as an attacker would make them: any bytes, under right checksums.
#include <functional>
#include <string>
#include <string_view>

#include "thalweg/plan/file/step_file.h"

namespace thalweg::testing {

StepFile step_of(const FunctionHandle& function);
std::string bytes_of(const StepFile& step);

// The bytes with the checksums of header and description that belong to them, where they are long enough to have some.
std::string with_right_checksums(std::string bytes);

// Reads the bytes as a step file and, if they are one, runs what is in it, unless that is too much work. True: it was
// read. Errors of the library are what is expected of most bytes; anything else goes on to the caller.
bool survives(std::string_view bytes);

// The n-th changed copy of the bytes: a few of them set, counted up, or cut out.
std::string mutated(const std::string& bytes, unsigned n);

}  // namespace thalweg::testing

// For libFuzzer, and called by the tests without it.
extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size);
