// Which weights of a head stay under dropout: words of Philox, those of several blocks at once. Included once per
// target.
#if defined(THALWEG_CPU_KERNELS_ATTENTION_DROPOUT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef THALWEG_CPU_KERNELS_ATTENTION_DROPOUT_INL_H
#undef THALWEG_CPU_KERNELS_ATTENTION_DROPOUT_INL_H
#else
#define THALWEG_CPU_KERNELS_ATTENTION_DROPOUT_INL_H
#endif

#include "thalweg/backend/cpu/kernels/attention_tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace thalweg::cpu {
namespace HWY_NAMESPACE {

// random::words of as many blocks as a vector of 64-bit lanes has, each in the lower half of its lane; the upper halves
// hold leftovers.
class WordSource {
 public:
  static constexpr hn::ScalableTag<std::uint64_t> d{};
  using V = hn::Vec<hn::ScalableTag<std::uint64_t>>;
  static constexpr int kBlocks = static_cast<int>(hn::MaxLanes(hn::ScalableTag<std::uint64_t>()));

  explicit WordSource(const random::Key& key) : ordinal_(key.ordinal) {
    std::uint64_t low = key.seed, high = key.seed >> 32;
    for (auto& [even, odd] : round_keys_) {
      even = low, odd = high;
      low += 0x9E3779B9U, high += 0xBB67AE85U;
    }
  }

  HWY_INLINE void draw(V blocks, V (&words)[4]) const {
    words[0] = blocks, words[1] = hn::ShiftRight<32>(blocks);
    words[2] = hn::Set(d, ordinal_), words[3] = hn::Set(d, ordinal_ >> 32);
    HWY_UNROLL(10)
    for (int round = 0; round < 10; ++round) {
      const V a = multiply(words[0], 0xD2511F53U), b = multiply(words[2], 0xCD9E8D57U);
      words[0] = hn::Xor3(hn::ShiftRight<32>(b), words[1], hn::Set(d, round_keys_[round].even));
      words[2] = hn::Xor3(hn::ShiftRight<32>(a), words[3], hn::Set(d, round_keys_[round].odd));
      words[1] = b, words[3] = a;
    }
  }

 private:
  struct RoundKeys {
    std::uint64_t even, odd;
  };

  // The lower halves times a number, all 64 bits.
  static HWY_INLINE V multiply(V x, std::uint64_t number) {
#if HWY_TARGET == HWY_SCALAR
    return hn::Mul(hn::And(x, hn::Set(d, 0xFFFFFFFFU)), hn::Set(d, number));
#else
    const hn::Repartition<std::uint32_t, hn::ScalableTag<std::uint64_t>> halves;
    return hn::MulEven(hn::BitCast(halves, x), hn::BitCast(halves, hn::Set(d, number)));
#endif
  }

  std::uint64_t ordinal_;
  RoundKeys round_keys_[10];
};

template <class T>
class KeptWeights {
  using S = TileShape<T>;
  using V = VecOf<T>;
  using Word = hwy::MakeUnsigned<T>;
  static constexpr hn::ScalableTag<Word> words{};
  using Words = hn::Vec<hn::ScalableTag<Word>>;
  static constexpr int kBlocks = WordSource::kBlocks, kParts = S::kWidth / kBlocks;

 public:
  KeptWeights(const AttentionDropout& dropout, const AttentionShape& shape, std::int64_t head)
      : source_(dropout.key),
        first_(dropout.first + static_cast<std::uint64_t>(head * shape.queries * shape.keys)),
        keys_(static_cast<std::uint64_t>(shape.keys)),
        drops_(dropout.threshold > 0),
        limit_(static_cast<Word>(dropout.threshold - 1) & 0xFFFFFFFFU),
        scale_(static_cast<T>(dropout.scale)) {}

  T scale() const { return scale_; }

  // p [count][slab] becomes 0 where a weight is dropped: those of the slab's queries from `query` on and of the keys
  // from `key` on. Rows up to the next multiple of 4 are written.
  void drop(T* p, std::int64_t query, std::int64_t key, std::int64_t count) const {
    if (!drops_) return;
    for (int v = 0; v < S::kVectors; ++v) drop_vector(p + v * S::kWidth, query + v * S::kWidth, key, count);
  }

  // take(i, factors) for a vector after the other of the query's weights from `key` on, at most kKeyBlock: what they
  // are multiplied by, 0 or the scale.
  template <class Take>
  HWY_INLINE void for_each_vector(std::int64_t query, std::int64_t key, std::int64_t count, Take take) const {
    alignas(64) std::uint32_t drawn[kKeyBlock + 8 * kBlocks];
    const std::uint64_t number = number_of(query, key);
    const auto skipped = static_cast<std::int64_t>(number % 4);
    const std::int64_t needed = drops_ ? skipped + divide_up(count, S::kWidth) * S::kWidth : 0;
    for (std::int64_t i = 0; i < needed; i += 4 * kBlocks)
      draw_in_order(number / 4 + static_cast<std::uint64_t>(i / 4), drawn + i);
    const V scale = hn::Set(S::d, scale_);
    for (std::int64_t i = 0; i < count; i += S::kWidth)
      take(i, drops_ ? hn::IfThenElseZero(stays(load_words(drawn + skipped + i)), scale) : scale);
  }

