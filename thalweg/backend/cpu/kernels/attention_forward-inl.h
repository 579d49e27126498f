// One block of queries against all keys. Included once per target.
//
// Scores are held transposed, [key][query], vectors running over queries: the softmax then needs no sum across lanes,
// and keys are read as they lie, one broadcast number at a time.
#if defined(THALWEG_CPU_KERNELS_ATTENTION_FORWARD_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef THALWEG_CPU_KERNELS_ATTENTION_FORWARD_INL_H
#undef THALWEG_CPU_KERNELS_ATTENTION_FORWARD_INL_H
#else
#define THALWEG_CPU_KERNELS_ATTENTION_FORWARD_INL_H
#endif

#include "thalweg/backend/cpu/kernels/attention_dropout-inl.h"
#include "thalweg/backend/cpu/kernels/attention_tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace thalweg::cpu {
namespace HWY_NAMESPACE {

template <class Stored, class T = Wide<Stored>>
class QueryBlock {
  using S = TileShape<T>;
  using V = VecOf<T>;

 public:
  // A block of queries of one head, from `first` on.
  QueryBlock(const Attention<Stored>& a, std::int64_t head, std::int64_t first, T* scratch)
      : shape_(a.shape),
        mask_(a.mask, a.shape, head),
        scale_(a.scale),
        kept_(a.dropout, a.shape, head),
        block_(forward_query_block(shape_)),
        first_(first),
        count_(std::min(block_, shape_.queries - first)),
        k_{a.k + a.strides.k.offset(head, shape_.heads), a.strides.k.row},
        v_{a.v + a.strides.v.offset(head, shape_.heads), a.strides.v.row},
        o_(a.o + a.strides.o.offset(head, shape_.heads) + first * a.strides.o.row),
        o_stride_(a.strides.o.row),
        statistics_(a.statistics + 2 * (head * shape_.queries + first)),
        row_(padded(shape_.value_depth)) {
    const ForwardScratch at(shape_);
    queries_ = scratch + at.queries, scores_ = scratch + at.scores, output_ = scratch + at.output;
    values_ = scratch + at.values, maximum_ = scratch + at.statistics;
    wide_keys_ = scratch + at.keys, wide_values_ = wide_keys_ + at.key_block * padded(shape_.depth);
    sum_ = maximum_ + block_, shrink_ = sum_ + block_;
    const Rows<Stored> q{a.q + a.strides.q.offset(head, shape_.heads) + first * a.strides.q.row, a.strides.q.row};
    pack_transposed(wide_rows(q, count_, shape_.depth, wide_keys_), count_, shape_.depth, T(1), queries_);
  }

  void run() {
    std::fill_n(maximum_, block_, kMinusInfinity<T>);
    std::fill_n(sum_, block_, T(0));
    std::fill_n(output_, block_ * row_, T(0));
    const std::int64_t end = last_key(first_ + count_);
    for (std::int64_t key = 0; key < end; key += kKeyBlock) {
      const std::int64_t keys = std::min(kKeyBlock, end - key);
      keys_ = close_rows(shape_, k_.from(key), std::min(kKeyBlock, shape_.keys - key), shape_.depth, wide_keys_);
      const Rows<T> v = padded_rows(close_rows(shape_, v_.from(key), keys, shape_.value_depth, wide_values_), keys,
                                    shape_.value_depth, values_);
      for (std::int64_t slab = 0; slab < count_; slab += S::kSlab) {
        const std::int64_t seen = std::min(keys, last_key(first_ + slab + S::kSlab) - key);
        if (seen <= 0) continue;
        score(slab, key, seen);
        exponentiate(slab, seen);
        kept_.drop(scores_, first_ + slab, key, seen);
        add_values(slab, key, v, seen);
      }
    }
    write();
  }

 private:
  // One past the last key that queries before `end` may see.
  std::int64_t last_key(std::int64_t end) const { return shape_.causal ? std::min(shape_.keys, end) : shape_.keys; }

