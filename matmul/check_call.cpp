#include "matmul/check_call.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "matmul/packed_contents.hpp"
#include "tilewise/error.hpp"
#include "tilewise/strided_array.hpp"
#include "vocabulary/decimal.hpp"
#include "vocabulary/epilogue.hpp"
#include "vocabulary/problem.hpp"

namespace tilewise {
namespace {

/// One matrix of a call, as stored.
struct GivenOperand {
  const char* name;
  const void* pointer;
  std::int64_t rows, columns, ld, stride;
  DType type;
  std::int64_t batch;  // matrices
};

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorKind::invalid_argument, message);
}

std::string number(std::int64_t value) { return std::to_string(value); }

/// Bytes from the first element to one past the last, over all batches; none above 2^63.
std::optional<std::int64_t> span_bytes(const GivenOperand& x, std::int64_t batch) {
  std::int64_t rows = 0, batches = 0, bytes = 0;
  if (__builtin_mul_overflow(x.rows - 1, x.ld, &rows) ||
      __builtin_mul_overflow(batch - 1, batch > 1 ? x.stride : 0, &batches) ||
      __builtin_add_overflow(rows, x.columns, &rows) ||
      __builtin_add_overflow(rows, batches, &rows) ||
      __builtin_mul_overflow(rows, std::int64_t{bytes_of(x.type)}, &bytes) || bytes < 0)
    return std::nullopt;
  return bytes_of(x.type, rows);
}

struct Range {
  std::uint64_t begin = 0, end = 0;
};
bool intersect(const Range& x, const Range& y) { return x.begin < y.end && y.begin < x.end; }

void check_leading_dimension(const GivenOperand& x, const char* letters) {
  if (x.ld < x.columns)
    refuse("ld" + std::string(letters) + " = " + number(x.ld) + " is shorter than a row of " +
           x.name + ", which has " + number(x.columns) + " elements as stored");
  if (bits_of(x.type) < 8 && x.ld % 2 != 0) [[unlikely]]
    refuse("ld" + std::string(letters) + " = " + number(x.ld) + " is odd: rows of " +
           std::string(to_string(x.type)) + " begin at bytes");
}

void check_stride(const GivenOperand& x) {
  if (x.batch > 1 && x.stride < 0)
    refuse("the batch stride of " + std::string(x.name) + " is " + number(x.stride) +
           "; strides are 0 or more");
  if (x.batch > 1 && bits_of(x.type) < 8 && x.stride % 2 != 0) [[unlikely]]
    refuse("the batch stride of " + std::string(x.name) + " is " + number(x.stride) +
           ", which is odd: matrices of " + std::string(to_string(x.type)) + " begin at bytes");
}

StridedArray elements_of(const GivenOperand& x) {
  StridedArray elements;
  elements.data = x.pointer;
  elements.element_bytes = bytes_of(x.type);
  // Of i4 the elements compared here are bytes of two numbers.
  const int in_byte = bits_of(x.type) < 8 ? 8 / bits_of(x.type) : 1;
  elements.add(x.batch, x.stride / in_byte);
  elements.add(x.rows, x.ld / in_byte);
  elements.add((x.columns + in_byte - 1) / in_byte, 1);
  return elements;
}

/// Requires that matrices of C follow one another, or lie next to each other in the rows of a wider
/// matrix.
void check_batches_of_c(const GivenOperand& c) {
  if (c.batch > 1 && !has_distinct_elements(elements_of(c)))
    refuse("the batch stride of C is " + number(c.stride) + ", so that matrices of " +
           number(c.rows) + " rows with ldc = " + number(c.ld) + " overlap one another");
}

/// The address range of a matrix.
Range check_pointer(const GivenOperand& x) {
  const auto address = reinterpret_cast<std::uintptr_t>(x.pointer);
  const auto element = static_cast<std::uint64_t>(bytes_of(x.type));
  if (!x.pointer) refuse(std::string(x.name) + " is a null pointer, but it would be touched");
  if (address % element != 0)
    refuse("the address of " + std::string(x.name) + " is not a multiple of its " +
           number(bytes_of(x.type)) + "-byte elements: it is off by " +
           std::to_string(address % element));
  const std::optional<std::int64_t> bytes = span_bytes(x, x.batch);
  std::uint64_t end = 0;
  if (!bytes ||
      __builtin_add_overflow(std::uint64_t{address}, static_cast<std::uint64_t>(*bytes), &end))
    refuse("the extent of " + std::string(x.name) + " passes the address space: " + number(x.rows) +
           " rows with a leading dimension of " + number(x.ld) + " elements, batch " +
           number(x.batch));
  return {address, end};
}