 private:
  std::uint64_t number_of(std::int64_t query, std::int64_t key) const {
    return first_ + static_cast<std::uint64_t>(query) * keys_ + static_cast<std::uint64_t>(key);
  }

  HWY_INLINE hn::Mask<hn::ScalableTag<T>> stays(Words word) const {
    return hn::RebindMask(S::d, hn::Gt(word, hn::Set(words, limit_)));
  }

  // A lane is a query, whose numbers begin anywhere in a block: of two neighbouring blocks' words it takes four, by its
  // offset.
  void drop_vector(T* p, std::int64_t query, std::int64_t key, std::int64_t count) const {
    alignas(64) std::uint64_t blocks[S::kWidth];
    alignas(64) Word offsets[S::kWidth];
    for (int i = 0; i < S::kWidth; ++i) {
      const std::uint64_t number = number_of(query + i, key);
      blocks[i] = number / 4, offsets[i] = static_cast<Word>(number % 4);
    }
    const Words offset = hn::Load(words, offsets);
    const auto by_one = hn::TestBit(offset, hn::Set(words, Word{1}));
    const auto by_two = hn::TestBit(offset, hn::Set(words, Word{2}));
    Words pair[8];
    draw_lanes(blocks, 0, pair + 4);
    for (std::int64_t at = 0; at < count; at += 4, p += 4 * S::kSlab) {
      HWY_UNROLL(4)
      for (int i = 0; i < 4; ++i) pair[i] = pair[4 + i];
      draw_lanes(blocks, static_cast<std::uint64_t>(at / 4) + 1, pair + 4);
      Words moved[5];
      HWY_UNROLL(5)
      for (int i = 0; i < 5; ++i) moved[i] = hn::IfThenElse(by_two, pair[i + 2], pair[i]);
      HWY_UNROLL(4)
      for (int i = 0; i < 4; ++i) {
        const auto kept = stays(hn::IfThenElse(by_one, moved[i + 1], moved[i]));
        hn::StoreU(hn::IfThenElseZero(kept, hn::LoadU(S::d, p + i * S::kSlab)), S::d, p + i * S::kSlab);
      }
    }
  }

  // The four words of block blocks[lane] + step.
  HWY_INLINE void draw_lanes(const std::uint64_t* blocks, std::uint64_t step, Words* out) const {
    WordSource::V part[kParts][4];
    HWY_UNROLL(2)
    for (int i = 0; i < kParts; ++i) {
      const auto from = hn::Load(WordSource::d, blocks + i * kBlocks);
      source_.draw(hn::Add(from, hn::Set(WordSource::d, step)), part[i]);
    }
    HWY_UNROLL(4)
    for (int i = 0; i < 4; ++i) {
      if constexpr (sizeof(T) == 8)
        out[i] = hn::And(part[0][i], hn::Set(words, 0xFFFFFFFFU));
      else
#if HWY_TARGET == HWY_SCALAR
        out[i] = hn::TruncateTo(words, part[0][i]);
#else
        out[i] = hn::ConcatEven(words, hn::BitCast(words, part[1][i]), hn::BitCast(words, part[0][i]));
#endif
    }
  }

  // The words of kBlocks blocks, one block after the other.
  HWY_INLINE void draw_in_order(std::uint64_t block, std::uint32_t* out) const {
    WordSource::V word[4];
    source_.draw(hn::Iota(WordSource::d, block), word);
    const auto joined = [](WordSource::V low, WordSource::V high) HWY_ATTR {
      return hn::Or(hn::And(low, hn::Set(WordSource::d, 0xFFFFFFFFU)), hn::ShiftLeft<32>(high));
    };
    hn::StoreInterleaved2(joined(word[0], word[1]), joined(word[2], word[3]), WordSource::d,
                          reinterpret_cast<std::uint64_t*>(out));
  }

  static HWY_INLINE Words load_words(const std::uint32_t* from) {
    if constexpr (sizeof(T) == 8)
      return hn::PromoteTo(words, hn::LoadU(hn::Rebind<std::uint32_t, hn::ScalableTag<Word>>(), from));
    else
      return hn::LoadU(words, from);
  }

  WordSource source_;
  std::uint64_t first_, keys_;
  bool drops_;
  Word limit_;  // words above it stay
  T scale_;
};

}  // namespace HWY_NAMESPACE
}  // namespace thalweg::cpu
HWY_AFTER_NAMESPACE();

#endif