  // scores [count][slab] of keys [key, key + count), and their maximum.
  void score(std::int64_t slab, std::int64_t key, std::int64_t count) {
    const T* queries = queries_ + slab * shape_.depth;
    const std::int64_t query = first_ + slab;
    if (mask_.data != nullptr)
      spread_mask(mask_.data + query * mask_.query_stride + key * mask_.key_stride, mask_.key_stride,
                  mask_.query_stride, count, std::min<std::int64_t>(S::kSlab, count_ - slab), scores_);
    V top[S::kVectors];
    for (int v = 0; v < S::kVectors; ++v) top[v] = hn::LoadU(S::d, maximum_ + slab + v * S::kWidth);
    for (std::int64_t r = 0; r < count; r += S::kRows) {
      prefetch_keys(slab, key + r);
      ScoreTile<T> tile;
      const std::int64_t rows = std::min(kKeyBlock, shape_.keys - key);
      if (key + r >= last_key(query + S::kSlab / 2))  // hidden from the first half of the slab
        multiply_rows<S::kVectors / 2, S::kVectors>(tile, keys_, r, rows, shape_.depth, queries);
      else
        multiply_rows<0, S::kVectors>(tile, keys_, r, rows, shape_.depth, queries);
      scale_.apply_sign(tile);
      if (mask_.data != nullptr) apply_mask<T>(tile, scores_ + r * S::kSlab);
      if (key + r + S::kRows > last_key(query + 1)) hide_keys(tile, key + r, query);
      HWY_UNROLL(8)
      for (int i = 0; i < S::kRows; ++i) {
        HWY_UNROLL(8)
        for (int v = 0; v < S::kVectors; ++v) top[v] = hn::Max(top[v], tile[i][v]);
      }
      store_tile<T>(tile, scores_ + r * S::kSlab);
    }
    for (int v = 0; v < S::kVectors; ++v) raise_maximum(slab + v * S::kWidth, top[v]);
  }

  // The kRows keys and values one block after `key`; each slab of queries asks for its part of them.
  HWY_INLINE void prefetch_keys(std::int64_t slab, std::int64_t key) const {
    for (std::int64_t i = slab / S::kSlab; i < S::kRows; i += block_ / S::kSlab) {
      const std::int64_t row = std::min(key + kKeyBlock + i, shape_.keys - 1);
      prefetch(k_.at(row), shape_.depth);
      prefetch(v_.at(row), shape_.value_depth);
    }
  }

  // -infinity for keys beyond the end and, if causal, for keys after the query.
  HWY_INLINE void hide_keys(ScoreTile<T>& tile, std::int64_t key, std::int64_t query) const {
    const V hidden = hn::Set(S::d, kMinusInfinity<T>);
    HWY_UNROLL(8)
    for (int r = 0; r < S::kRows; ++r) {
      HWY_UNROLL(8)
      for (int v = 0; v < S::kVectors; ++v) {
        const V distance = hn::Iota(S::d, static_cast<T>(query + v * S::kWidth - key - r));
        if (key + r >= shape_.keys)
          tile[r][v] = hidden;
        else if (shape_.causal)
          tile[r][v] = hn::IfThenElse(hn::Lt(distance, hn::Zero(S::d)), hidden, tile[r][v]);
      }
    }
  }

  // New maximum of the queries from `at` on; earlier sums are to be multiplied by shrink, the exponential of old - new.
  HWY_INLINE void raise_maximum(std::int64_t at, V top) {
    const V old = hn::LoadU(S::d, maximum_ + at);
    hn::StoreU(top, S::d, maximum_ + at);
    const V shrink = scale_.exponential(old, finite_maximum(top));
    hn::StoreU(shrink, S::d, shrink_ + at);
    hn::StoreU(hn::Mul(shrink, hn::LoadU(S::d, sum_ + at)), S::d, sum_ + at);
  }

