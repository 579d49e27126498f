#pragma once

// Rows picked from and put into a table by their numbers.
#include <cstdint>
#include <span>

#include "thalweg/core/dtype.h"

namespace thalweg::cpu {

// table [rows, width], values [count, width], ids [count]: value row i belongs to table row ids[i]; ids below 0 to
// none.
struct RowUpdate {
  void* table;
  const void* values;
  const std::int64_t* ids;
  std::int64_t count, width;
  DType dtype;
};

// Bytes of scratch the next two want.
std::int64_t row_update_scratch(std::int64_t count, std::int64_t width, DType dtype);

// Adds every value row to its table row, in ascending order of i: the same bits for any number of threads. 16-bit rows
// are added in f32 and rounded once.
void add_rows(const RowUpdate& update, std::span<std::byte> scratch);

// The larger of the table's and the values' elements; NaN wins.
void max_rows(const RowUpdate& update, std::span<std::byte> scratch);

// Bytes of scratch for distinct_ids.
std::int64_t distinct_ids_scratch(std::int64_t count);

// The ids that are not negative, each once and ascending, then -1 to the end of rows [count]; places [count]: where
// each id stands among them, -1 for negative ones.
void distinct_ids(const std::int64_t* ids, std::int64_t count, std::int64_t* rows, std::int64_t* places,
                  std::span<std::byte> scratch);

// Writes every value row over its table row; no two may have the same.
void put_rows(const RowUpdate& update);

// Row ids[i] of the table to row i of `to`; zeros for ids below 0.
void take_rows(const void* table, const std::int64_t* ids, std::int64_t count, std::int64_t row_bytes, void* to);

}  // namespace thalweg::cpu