/// Checks the address of an array of pointers. The array is in device memory, which the host cannot
/// read.
void check_pointer_array(const GivenOperand& x) {
  if (!x.pointer)
    refuse("the array of pointers to " + std::string(x.name) +
           " is a null pointer, but it would be read");
  if (reinterpret_cast<std::uintptr_t>(x.pointer) % sizeof(void*) != 0)
    refuse("the address of the array of pointers to " + std::string(x.name) +
           " is not a multiple of " + std::to_string(sizeof(void*)) + " bytes");
}

/// Checks what can be checked of a batch by pointers: each matrix fits the address space, and no
/// operand is packed.
void check_by_pointers(const GivenOperand& a, const GivenOperand& b, const GivenOperand& c,
                       const Problem& problem, const Call& call) {
  check_alignment(problem);
  if (call.packed_a || call.packed_b)
    refuse(
        "a batch by pointers takes no packed operand; pack_a() and pack_b() are for one matrix "
        "and for batches at even distances");
  const bool reads = reads_operands(problem, call);
  for (const GivenOperand* x : {&a, &b, &c}) {
    if (x != &c && !reads) continue;
    check_pointer_array(*x);
    if (!span_bytes(*x, 1))
      refuse("the extent of " + std::string(x->name) + " passes the address space: " +
             number(x->rows) + " rows with a leading dimension of " + number(x->ld) + " elements");
  }
}

void check_scalar(const char* name, const void* pointer, DType type) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  if (address % static_cast<std::uint64_t>(bytes_of(type)) != 0)
    refuse("the device address of " + std::string(name) + " is not a multiple of " +
           number(bytes_of(type)) + " bytes");
}

/// Requires an integer scalar for an integer product.
void check_whole(const char* name, const void* on_device, double value) {
  const bool whole = value >= -2147483648.0 && value <= 2147483647.0 &&
                     value == static_cast<double>(static_cast<std::int32_t>(value));
  if (!on_device && !whole)
    refuse(std::string(name) + " = " + in_shortest_form(value) +
           " of a product of integers; it must be a whole number that i32 holds");
}

GivenOperand operand_a(const Problem& p, const Call& call) {
  const bool t = p.a.transposed;
  return {"A",      call.a,        t ? p.k : p.m, t ? p.m : p.k,
          call.lda, call.stride_a, p.a.type,      matrices_a(p)};
}
GivenOperand operand_b(const Problem& p, const Call& call) {
  const bool t = p.b.transposed;
  return {"B",      call.b,        t ? p.n : p.k, t ? p.k : p.n,
          call.ldb, call.stride_b, p.b.type,      matrices_b(p)};
}
GivenOperand operand_c(const Problem& p, const Call& call) {
  return {"C", call.c, p.m, p.n, call.ldc, call.stride_c, p.c.type, matrices_c(p)};
}

/// A product that cannot use the packed operand reads the original, so both must be the same
/// matrix.
void check_packed(const GivenOperand& x, const PackedOperand* packed, StepRole role) {
  if (!packed) return;
  const std::string name = x.name;
  const PackedOperand::Contents* contents = packed->contents();
  if (!contents) refuse("the packed " + name + " holds nothing: it was moved from, or never made");
  if (contents->of_process != fork_generation())
    throw Error(ErrorKind::device, "the packed " + name +
                                       " was made before fork() by the parent of this process: "
                                       "the child must pack its own");
  if (contents->role != role)
    refuse("the packed operand given for " + name + " was made by " +
           std::string(to_string(contents->role)) + "()");
  if (contents->type != x.type)
    refuse("the packed " + name + " is of " + std::string(to_string(contents->type)) +
           "; this product is of " + std::string(to_string(x.type)));
  if (contents->original != x.pointer || contents->ld != x.ld ||
      (x.batch > 1 && contents->stride != x.stride))
    refuse("the packed " + name + " was made of another matrix: address, leading dimension (" +
           number(contents->ld) + ") and batch stride (" + number(contents->stride) +
           ") must be those of the call's " + name + " (" + number(x.ld) + " and " +
           number(x.stride) + ")");
}

