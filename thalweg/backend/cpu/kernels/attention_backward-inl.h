// Gradients of one head, one block of keys after the other. Included once per target.
//
// With s = scores, p = softmax(s), delta = sum(d_o * o):  ds = p * (d_o v^T - delta) * scale,
//   dq = ds k,  dk = ds^T q,  dv = p^T d_o.
// With dropout, d_o v^T and the p of dv are multiplied by its factors; delta stays what it is.
// Scores are held as [query][key], vectors running over keys: only k and v of the block need a transposed copy, dk and
// dv stay in cache, dq is added to where it lies.
#if defined(THALWEG_CPU_KERNELS_ATTENTION_BACKWARD_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef THALWEG_CPU_KERNELS_ATTENTION_BACKWARD_INL_H
#undef THALWEG_CPU_KERNELS_ATTENTION_BACKWARD_INL_H
#else
#define THALWEG_CPU_KERNELS_ATTENTION_BACKWARD_INL_H
#endif

#include "thalweg/backend/cpu/kernels/attention_dropout-inl.h"
#include "thalweg/backend/cpu/kernels/attention_tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace thalweg::cpu {
namespace HWY_NAMESPACE {

template <class Stored, class T = Wide<Stored>>
class KeyBlocks {
  using S = TileShape<T>;
  using V = VecOf<T>;

 public:
  // delta [queries] of the head; dq [queries, depth] receives this task's share, dq_stride from row to row.
  KeyBlocks(const AttentionGradient<Stored>& a, std::int64_t head, const T* delta, T* dq, std::int64_t dq_stride,
            T* scratch)
      : shape_(a.shape),
        mask_(a.mask, a.shape, head),
        scale_(a.scale),
        score_scale_(a.scale),
        kept_(a.dropout, a.shape, head),
        drops_(a.dropout.is_on()),
        row_(padded(shape_.depth)),
        value_row_(padded(shape_.value_depth)),
        at_(shape_),
        q_(rows(a.q, a.strides.q, head)),
        k_(rows(a.k, a.strides.k, head)),
        v_(rows(a.v, a.strides.v, head)),
        d_o_(rows(a.d_o, a.strides.o, head)),
        statistics_(a.statistics + 2 * head * shape_.queries),
        delta_(delta),
        dq_(dq),
        dq_stride_(dq_stride),
        dk_(a.dk + a.strides.k.offset(head, shape_.heads)),
        dv_(a.dv + a.strides.v.offset(head, shape_.heads)),
        scratch_(scratch) {}

  // Key blocks first, first + step, …
  void run(std::int64_t first, std::int64_t step) {
    for (std::int64_t r = 0; r < shape_.queries; ++r) std::fill_n(dq_ + r * dq_stride_, shape_.depth, T(0));
    for (key_ = first * at_.block; key_ < shape_.keys; key_ += step * at_.block) {
      keys_ = std::min(at_.block, shape_.keys - key_);
      const Rows<T> v = wide_rows(v_.from(key_), keys_, shape_.value_depth, scratch_ + at_.wide_k);
      pack_transposed(v, keys_, shape_.value_depth, scale_, scratch_ + at_.values);
      const Rows<T> k = close_rows(shape_, k_.from(key_), keys_, shape_.depth, scratch_ + at_.wide_k);
      pack_transposed(k, keys_, shape_.depth, T(1), scratch_ + at_.keys);
      k_rows_ = padded_rows(k, keys_, shape_.depth, scratch_ + at_.k_rows);
      std::fill_n(scratch_ + at_.dk, at_.block * row_, T(0));
      std::fill_n(scratch_ + at_.dv, at_.block * value_row_, T(0));
      const std::int64_t begin = shape_.causal ? key_ / kQueryBlock * kQueryBlock : 0;
      for (query_ = begin; query_ < shape_.queries; query_ += kQueryBlock) add_queries();
      copy_rows(scratch_ + at_.dk, row_, shape_.depth, keys_, dk_ + key_ * k_.stride, k_.stride);
      copy_rows(scratch_ + at_.dv, value_row_, shape_.value_depth, keys_, dv_ + key_ * v_.stride, v_.stride);
    }
  }