  // 0 in place of -infinity: a query that has seen nothing then has p = 0 instead of NaN.
  static HWY_INLINE V finite_maximum(V top) {
    return hn::IfThenElse(hn::Eq(top, hn::Set(S::d, kMinusInfinity<T>)), hn::Zero(S::d), top);
  }

  // scores -> p, the exponential of score - maximum, added up in sum.
  void exponentiate(std::int64_t slab, std::int64_t count) {
    V top[S::kVectors], sum[S::kVectors];
    for (int v = 0; v < S::kVectors; ++v) {
      top[v] = finite_maximum(hn::LoadU(S::d, maximum_ + slab + v * S::kWidth));
      sum[v] = hn::LoadU(S::d, sum_ + slab + v * S::kWidth);
    }
    T* score = scores_;
    HWY_UNROLL(4)
    for (std::int64_t r = 0; r < count; ++r, score += S::kSlab) {
      HWY_UNROLL(8)
      for (int v = 0; v < S::kVectors; ++v) {
        const V p = scale_.exponential(hn::LoadU(S::d, score + v * S::kWidth), top[v]);
        sum[v] = hn::Add(sum[v], p);
        hn::StoreU(p, S::d, score + v * S::kWidth);
      }
    }
    for (int v = 0; v < S::kVectors; ++v) hn::StoreU(sum[v], S::d, sum_ + slab + v * S::kWidth);
  }

  // output = output * shrink + p v, over `count` keys from `key` on.
  void add_values(std::int64_t slab, std::int64_t key, const Rows<T>& v, std::int64_t count) {
    for (std::int64_t r = slab; r < slab + S::kSlab; r += S::kOutRows) {
      const std::int64_t seen = std::clamp<std::int64_t>(last_key(first_ + r + S::kOutRows) - key, 0, count);
      const T *p = scores_ + (r - slab), *shrink = shrink_ + r;
      update_rows(output_ + r * row_, row_, row_, [&](auto& tile, std::int64_t column) THALWEG_INLINE_LAMBDA {
        constexpr int kVectors = sizeof(tile[0]) / sizeof(V);
        HWY_UNROLL(8)
        for (int i = 0; i < S::kOutRows; ++i) {
          HWY_UNROLL(8)
          for (int c = 0; c < kVectors; ++c) tile[i][c] = hn::Mul(tile[i][c], hn::Set(S::d, shrink[i]));
        }
        accumulate<1, S::kSlab, kVectors, T>(tile, p, v.first + column, v.stride, seen);
      });
    }
  }

  void write() const {
    for (std::int64_t r = 0; r < count_; ++r) {
      Stored* o = o_ + r * o_stride_;
      T* statistics = statistics_ + 2 * r;
      if (sum_[r] == 0) {
        std::fill_n(o, shape_.value_depth, Stored(T(0)));
        std::fill_n(statistics, 2, T(0));
        continue;
      }
      statistics[0] = maximum_[r], statistics[1] = T(1) / sum_[r];
      const T* row = output_ + r * row_;
      const Lanes<T> weight(statistics[1] * kept_.scale());
      for_each_chunk<T>(shape_.value_depth, [&](auto chunk) HWY_ATTR { chunk.store(chunk.load(row) * weight, o); });
    }
  }

  const AttentionShape& shape_;
  HeadMask mask_;
  Scale<T> scale_;
  KeptWeights<T> kept_;
  std::int64_t block_, first_, count_;  // queries
  Rows<Stored> k_, v_;
  Stored* o_;
  std::int64_t o_stride_;
  T* statistics_;
  std::int64_t row_;
  T *queries_, *scores_, *output_, *values_, *wide_keys_, *wide_values_;
  Rows<T> keys_{};               // at work
  T *maximum_, *sum_, *shrink_;  // [query block]
};

}  // namespace HWY_NAMESPACE
}  // namespace thalweg::cpu
HWY_AFTER_NAMESPACE();

#endif