/// The alignment of an operand. An operand whose strides are too large for a tensor map counts as
/// unaligned, so that plans copy it without a map.
int alignment_of(const GivenOperand& x) {
  if (x.ld >= kFarElements || (x.batch > 1 && x.stride >= kFarElements)) [[unlikely]]
    return bytes_of(x.type);
  return common_alignment(
      {reinterpret_cast<std::uintptr_t>(x.pointer),
       static_cast<std::uint64_t>(bytes_of(x.type, x.ld)),
       x.batch > 1 ? static_cast<std::uint64_t>(bytes_of(x.type, x.stride)) : 0});
}

/// "operand 1 of the epilogue "...""
std::string operand_name(const Problem& problem, std::size_t slot) {
  return "operand " + std::to_string(slot) + " of the epilogue \"" + epilogue_text(problem) + '"';
}

/// An operand of the epilogue as rows of elements. A scalar is one element, name[i] and name[j] are
/// one row.
GivenOperand epilogue_operand(const Problem& p, const EpilogueSlot& slot,
                              const EpilogueOperand& given, const char* name) {
  const EpilogueShape shape = shape_of(slot, p);
  const bool has_rows = slot.over == EpilogueOver::elements || is_of_blocks(slot.over);
  return {name,
          given.data,
          shape.rows,
          shape.columns,
          has_rows ? given.ld : shape.columns,
          given.stride,
          type_of(slot, p.c.type),
          is_of_rows(slot.over) ? matrices_c(p) : p.batch};
}

/// Whether an operand that is read is C itself, element by element: each is read before it is
/// written.
bool is_c(const GivenOperand& x, const GivenOperand& c) {
  return x.pointer == c.pointer && x.type == c.type && x.rows == c.rows && x.columns == c.columns &&
         x.ld == c.ld && (c.batch == 1 || x.stride == c.stride);
}

/// The address range of an operand of the epilogue; empty for a scalar by value.
Range check_epilogue_operand(const EpilogueSlot& form, const GivenOperand& x) {
  if (form.over == EpilogueOver::all && !x.pointer) return {};
  if (is_of_blocks(form.over) && x.columns * x.rows == 0) return {};  // not read
  if (x.ld < x.columns)
    refuse("the leading dimension of " + std::string(x.name) + " is " + number(x.ld) +
           ", shorter than a row of " + number(x.columns) + " elements");
  check_stride(x);
  const Range range = check_pointer(x);
  if (form.use != EpilogueUse::read && x.batch > 1 && !has_distinct_elements(elements_of(x)))
    refuse("the batch stride of " + std::string(x.name) + " is " + number(x.stride) +
           ", so that what different products write overlaps");
  return range;
}

void check_epilogue_named(const Problem& problem, const Call& call, const GivenOperand& a,
                          const GivenOperand& b, const GivenOperand& c,
                          const std::array<std::string, EpilogueForm::kMostOperands>& names) {
  const std::size_t count = call.operands.size();
  std::array<GivenOperand, EpilogueForm::kMostOperands> given{};
  std::array<Range, EpilogueForm::kMostOperands> ranges;
  for (std::size_t slot = 0; slot < count; ++slot) {
    const EpilogueSlot& form = problem.epilogue->operands[slot];
    if (problem.m == 0 && form.use != EpilogueUse::summed) continue;  // not touched
    given[slot] = epilogue_operand(problem, form, call.operands[slot], names[slot].c_str());
    ranges[slot] = check_epilogue_operand(form, given[slot]);
  }
  const auto overlap = [&](const GivenOperand& x, const Range& of_x, const GivenOperand& y,
                           const Range& of_y) {
    if (intersect(of_x, of_y) && share_elements(elements_of(x), elements_of(y)))
      refuse(std::string(x.name) + " overlaps " + y.name +
             ": they share elements, or may, and one of them is written");
  };
  for (std::size_t slot = 0; slot < count; ++slot) {
    const bool writes = problem.epilogue->operands[slot].use != EpilogueUse::read;
    if (!problem.pointers && !is_empty(problem)) {
      const Range of_c = check_pointer(c);
      const bool by_element = problem.epilogue->operands[slot].over == EpilogueOver::elements;
      if (writes || !by_element || !is_c(given[slot], c))
        overlap(given[slot], ranges[slot], c, of_c);
      for (const GivenOperand* read : {&a, &b})
        if (writes && reads_operands(problem, call))
          overlap(given[slot], ranges[slot], *read, check_pointer(*read));
    }
    for (std::size_t other = 0; writes && other < count; ++other)
      if (other != slot) overlap(given[slot], ranges[slot], given[other], ranges[other]);
  }
}