 private:
  Rows<Stored> rows(const Stored* x, const HeadStrides& strides, std::int64_t head) const {
    return {x + strides.offset(head, shape_.heads), strides.row};
  }

  // The block of queries from query_ on against the block of keys.
  void add_queries() {
    queries_ = std::min(kQueryBlock, shape_.queries - query_);
    q_block_ = close_rows(shape_, q_.from(query_), queries_, shape_.depth, scratch_ + at_.wide_q);
    do_block_ = close_rows(shape_, d_o_.from(query_), queries_, shape_.value_depth, scratch_ + at_.wide_do);
    if (drops_) load_factors();
    for (std::int64_t slab = 0; slab < keys_; slab += S::kSlab) {
      if (mask_.data != nullptr) load_mask(slab);
      for (std::int64_t r = 0; r < queries_; r += S::kRows)
        if (r + S::kRows > first_query(slab)) score(slab, r);
    }
    add_to_keys(scratch_ + at_.p, padded_rows(do_block_, queries_, shape_.value_depth, scratch_ + at_.do_rows),
                value_row_, scratch_ + at_.dv);
    add_to_keys(scratch_ + at_.ds, padded_rows(q_block_, queries_, shape_.depth, scratch_ + at_.q_rows), row_,
                scratch_ + at_.dk);
    add_to_queries();
  }

  // Rows r … r + kRows of the next block of queries; each slab of keys asks for its part of them.
  HWY_INLINE void prefetch_queries(std::int64_t slab, std::int64_t r) const {
    for (std::int64_t i = slab / S::kSlab; i < S::kRows; i += divide_up(keys_, S::kSlab)) {
      const std::int64_t row = std::min(query_ + kQueryBlock + r + i, shape_.queries - 1);
      prefetch(q_.at(row), shape_.depth);
      prefetch(dq_ + row * dq_stride_, shape_.depth);
      prefetch(d_o_.at(row), shape_.value_depth);
    }
  }

  // The first query of the block that sees the block's key `key`, if causal.
  HWY_INLINE std::int64_t first_query(std::int64_t key) const {
    return shape_.causal ? std::max<std::int64_t>(key_ + key - query_, 0) : 0;
  }

  // Where row r of a slab lies in p and ds [slabs][query block][slab].
  HWY_INLINE std::int64_t offset(std::int64_t slab, std::int64_t r) const { return slab * at_.queries + r * S::kSlab; }

  // The mask of a slab, in the place of p.
  void load_mask(std::int64_t slab) {
    spread_mask(mask_.data + query_ * mask_.query_stride + (key_ + slab) * mask_.key_stride, mask_.query_stride,
                mask_.key_stride, queries_, std::min<std::int64_t>(S::kSlab, keys_ - slab),
                scratch_ + at_.p + offset(slab, 0));
  }

  // The factors of dropout, in the place of ds: in all tiles of which some query sees some key.
  void load_factors() {
    for (std::int64_t r = 0; r < divide_up(queries_, S::kRows) * S::kRows; ++r) {
      const std::int64_t last_query = query_ + r / S::kRows * S::kRows + S::kRows - 1;
      const std::int64_t seen = shape_.causal ? std::min(keys_, last_query + 1 - key_) : keys_;
      const std::int64_t end = divide_up(seen, S::kSlab) * S::kSlab;
      for (std::int64_t begin = 0; begin < end; begin += kKeyBlock)
        kept_.for_each_vector(query_ + r, key_ + begin, std::min(kKeyBlock, end - begin),
                              [&](std::int64_t i, V factors) THALWEG_INLINE_LAMBDA {
                                const std::int64_t key = begin + i, slab = key / S::kSlab * S::kSlab;
                                hn::StoreU(factors, S::d, scratch_ + at_.ds + offset(slab, r) + (key - slab));
                              });
    }
  }

