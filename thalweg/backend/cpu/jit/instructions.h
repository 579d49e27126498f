#pragma once

// The operations of a recording as instructions of AVX2 (256 bits, masks are vectors) or AVX-512 (512 bits, masks have
// registers of their own), on floats or doubles.
#include <xbyak/xbyak.h>

#include "thalweg/backend/cpu/jit/isa.h"
#include "thalweg/backend/cpu/jit/recording.h"

namespace thalweg::jit {

class Instructions : public Xbyak::CodeGenerator {
 public:
  using Address = Xbyak::Address;
  using Operand = Xbyak::Operand;
  using Reg64 = Xbyak::Reg64;
  using Vector = Xbyak::Xmm;  // of 256 or 512 bits all the same: the object knows

  Instructions(Isa isa, bool wide, void* buffer, std::size_t bytes)
      : CodeGenerator(bytes, buffer), avx512_(isa == Isa::avx512), wide_(wide) {}

  bool masks_apart() const { return avx512_; }
  int registers() const { return avx512_ ? 32 : 16; }
  int vector_bytes() const { return avx512_ ? 64 : 32; }
  int lane_bytes() const { return wide_ ? 8 : 4; }
  int lanes() const { return vector_bytes() / lane_bytes(); }

 protected:
  Vector vector(int index) const;

  void broadcast(const Vector& to, const Address& element);
  // Two operands, of which the second may stand in memory.
  void binary(Op op, const Vector& to, const Vector& x, const Operand& z);
  static bool commutes(Op op);
  void square_root(const Vector& to, const Operand& x);
  void round(const Vector& to, const Vector& x, Rounding rounding);
  void round_to_half(const Vector& to, const Vector& x);
  void shift(Op op, const Vector& to, const Vector& x, std::uint8_t bits);
  // to = x z + to, in the sense of op.
  void add_product(Op op, const Vector& to, const Vector& x, const Operand& z);
  // to = to x + a, in the sense of op.
  void multiply_and_add(Op op, const Vector& to, const Vector& x, const Operand& a);

  // Masks by the index of their register, which is a vector's with AVX2.
  void compare(int mask, const Vector& x, const Operand& z, std::uint8_t comparison);
  void combine_masks(Op op, int to, int x, int z);
  void select(const Vector& to, int mask, const Operand& x, const Vector& z);
  void select_or_zero(const Vector& to, int mask, const Vector& x);
  void load_mask(int to, const Address& from);
  void store_mask(const Address& to, int mask);

  // One vector of elements of that dtype as lanes.
  void load_elements(DType dtype, const Vector& to, const Address& from);
  // The reverse; lanes of bf16 and booleans hold the bits already. `spare` may be overwritten.
  void store_elements(DType dtype, const Address& to, const Vector& x, const Vector& spare);

 private:
  void narrow_bits(DType dtype, const Address& to, const Vector& x, const Vector& spare);

  bool avx512_, wide_;
};

}  // namespace thalweg::jit