/// Names of operands are made only where the call is refused.
void check_epilogue(const Problem& problem, const Call& call, const GivenOperand& a,
                    const GivenOperand& b, const GivenOperand& c) {
  const std::size_t count = problem.epilogue ? problem.epilogue->operands.size() : 0;
  if (call.operands.size() != count)
    refuse("the call binds " + std::to_string(call.operands.size()) + " operands of an epilogue; " +
           (problem.epilogue ? "\"" + epilogue_text(problem) + "\" has " + std::to_string(count)
                             : "the problem has no epilogue"));
  if (count == 0 || problem.n == 0 || problem.batch == 0) return;
  std::array<std::string, EpilogueForm::kMostOperands> names;
  try {
    return check_epilogue_named(problem, call, a, b, c, names);
  } catch (const Error&) {
    for (std::size_t slot = 0; slot < count; ++slot) names[slot] = operand_name(problem, slot);
  }
  check_epilogue_named(problem, call, a, b, c, names);
}

void check_groups(const Problem& problem, const Call& call) {
  if (!is_grouped(problem))
    refuse("the call has group_rows, and the problem is not grouped: set Problem::grouping");
  if (is_empty(problem)) return;
  if (!call.group_rows)
    refuse("group_rows is a null pointer; a grouped product reads " + number(problem.batch) +
           " numbers there, in device memory");
  if (reinterpret_cast<std::uintptr_t>(call.group_rows) % sizeof(std::int32_t) != 0)
    refuse("the address of group_rows is not a multiple of 4 bytes");
}

}  // namespace

void check_group_rows(const Problem& problem, const Call& call) {
  if (is_empty(problem)) return;
  for (std::int64_t i = 0; i < problem.batch; ++i) {
    const std::int64_t value = call.group_rows[i];
    if (value < 0 || value > most_of(problem))
      refuse("group_rows[" + number(i) + "] is " + number(value) + "; it is 0 to " +
             (problem.grouping == Grouping::depth ? "k = " : "m = ") + number(most_of(problem)));
    if (problem.grouping != Grouping::counts && i > 0 && value < call.group_rows[i - 1])
      refuse("group_rows[" + number(i) + "] is " + number(value) + ", less than group_rows[" +
             number(i - 1) + "], " + number(call.group_rows[i - 1]) +
             "; the ends of the products' rows ascend");
  }
}

bool is_empty(const Problem& problem) {
  return problem.m == 0 || problem.n == 0 || problem.batch == 0;
}

bool reads_operands(const Problem& problem, const Call& call) {
  // Kernels take alpha in the accumulator's type: it is narrowed to f32 if sums are f32.
  const bool zero = problem.accumulator == DType::f32 ? static_cast<float>(call.alpha) == 0.0F
                                                      : call.alpha == 0.0;
  return !is_empty(problem) && problem.k > 0 && (call.alpha_device || !zero);
}

bool writes_c(const Problem& problem, const Call& call) {
  if (is_empty(problem)) return false;
  if (problem.epilogue) return true;
  const bool one =
      problem.accumulator == DType::f32 ? static_cast<float>(call.beta) == 1.0F : call.beta == 1.0;
  return call.beta_device || !one || reads_operands(problem, call);
}

void check_problem(const Problem& problem) {
  if (!product_kind(problem)) {
    Problem same_but_for_types = problem;
    set_types(same_but_for_types, problem.a.type, problem.b.type, problem.c.type,
              problem.math);  // throws, listing the types
    refuse(operands_text(problem.a.type, problem.b.type) + " goes with sums in " +
           std::string(to_string(same_but_for_types.accumulator)) + ", not in " +
           std::string(to_string(problem.accumulator)));
  }
  const auto check = [](const char* name, std::int64_t value) {
    if (value < 0)
      refuse(std::string(name) + " = " + number(value) + " is negative; sizes are 0 or more");
  };
  check("m", problem.m);
  check("n", problem.n);
  check("k", problem.k);
  check("batch", problem.batch);
  if (is_grouped(problem)) [[unlikely]]
    check_grouping(problem);
  if (problem.epilogue) [[unlikely]]
    if (const std::string why = unsupported_scales(problem); !why.empty()) refuse(why);
}

