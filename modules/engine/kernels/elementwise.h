// Elementwise chains: micro-operations on runs of elements, and the driver that runs a chain by tiles that fit in L1.
#pragma once
#include "micro.h"
#include "reduce.h"

namespace lamina::kernels {

/// One micro-operation over `n` elements.  Bit i of `steps` set: operand i advances; clear: it is one repeated element.
/// `out` may alias an operand that advances and has the same element size.
using map_function = void (*)(const void* a, const void* b, const void* c, void* out, long n, unsigned steps) noexcept;

/// The micro-operations. `where` takes (bool, x, y); `copy` and `where` move any element.
#define LAMINA_NAME(name) name,
enum class map_op : std::int32_t { LAMINA_MICRO_OPERATIONS(LAMINA_NAME) where, copy };
#undef LAMINA_NAME
inline constexpr int map_op_count = static_cast<int>(map_op::copy) + 1;

/// Rounding to a power of two (e8m0).
enum class power_rounding : std::int32_t { up, down, nearest };
/// Column of `cast_table` for a conversion: the target type, or an extra column after all types if the conversion does
/// not saturate or uses another rounding than `up`.
constexpr int cast_column(element to, bool saturate, power_rounding rounding) {
  const int e = static_cast<int>(to), first = static_cast<int>(element::e4m3fn);
  if (to == element::e8m0 && (!saturate || rounding != power_rounding::up))
    return stored_element_count + 3 + 2 * static_cast<int>(rounding) + (saturate ? 0 : 1);
  return !saturate && e >= first && to <= element::e5m2fnuz ? stored_element_count + e - first : e;
}
inline constexpr int cast_columns = stored_element_count + 9;
/// Conversions [from][cast_column(to...)]. Float to integer truncates toward zero and saturates, NaN gives 0; integers
/// of fewer than 8 bits wrap; to bool: != 0. Null if the conversion takes two casts, through `cast_between`.
using cast_table = map_function[stored_element_count][cast_columns];
/// Whether a type is a `small_float` of stored.h: floating-point of at most 8 bits, all but e8m0.
constexpr bool is_small_float(element e) {
  return (e >= element::e4m3fn && e <= element::e5m2fnuz) || e == element::e2m1;
}
/// Intermediate type of a conversion that has no function of its own: one that represents all values of `from`. Toward
/// small floats it is double, which rounds only integers above their largest value.
constexpr element cast_between(element from, element to) {
  const bool integer = (from >= element::i8 && from <= element::u64) || from >= element::i4;
  return integer && !is_small_float(to) ? element::i64 : element::f64;
}
/// Whether a single function converts between two types.
constexpr bool casts_at_once(element from, element to) {
  const auto computed = [](element e) { return e <= element::boolean; };
  const auto same_bits = [&](element a, element b) { return (from == a && to == b) || (from == b && to == a); };
  return (computed(from) && computed(to)) || (from == element::u64 && !is_small_float(to)) ||
         from == cast_between(from, to) || to == cast_between(from, to) || to == element::f64 || from == to ||
         same_bits(element::i4, element::u4) || same_bits(element::i2, element::u2);
}

inline constexpr long chain_tile = 512;  // elements per tile
inline constexpr int chain_operands = 16, chain_steps = 32, chain_axes = 4, chain_temporaries = 8;
inline constexpr int register_steps = 64;

/// A tensor that a chain reads or writes: address, bytes per element and byte strides of the three outer axes. `inner`:
/// the innermost axis advances (1), repeats one element (0), or repeats the first -inner elements (below 0), which fill
/// a register of floats; the extent of the axis is then a multiple of -inner.
struct chain_operand {
  void* data;
  long outer[chain_axes - 1];
  std::int32_t size, inner;
};
/// A micro-operation of a chain. Slots: 0..15 are operands, 16..23 temporaries of `chain_tile` elements of 8 bytes, -1
/// none.  `op` and `type` identify `run` if it is one of `map_functions`.
struct chain_step {
  map_function run;
  std::int8_t in[3], out;
  map_op op : 16;
  element type : 16;
};

/// Form of a step of a register chain; x and y are slots (arbitrary if unused), a is the value in the registers.
enum class chain_form : std::uint8_t {
  load,           // a = x
  unary,          // a = op(a)
  binary,         // a = a op x
  reversed,       // a = x op a
  raise,          // a = clamp(a, x, infinity)
  lower,          // a = clamp(a, -infinity, x)
  both,           // a = x op y: add, subtract, multiply
  onto,           // a = a op (x inner y): add, subtract, multiply
  reversed_onto,  // a = (x inner y) op a
  store,          // x = a
};
/// The code of a step of a register chain, with a type-erased signature.
using register_function = void (*)() noexcept;
struct register_step {
  register_function run;  // of the generic forms unary, binary and reversed; null: the form implies the code
  chain_form form;
  std::uint8_t op, inner;  // of map_op
  std::int8_t x, y;
};

/// Runs the steps over extent[0] x extent[1] x extent[2] outer positions of extent[3] contiguous elements.
///
/// A register chain, if present, describes the same computation with values kept in registers: it runs the whole blocks
/// of a row; remainders and short rows run step by step.  All its operands have type `register_type`.  `streamed` has a
/// bit for each operand to write past the caches: the register chain writes it, no step reads it, and no cache could
/// hold it.
struct chain_args {
  long extent[chain_axes];
  std::int32_t operand_count, step_count, register_count;
  element register_type;
  std::uint32_t streamed;
  chain_operand operand[chain_operands];
  chain_step step[chain_steps];
  register_step register_chain[register_steps];
  template <class F> void each_code(F f) const {
    for (int i = 0; i < step_count; ++i) f(step[i].run);
    for (int i = 0; i < register_count; ++i) f(register_chain[i].run);
  }
};
/// Minimum size in bytes of a result that is streamed.
inline constexpr long streamed_bytes = 16 << 20;

/// The temporaries, and one block per operand that gathers short rows.
inline constexpr std::size_t chain_scratch_bytes = (chain_temporaries + chain_operands) * chain_tile * 8;

/// A chain over images in channel blocks [1][images][blocks][pixels of a block], of which one operand, a result, is stored
/// rounded to bfloat16 in pairs of blocks (see `conv_blocked_args`). The blocks begin a pair.
struct chain_rounded_args {
  chain_args chain;
  kernel chain_run;
  void* out;                 // of the first block of the first image
  long blocks, first_block;  // of an image; of this call
  std::int32_t operand, pad;
  template <class F> void each_code(F f) const { f(chain_run), chain.each_code(f); }
};
/// Numbers of a result that are computed before they are rounded.
inline constexpr long rounded_piece = 4096;
inline constexpr std::size_t chain_rounded_scratch_bytes = chain_scratch_bytes + rounded_piece * 4;

/// A chain of which one operand, a result that advances along rows, is added up: a sum for each row, with the bits that
/// `sum_run` gives for the whole row. An operand that no later operation reads has no memory of its own.
struct chain_sum_args {
  chain_args chain;
  kernel chain_run, sum_run;   // sum_run: args reduce_args
  void* out;                   // [extent 0][extent 1][extent 2], of the operand's type
  long outer[chain_axes - 1];  // bytes of `out` between positions of each outer axis
  element type;                // f32 or f64
  std::int32_t operand;
  std::int32_t has_memory, pad;
  template <class F> void each_code(F f) const { f(chain_run), f(sum_run), chain.each_code(f); }
};
inline constexpr std::size_t chain_sum_scratch_bytes = chain_scratch_bytes + sum_block * 8;

/// A single micro-operation over contiguous memory: replaces a chain of one step without broadcasting.
struct map_args {
  map_function run;
  const void* in[3];
  void* out;
  long n;
  unsigned steps;
  template <class F> void each_code(F f) const { f(run); }
};

struct elementwise_functions {
  kernel chain;      // args: chain_args, scratch: chain_scratch_bytes
  kernel map;        // args: map_args, no scratch
  kernel chain_sum;  // args: chain_sum_args, scratch: chain_sum_scratch_bytes
};
LAMINA_FAMILY(elementwise_functions, elementwise);

/// Functions of a micro-operation; a program links only the operations that it names.
struct map_functions {
  map_op op;
  /// By element type of the operands that are not bool; null for unsupported types.
  map_function of[element_count]{};
  /// Steps of register chains of [f32, f64]; `reversed` takes the register value as last operand. Null: unsupported.
  register_function registers[2]{}, reversed[2]{};
  /// f32 variant with a shorter dependency chain and a few ulp more error, for gates of recurrent cells; null: none.
  map_function low_latency = nullptr;
  /// Replaces `of` if the function depends on two element types; else null.
  const cast_table* casts = nullptr;
};
#define LAMINA_DECLARE(name) LAMINA_FAMILY(map_functions, map_##name);
LAMINA_MICRO_OPERATIONS(LAMINA_DECLARE)
LAMINA_DECLARE(where)
LAMINA_DECLARE(copy)
LAMINA_DECLARE(cast)
#undef LAMINA_DECLARE

}  // namespace lamina::kernels
