#include "thalweg/backend/cpu/jit/instructions.h"

namespace thalweg::jit {

using Xbyak::Opmask;
using Xbyak::Xmm;
using Xbyak::Ymm;
using Xbyak::Zmm;

Instructions::Vector Instructions::vector(int index) const {
  return avx512_ ? static_cast<Xmm>(Zmm(index)) : static_cast<Xmm>(Ymm(index));
}

void Instructions::broadcast(const Vector& to, const Address& element) {
  if (!wide_)
    vbroadcastss(to, element);
  else if (avx512_)
    vbroadcastsd(Zmm(to.getIdx()), element);
  else
    vbroadcastsd(Ymm(to.getIdx()), element);
}

void Instructions::binary(Op op, const Vector& to, const Vector& x, const Operand& z) {
  switch (op) {
    case Op::add: return wide_ ? vaddpd(to, x, z) : vaddps(to, x, z);
    case Op::subtract: return wide_ ? vsubpd(to, x, z) : vsubps(to, x, z);
    case Op::multiply: return wide_ ? vmulpd(to, x, z) : vmulps(to, x, z);
    case Op::divide: return wide_ ? vdivpd(to, x, z) : vdivps(to, x, z);
    case Op::minimum: return wide_ ? vminpd(to, x, z) : vminps(to, x, z);
    case Op::maximum: return wide_ ? vmaxpd(to, x, z) : vmaxps(to, x, z);
    case Op::bit_and: return wide_ ? vandpd(to, x, z) : vandps(to, x, z);
    case Op::bit_or: return wide_ ? vorpd(to, x, z) : vorps(to, x, z);
    case Op::bit_xor: return wide_ ? vxorpd(to, x, z) : vxorps(to, x, z);
    case Op::integer_add: return wide_ ? vpaddq(to, x, z) : vpaddd(to, x, z);
    default: return wide_ ? vpsubq(to, x, z) : vpsubd(to, x, z);
  }
}

bool Instructions::commutes(Op op) {
  return op == Op::add || op == Op::multiply || op == Op::bit_and || op == Op::bit_or || op == Op::bit_xor ||
         op == Op::integer_add;
}

void Instructions::square_root(const Vector& to, const Operand& x) {
  if (wide_)
    vsqrtpd(to, x);
  else
    vsqrtps(to, x);
}

void Instructions::round(const Vector& to, const Vector& x, Rounding rounding) {
  const auto mode = static_cast<std::uint8_t>(rounding);
  if (avx512_)
    wide_ ? vrndscalepd(to, x, mode) : vrndscaleps(to, x, mode);
  else
    wide_ ? vroundpd(to, x, mode) : vroundps(to, x, mode);
}

void Instructions::round_to_half(const Vector& to, const Vector& x) {
  if (avx512_) {
    vcvtps2ph(Ymm(to.getIdx()), x, 0);
    vcvtph2ps(to, Ymm(to.getIdx()));
  } else {
    vcvtps2ph(Xmm(to.getIdx()), x, 0);
    vcvtph2ps(to, Xmm(to.getIdx()));
  }
}

void Instructions::shift(Op op, const Vector& to, const Vector& x, std::uint8_t bits) {
  if (op == Op::shift_left)
    wide_ ? vpsllq(to, x, bits) : vpslld(to, x, bits);
  else
    wide_ ? vpsrlq(to, x, bits) : vpsrld(to, x, bits);
}

void Instructions::add_product(Op op, const Vector& to, const Vector& x, const Operand& z) {
  switch (op) {
    case Op::multiply_add: return wide_ ? vfmadd231pd(to, x, z) : vfmadd231ps(to, x, z);
    case Op::multiply_subtract: return wide_ ? vfmsub231pd(to, x, z) : vfmsub231ps(to, x, z);
    default: return wide_ ? vfnmadd231pd(to, x, z) : vfnmadd231ps(to, x, z);
  }
}

void Instructions::multiply_and_add(Op op, const Vector& to, const Vector& x, const Operand& a) {
  switch (op) {
    case Op::multiply_add: return wide_ ? vfmadd213pd(to, x, a) : vfmadd213ps(to, x, a);
    case Op::multiply_subtract: return wide_ ? vfmsub213pd(to, x, a) : vfmsub213ps(to, x, a);
    default: return wide_ ? vfnmadd213pd(to, x, a) : vfnmadd213ps(to, x, a);
  }
}

void Instructions::compare(int mask, const Vector& x, const Operand& z, std::uint8_t comparison) {
  if (avx512_)
    wide_ ? vcmppd(Opmask(mask), x, z, comparison) : vcmpps(Opmask(mask), x, z, comparison);
  else
    wide_ ? vcmppd(vector(mask), x, z, comparison) : vcmpps(vector(mask), x, z, comparison);
}

void Instructions::combine_masks(Op op, int to, int x, int z) {
  if (!avx512_)
    op == Op::mask_and ? vandps(vector(to), vector(x), vector(z)) : vorps(vector(to), vector(x), vector(z));
  else if (op == Op::mask_and)
    kandw(Opmask(to), Opmask(x), Opmask(z));
  else
    korw(Opmask(to), Opmask(x), Opmask(z));
}

void Instructions::select(const Vector& to, int mask, const Operand& x, const Vector& z) {
  if (avx512_)
    wide_ ? vblendmpd(to | Opmask(mask), z, x) : vblendmps(to | Opmask(mask), z, x);
  else
    wide_ ? vblendvpd(to, z, x, vector(mask)) : vblendvps(to, z, x, vector(mask));
}

void Instructions::select_or_zero(const Vector& to, int mask, const Vector& x) {
  if (!avx512_)
    vandps(to, vector(mask), x);
  else if (wide_)
    vmovapd(to | Opmask(mask) | T_z, x);
  else
    vmovaps(to | Opmask(mask) | T_z, x);
}

void Instructions::load_mask(int to, const Address& from) {
  if (avx512_)
    kmovw(Opmask(to), from);
  else
    vmovups(vector(to), from);
}

void Instructions::store_mask(const Address& to, int mask) {
  if (avx512_)
    kmovw(to, Opmask(mask));
  else
    vmovups(to, vector(mask));
}

void Instructions::load_elements(DType dtype, const Vector& to, const Address& from) {
  switch (dtype) {
    case DType::f16: return vcvtph2ps(to, from);
    case DType::bf16: vpmovzxwd(to, from); return vpslld(to, to, 16);
    case DType::boolean:
    case DType::u8: vpmovzxbd(to, from); return vcvtdq2ps(to, to);
    default: return vmovups(to, from);
  }
}

void Instructions::store_elements(DType dtype, const Address& to, const Vector& x, const Vector& spare) {
  if (dtype == DType::f16)
    vcvtps2ph(to, x, 0);
  else if (dtype == DType::bf16 || dtype == DType::boolean)
    narrow_bits(dtype, to, x, spare);
  else
    vmovups(to, x);
}

void Instructions::narrow_bits(DType dtype, const Address& to, const Vector& x, const Vector& spare) {
  if (avx512_) return dtype == DType::bf16 ? vpmovdw(to, x) : vpmovdb(to, x);
  const Xmm half(spare.getIdx());
  vextracti128(half, Ymm(x.getIdx()), 1);
  vpackusdw(half, Xmm(x.getIdx()), half);
  if (dtype == DType::bf16) return vmovdqu(to, half);
  vpackuswb(half, half, half);
  vmovq(to, half);
}

}  // namespace thalweg::jit