void check_alignment(const Problem& problem) {
  const auto check = [](const char* name, int value, DType type) {
    for (int allowed = bytes_of(type); allowed <= 16; allowed *= 2)
      if (value == allowed) return;
    refuse("the alignment of " + std::string(name) + " is " + std::to_string(value) +
           " bytes; it must be a power of two from " + std::to_string(bytes_of(type)) +
           " (one element) to 16");
  };
  check("A", problem.a.alignment, problem.a.type);
  check("B", problem.b.alignment, problem.b.type);
  check("C", problem.c.alignment, problem.c.type);
}

void check_operand(const Problem& problem, const Call& call, StepRole role) {
  if (problem.pointers)
    refuse(
        "the operands of a batch by pointers cannot be packed once; each product packs for "
        "itself");
  const bool is_a = role == StepRole::pack_a;
  const GivenOperand x = is_a ? operand_a(problem, call) : operand_b(problem, call);
  check_problem(problem);
  check_leading_dimension(x, is_a ? "a" : "b");
  check_stride(x);
  if (x.rows > 0 && x.columns > 0 && problem.batch > 0) check_pointer(x);
}

void check_call(const Problem& problem, const Call& call) {
  check_problem(problem);
  const GivenOperand a = operand_a(problem, call), b = operand_b(problem, call),
                     c = operand_c(problem, call);
  check_leading_dimension(a, "a");
  check_leading_dimension(b, "b");
  check_leading_dimension(c, "c");
  if (!problem.pointers) {
    check_stride(a);
    check_stride(b);
    check_stride(c);
  }
  if (problem.epilogue || !call.operands.empty()) [[unlikely]]
    check_epilogue(problem, call, a, b, c);
  if (is_grouped(problem) || call.group_rows) [[unlikely]]
    check_groups(problem, call);
  if (!(call.accuracy >= 0 && call.accuracy <= 1)) [[unlikely]]
    throw Error(ErrorKind::invalid_argument,
                "accuracy = " + in_digits(call.accuracy, 3) + "; allowed is 0 to 1");
  if (is_empty(problem)) return;

  if (!problem.pointers) check_batches_of_c(c);
  if (problem.accumulator == DType::i32) {
    check_whole("alpha", call.alpha_device, call.alpha);
    check_whole("beta", call.beta_device, call.beta);
  }
  check_scalar("alpha", call.alpha_device, problem.accumulator);
  check_scalar("beta", call.beta_device, problem.accumulator);
  if (problem.pointers) return check_by_pointers(a, b, c, problem, call);
  const Range written = check_pointer(c);
  if (!reads_operands(problem, call)) return;
  check_packed(a, call.packed_a, StepRole::pack_a);
  check_packed(b, call.packed_b, StepRole::pack_b);
  for (const GivenOperand* read : {&a, &b})
    if (intersect(written, check_pointer(*read)) &&
        share_elements(elements_of(c), elements_of(*read)))
      refuse("C overlaps " + std::string(read->name) +
             ": they share elements, or may; C must share no element with A or B");
}

/// The alignment of a batch by pointers: the problem's alignment, reduced to that of the leading
/// dimensions.
Alignment alignment_by_pointers(const Problem& problem, const Call& call) {
  const auto of = [](int address, std::int64_t ld, DType type) {
    return common_alignment(
        {static_cast<std::uint64_t>(address), static_cast<std::uint64_t>(bytes_of(type, ld))});
  };
  return {of(problem.a.alignment, call.lda, problem.a.type),
          of(problem.b.alignment, call.ldb, problem.b.type),
          of(problem.c.alignment, call.ldc, problem.c.type)};
}

bool is_far(const Problem& problem, const Call& call) {
  const std::int64_t rows = call.lda | call.ldb | call.ldc;
  if (problem.batch == 1 || problem.pointers) return rows >= kFarElements;
  const auto of = [](std::int64_t matrices, std::int64_t stride) {
    return matrices == 1 ? 0 : stride;
  };
  return (rows | of(matrices_a(problem), call.stride_a) | of(matrices_b(problem), call.stride_b) |
          of(matrices_c(problem), call.stride_c)) >= kFarElements;
}

Alignment call_alignment(const Problem& problem, const Call& call) {
  if (problem.pointers) return alignment_by_pointers(problem, call);
  Alignment alignment{alignment_of(operand_a(problem, call)),
                      alignment_of(operand_b(problem, call)),
                      alignment_of(operand_c(problem, call))};
  if (rows_begin_anywhere(problem)) alignment.a = bytes_of(problem.a.type);
  return alignment;
}

}  // namespace tilewise
