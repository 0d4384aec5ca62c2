#include "tuner/reference/block.hpp"

#include <functional>
#include <string>

#include "tuner/reference/generate.hpp"
#include "vocabulary/epilogue.hpp"

namespace tilewise {
namespace {

// Returns consecutive, 64-byte aligned parts of a block; with a null base it only counts bytes.
class Cursor {
 public:
  explicit Cursor(std::byte* base) : base_(base) {}
  template <typename T>
  T* take(std::int64_t count) {
    T* piece = base_ ? reinterpret_cast<T*>(base_ + used_) : nullptr;
    used_ += (static_cast<std::size_t>(count) * sizeof(T) + 63) / 64 * 64;
    return piece;
  }
  StoredProducts products(std::int64_t rows, std::int64_t columns) {
    StoredProducts stored{rows, columns, nullptr, nullptr, nullptr};
    stored.exact = take<std::int32_t>(rows * columns);
    stored.bounded = take<double>(rows * columns);
    stored.absolute = take<float>(rows * columns);
    return stored;
  }
  std::size_t used() const { return used_; }

 private:
  std::byte* base_;
  std::size_t used_ = 0;
};

}  // namespace

std::size_t BlockLayout::place(const Problem& problem, const Header& header, std::byte* base) {
  const std::int64_t all_rows = problem.m * matrices_c(problem);
  Cursor cursor(base);
  header_ = cursor.take<Header>(1);
  if (!header.sampled) {
    full = cursor.products(all_rows, problem.n);
    return cursor.used();
  }
  rows = cursor.products(header.row_count, problem.n);
  columns = cursor.products(all_rows, header.column_count);
  x = cursor.take<double>(problem.n * kVectors);
  for (FreivaldsVectors& set : vectors) {
    set.product = cursor.take<double>(all_rows * kVectors);
    set.c0 = cursor.take<double>(all_rows * kVectors);
  }
  vectors[1].absolute_product = cursor.take<double>(all_rows * kVectors);
  vectors[1].absolute_c0 = cursor.take<double>(all_rows * kVectors);
  return cursor.used();
}

std::size_t BlockLayout::bytes_for(const Problem& problem, const Header& header) {
  return BlockLayout().place(problem, header, nullptr);
}

BlockLayout::BlockLayout(const Problem& problem, std::byte* base) {
  place(problem, *reinterpret_cast<const Header*>(base), base);
}

std::uint64_t block_hash(const Problem& problem) {
  std::uint64_t hash = static_cast<std::uint64_t>(layout_of(problem));
  for (const std::int64_t value :
       {problem.m, problem.n, problem.k, problem.batch, static_cast<std::int64_t>(problem.a.type),
        static_cast<std::int64_t>(problem.c.type), static_cast<std::int64_t>(problem.math),
        static_cast<std::int64_t>(problem.grouping),
        static_cast<std::int64_t>(problem.distribution)}) {
    hash = mixed_bits(hash, static_cast<std::uint64_t>(value));
  }
  // Scales of blocks change the stored products.
  if (has_scales(problem))
    hash = mixed_bits(hash, std::hash<std::string>{}(to_string(*problem.epilogue)));
  return hash;
}

}  // namespace tilewise
