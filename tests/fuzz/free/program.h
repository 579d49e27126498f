#pragma once

// Random programs over values of any shape and dtype: a list of statements that read earlier values, write variables,
// open tapes and ask them for gradients, and a list of results. A statement whose operands do not suit it returns its
// first operand, so that any statement can go.
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "thalweg/thalweg.h"

namespace fuzz::free {

namespace tw = thalweg;

// Numbers that follow from a seed, the same on every machine.
class Dice {
 public:
  explicit Dice(unsigned seed) : generator_(seed) {}
  int below(std::int64_t n) { return n < 2 ? 0 : static_cast<int>(generator_() % static_cast<std::uint64_t>(n)); }
  bool one_in(int n) { return below(n) == 0; }
  tw::Tensor numbers(const tw::Shape& shape, tw::DType dtype, double factor);  // in [-factor, factor)

 private:
  std::mt19937_64 generator_;
};

class Machine;

// What a statement computes from.
struct Operands {
  tw::Tensor a, b, c;
  Dice& dice;  // of the statement
  Machine& machine;
  unsigned barred;  // what its bodies do without, in traits
};

// What is known of a kind of statement.
enum Traits : unsigned {
  rounds = 1,   // its compiled form differs by rounding
  jumps = 2,    // small changes of an operand may change the result much
  product = 4,  // a product of matrices: it may round differently where an operand is a transpose
  transposes = 8,
  effects = 16,      // writes variables or uses tapes: not in the bodies of branches and loops
  draws = 32,        // random numbers
  axes = 64,         // needs an axis
  shape_kept = 128,  // the result has the shape of the first operand, mostly
  mesh = 256,        // enough of these alone make elementwise groups that lie between each other
  tapes = 1024,      // opens one or asks it
  loops = 512,       // its compiled gradient rounds differently
  shared = 2048      // calls a function that others call too: not in that one
};
struct Kind {
  const char* name;
  tw::Tensor (*run)(Operands& o);
  unsigned traits;
  int weight;  // how often it comes up
};
using Kinds = std::vector<Kind>;
const Kinds& kinds();
// One list a file.
Kinds elementwise_kinds(), shape_kinds(), reduction_kinds(), index_kinds(), layer_kinds(), control_kinds(),
    function_kinds(), tape_kinds(), state_kinds();

struct Statement {
  int kind = 0, a = 0, b = 0, c = 0;  // values: the arguments come first
  unsigned seed = 0;                  // of its choices
  unsigned barred = 0;                // traits
};

// A value as it is or in another form, most of which are views; or a variable, by its number.
struct Result {
  enum Form { whole, flat, first_rows, last_rows, raised, stopped, variable } form = whole;
  int value = 0;
};

inline constexpr int arguments = 4;  // x, y [n, f], ids i64 [n], bytes u8 [n, f]

struct Program {
  std::vector<Statement> statements;
  std::vector<Result> results;
  std::vector<std::int64_t> calls;  // how many examples each has
  std::int64_t features = 4;
  tw::DType dtype = tw::f32;
  int optimizer = 0;
  enum Outside { no_tape, one_tape, two_tapes, jacobian } outside = no_tape;  // around the call
  tw::Precision precision = tw::Precision::f32;
  bool without_draws = false;
  bool exact = true;           // eager and compiled are to have the same bits
  bool with_products = false;  // if exact: products of matrices instead of transposes
  bool with_tapes = false;     // if exact: tapes instead of loops
  enum Width { wide, narrow, meshed } width = wide;
  unsigned seed = 0;

  bool has(unsigned trait) const;
  Program without(std::size_t statement) const;  // what read its result reads its first operand
  std::string text() const;
};

Program random_program(unsigned seed);
// A few statements without effects, of the kinds that the program may have: the body of a branch or a loop.
std::vector<Statement> random_body(Dice& dice, const Program& program, unsigned barred);
bool may_have(const Kind& kind, const Program& program);

}  // namespace fuzz::free