  // p and ds of queries r … r + kRows of the block against one slab of keys.
  void score(std::int64_t slab, std::int64_t r) {
    prefetch_queries(slab, r);
    if (r + S::kRows > first_query(slab + S::kSlab / 2))
      score_vectors<S::kVectors>(slab, r);
    else
      score_vectors<S::kVectors / 2>(slab, r);  // the others are hidden
  }

  // The same; beyond the first kSeen vectors of keys p and ds are 0.
  template <int kSeen>
  HWY_INLINE void score_vectors(std::int64_t slab, std::int64_t r) {
    T *p = scratch_ + at_.p + offset(slab, r), *ds = scratch_ + at_.ds + offset(slab, r);
    ScoreTile<T> tile;
    multiply_rows<0, kSeen>(tile, q_block_, r, queries_, shape_.depth, scratch_ + at_.keys + slab * shape_.depth);
    score_scale_.apply_sign(tile);
    if (mask_.data != nullptr) apply_mask<T>(tile, p);
    if (r < first_query(slab + S::kSlab - 1)) hide_keys(tile, key_ + slab, query_ + r);
    store_tile<T>(tile, p);
    multiply_rows<0, kSeen, kSeen * S::kRows>(
        tile, do_block_, r, queries_, shape_.value_depth, scratch_ + at_.values + slab * shape_.value_depth,
        [&](int i) THALWEG_INLINE_LAMBDA { weigh(p + i / kSeen * S::kSlab + i % kSeen * S::kWidth, r + i / kSeen); });
    if (drops_)
      differentiate<kSeen, true>(tile, r, p, ds);
    else
      differentiate<kSeen, false>(tile, r, p, ds);
    store_tile<T>(tile, ds);
  }

  // d_o v^T of queries from r on -> ds. With dropout its factors are read from ds, and p is multiplied by them too.
  template <int kSeen, bool kDrops>
  HWY_INLINE void differentiate(ScoreTile<T>& tile, std::int64_t r, T* p, [[maybe_unused]] const T* factors) const {
    HWY_UNROLL(8)
    for (int i = 0; i < S::kRows; ++i) {
      const V delta = hn::Set(S::d, delta_[std::min(query_ + r + i, shape_.queries - 1)]);
      HWY_UNROLL(8)
      for (int v = 0; v < S::kVectors; ++v) {
        T* weights = p + i * S::kSlab + v * S::kWidth;
        if (v >= kSeen) {
          hn::StoreU(tile[i][v], S::d, weights);
          continue;
        }
        const V weight = hn::LoadU(S::d, weights);
        if constexpr (kDrops) {
          const V factor = hn::LoadU(S::d, factors + i * S::kSlab + v * S::kWidth);
          const auto stays = hn::Ne(factor, hn::Zero(S::d));
          tile[i][v] = hn::IfThenElseZero(stays, hn::Mul(tile[i][v], factor));
          hn::StoreU(hn::IfThenElseZero(stays, hn::Mul(weight, factor)), S::d, weights);
        }
        tile[i][v] = hn::Mul(weight, hn::Sub(tile[i][v], delta));
      }
    }
  }

  // A vector of scores of the block's query r -> p.
  HWY_INLINE void weigh(T* scores, std::int64_t r) const {
    const T* row = statistics_ + 2 * std::min(query_ + r, shape_.queries - 1);
    const V p = score_scale_.exponential(hn::LoadU(S::d, scores), hn::Set(S::d, row[0]));
    hn::StoreU(hn::Mul(hn::Set(S::d, row[1]), p), S::d, scores);
  }

