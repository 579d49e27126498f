#pragma once

// A program as attributes of an op.
#include "thalweg/ops/program.h"

namespace thalweg {

// Rows go by their names, which outlast their numbers. A program that is not sound is invalid_argument.
void visit_program(std::shared_ptr<const Program>& program, FieldVisitor& visitor);

}  // namespace thalweg