  static HWY_INLINE void hide_keys(ScoreTile<T>& tile, std::int64_t key, std::int64_t query) {
    const V hidden = hn::Set(S::d, kMinusInfinity<T>);
    HWY_UNROLL(8)
    for (int r = 0; r < S::kRows; ++r) {
      HWY_UNROLL(8)
      for (int v = 0; v < S::kVectors; ++v) {
        const V distance = hn::Iota(S::d, static_cast<T>(key + v * S::kWidth - query - r));
        tile[r][v] = hn::IfThenElse(hn::Gt(distance, hn::Zero(S::d)), hidden, tile[r][v]);
      }
    }
  }

  // total [key block][row] += weights^T rows: weights are p or ds, rows [queries][row] are d_o or q.
  void add_to_keys(const T* weights, const Rows<T>& rows, std::int64_t row, T* total) {
    for (std::int64_t key = 0; key < keys_; key += S::kOutRows) {
      const std::int64_t slab = key / S::kSlab * S::kSlab, begin = first_query(key), count = queries_ - begin;
      if (count <= 0) continue;
      const T* weight = weights + offset(slab, begin) + (key - slab);
      update_rows(total + key * row, row, row, [&](auto& tile, std::int64_t column) THALWEG_INLINE_LAMBDA {
        accumulate<1, S::kSlab, sizeof(tile[0]) / sizeof(V), T>(tile, weight, rows.at(begin) + column, rows.stride,
                                                                count);
      });
    }
  }

  // dq [queries, depth] += ds k, in place or, where rows or depth leave a rest, in a padded copy.
  void add_to_queries() {
    const bool in_place = !needs_padding(shape_.depth) && queries_ % S::kOutRows == 0;
    T *dq = dq_ + query_ * dq_stride_, *to = in_place ? dq : scratch_ + at_.dq_rows;
    const std::int64_t stride = in_place ? dq_stride_ : row_;
    if (!in_place) copy_rows(dq, dq_stride_, shape_.depth, queries_, to, row_);
    for (std::int64_t r = 0; r < queries_; r += S::kOutRows)
      update_rows(to + r * stride, stride, row_, [&](auto& tile, std::int64_t column) THALWEG_INLINE_LAMBDA {
        for (std::int64_t slab = 0; slab < keys_; slab += S::kSlab) {
          std::int64_t count = std::min<std::int64_t>(S::kSlab, keys_ - slab);
          if (shape_.causal) count = std::min(count, query_ + r + S::kOutRows - key_ - slab);
          if (count <= 0) break;
          accumulate<S::kSlab, 1, sizeof(tile[0]) / sizeof(V), T>(tile, scratch_ + at_.ds + offset(slab, r),
                                                                  k_rows_.at(slab) + column, k_rows_.stride, count);
        }
      });
    if (!in_place) copy_rows(to, row_, shape_.depth, queries_, dq, dq_stride_);
  }

  // to [rows, width] = from, with their own distances from row to row.
  template <class To>
  static void copy_rows(const T* from, std::int64_t from_row, std::int64_t width, std::int64_t rows, To* to,
                        std::int64_t to_row) {
    for (std::int64_t r = 0; r < rows; ++r)
      for_each_chunk<T>(width,
                        [&](auto chunk) HWY_ATTR { chunk.store(chunk.load(from + r * from_row), to + r * to_row); });
  }

  const AttentionShape& shape_;
  HeadMask mask_;
  T scale_;
  Scale<T> score_scale_;
  KeptWeights<T> kept_;
  bool drops_;
  std::int64_t row_, value_row_;
  BackwardScratch at_;
  Rows<Stored> q_, k_, v_, d_o_;
  const T *statistics_, *delta_;
  T* dq_;
  std::int64_t dq_stride_;
  Stored *dk_, *dv_;
  T* scratch_;
  Rows<T> q_block_{}, do_block_{};  // the queries at work, and the gradients of what they gave
  Rows<T> k_rows_{};
  std::int64_t key_ = 0, keys_ = 0, query_ = 0, queries_ = 0;  // the blocks at work
};

}  // namespace HWY_NAMESPACE
}  // namespace thalweg::cpu
HWY_AFTER_NAMESPACE();

#endif
