// The driver of elementwise chains: iterates over outer positions and tiles of the innermost axis, and calls each step
// on a tile.
//
// If the chain has a register chain, whole blocks of a row go through registers, and only the rest is split into tiles.
//
// Short rows are processed many at a time to save calls: operands with contiguous rows are used in place, the others
// are first copied row by row to a contiguous block. If all rows along the third axis are short together, a block has
// those of several outer positions.
#pragma once
#include "fold_axis.h"
#include "register_chain.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
namespace chains {

inline constexpr int slots = chain_operands + chain_temporaries;
inline constexpr int nothing = slots;  // the slot of absent inputs
inline constexpr long short_row = 96, block_elements = chain_tile - 8;

/// A step with its slots as array indices, valid also for absent inputs.
struct prepared_step {
  map_function run;
  int in[3], out;
  unsigned steps;
};
struct prepared {
  prepared_step step[chain_steps];
  char* address[slots + 1];
  unsigned advancing, periodic, written, read_first;  // bits by operand
  bool ready;                                         // the steps are prepared
};

/// Prepares the steps for tiles; whole rows of a register chain never need them.
inline void prepare_steps(prepared& p, const chain_args& args) {
  p.ready = true;
  p.written = p.read_first = 0;
  for (int s = 0; s < args.step_count; ++s) {
    const chain_step& from = args.step[s];
    prepared_step& to = p.step[s];
    to.run = from.run;
    to.steps = 0;
    for (int i = 0; i < 3; ++i) {
      const int slot = from.in[i];
      to.in[i] = slot < 0 ? nothing : slot;
      if (slot < 0) continue;
      if (slot >= chain_operands || ((p.advancing | p.periodic) >> slot & 1u) != 0) to.steps |= 1u << i;
      if (slot < chain_operands && (p.written >> slot & 1u) == 0) p.read_first |= 1u << slot;
    }
    to.out = from.out;
    if (from.out < chain_operands) p.written |= 1u << from.out;
  }
}
LAMINA_INLINE void prepare(prepared& p, unsigned advancing, unsigned periodic, char* scratch) {
  p.advancing = advancing;
  p.periodic = periodic;
  p.ready = false;
  LAMINA_UNROLL for (int t = 0; t < chain_temporaries; ++t) p.address[chain_operands + t] =
      scratch + t * (chain_tile * 8);
  p.address[nothing] = nullptr;
}

LAMINA_INLINE void run_steps(const prepared& p, int count, long n) {
  for (int s = 0; s < count; ++s) {
    const prepared_step& step = p.step[s];
    step.run(p.address[step.in[0]], p.address[step.in[1]], p.address[step.in[2]], p.address[step.out], n, step.steps);
  }
}
/// Runs a chain on `n` elements at the current addresses, and advances these.
inline void run_row(const chain_args& args, prepared& p, char* blocks, long n) {
  const auto advance = [&](long by) {
    for (int o = 0; o < args.operand_count; ++o)
      if ((p.advancing >> o & 1u) != 0) p.address[o] += by * args.operand[o].size;
  };
  if (args.register_count != 0) {
    const long done = args.register_type == element::f32
                          ? register_chains::run<float>(args, p.address, p.advancing, blocks, n)
                          : register_chains::run<double>(args, p.address, p.advancing, blocks, n);
    if (done != 0) advance(done);
    n -= done;
  }
  if (n <= 0) return;
  if (!p.ready) prepare_steps(p, args);
  for (; n > chain_tile; n -= chain_tile) {
    run_steps(p, args.step_count, chain_tile);
    advance(chain_tile);
  }
  run_steps(p, args.step_count, n);
}

LAMINA_INLINE char* position(const chain_operand& operand, long i, long j, long k) {
  return static_cast<char*>(operand.data) + i * operand.outer[0] + j * operand.outer[1] + k * operand.outer[2];
}

/// Expands elements that repeat along a row, for one tile.
inline char* repeated(const chain_operand& operand, const char* from, long row, char* to) {
  const long bytes = -operand.inner * operand.size, all = (row < chain_tile ? row : chain_tile) * operand.size;
  for (long at = 0; at < all; at += bytes) __builtin_memcpy(to + at, from, static_cast<std::size_t>(bytes));
  return to;
}
/// Runs long rows, one after the other.
inline void long_rows(const chain_args& args, prepared& p, char* blocks) {
  for (long i = 0; i < args.extent[0]; ++i)
    for (long j = 0; j < args.extent[1]; ++j)
      for (long k = 0; k < args.extent[2]; ++k) {
        for (int o = 0; o < args.operand_count; ++o) {
          p.address[o] = position(args.operand[o], i, j, k);
          if ((p.periodic >> o & 1u) != 0)
            p.address[o] = repeated(args.operand[o], p.address[o], args.extent[3], blocks + o * (chain_tile * 8));
        }
        run_row(args, p, blocks, args.extent[3]);
      }
  if (args.streamed != 0) fence_streamed();
}

/// Copies `rows` rows of `row` elements to a contiguous block; `inner` 0 repeats an element.
template <class Word>
LAMINA_INLINE void lay_out(const char* from, long stride, int inner, long rows, long row, char* to) {
  Word* out = reinterpret_cast<Word*>(to);
  for (long r = 0; r < rows; ++r, from += stride, out += row) {
    const Word* in = reinterpret_cast<const Word*>(from);
    if (inner != 0) {
      LAMINA_INDEPENDENT for (long i = 0; i < row; ++i) out[i] = in[i];
    } else {
      const Word value = *in;
      LAMINA_INDEPENDENT for (long i = 0; i < row; ++i) out[i] = value;
    }
  }
}
inline void lay_out(const chain_operand& operand, const char* from, long rows, long row, char* to) {
  const long stride = operand.outer[2];
  switch (operand.size) {
    case 1: return lay_out<std::uint8_t>(from, stride, operand.inner, rows, row, to);
    case 2: return lay_out<std::uint16_t>(from, stride, operand.inner, rows, row, to);
    case 4: return lay_out<std::uint32_t>(from, stride, operand.inner, rows, row, to);
    default: return lay_out<std::uint64_t>(from, stride, operand.inner, rows, row, to);
  }
}
inline void spread_back(const chain_operand& operand, const char* from, long rows, long row, char* to) {
  const long bytes = row * operand.size;
  for (long r = 0; r < rows; ++r)
    __builtin_memcpy(to + r * operand.outer[2], from + r * bytes, static_cast<std::size_t>(bytes));
}

/// Runs short rows, in blocks of whole rows along the third axis.
inline void short_rows(const chain_args& args, prepared& p, unsigned direct, char* blocks) {
  const int operands = args.operand_count;
  const long row = args.extent[3], max = block_elements / row;
  const char* held[chain_operands] = {};  // source of a block of repeated rows
  for (long i = 0; i < args.extent[0]; ++i)
    for (long j = 0; j < args.extent[1]; ++j)
      for (long k = 0; k < args.extent[2]; k += max) {
        const long rows = args.extent[2] - k < max ? args.extent[2] - k : max;
        for (int o = 0; o < operands; ++o) {
          const chain_operand& operand = args.operand[o];
          char* const here = position(operand, i, j, k);
          if ((direct >> o & 1u) != 0) {
            p.address[o] = here;
            continue;
          }
          p.address[o] = blocks + o * (chain_tile * 8);
          if ((p.written >> o & 1u) != 0 && (p.read_first >> o & 1u) == 0) continue;
          const bool repeated = operand.outer[2] == 0 && (p.written >> o & 1u) == 0;
          if (repeated && held[o] == here) continue;
          held[o] = here;
          // repeated rows fill the whole block, so that later iterations reuse it
          lay_out(operand, here, repeated ? max : rows, row, p.address[o]);
        }
        char* laid[chain_operands];
        for (int o = 0; o < operands; ++o) laid[o] = p.address[o];
        run_row(args, p, blocks, rows * row);
        for (int o = 0; o < operands; ++o)
          if ((p.written >> o & 1u) != 0 && (direct >> o & 1u) == 0)
            spread_back(args.operand[o], laid[o], rows, row, position(args.operand[o], i, j, k));
      }
}

/// The same where all rows along the third axis make a short block, a plane: many planes at a time.
inline void short_planes(const chain_args& args, prepared& p, unsigned direct, char* blocks) {
  const int operands = args.operand_count;
  const long row = args.extent[3], rows = args.extent[2], plane = rows * row, max = block_elements / plane,
             planes = args.extent[0] * args.extent[1];
  const auto at_plane = [&](const chain_operand& operand, long at) {
    return position(operand, at / args.extent[1], at % args.extent[1], 0);
  };
  const char* held[chain_operands] = {};  // source of a block of repeated planes
  for (long first = 0; first < planes; first += max) {
    const long count = planes - first < max ? planes - first : max;
    for (int o = 0; o < operands; ++o) {
      const chain_operand& operand = args.operand[o];
      char* const here = at_plane(operand, first);
      if ((direct >> o & 1u) != 0) {
        p.address[o] = here;
        continue;
      }
      char* const block = blocks + o * (chain_tile * 8);
      p.address[o] = block;
      if ((p.written >> o & 1u) != 0 && (p.read_first >> o & 1u) == 0) continue;
      const bool repeated = operand.outer[0] == 0 && operand.outer[1] == 0 && (p.written >> o & 1u) == 0;
      if (repeated && held[o] == here) continue;
      held[o] = here;
      for (long b = 0; b < (repeated ? max : count); ++b)
        lay_out(operand, repeated ? here : at_plane(operand, first + b), rows, row, block + b * plane * operand.size);
    }
    char* laid[chain_operands];
    for (int o = 0; o < operands; ++o) laid[o] = p.address[o];
    run_row(args, p, blocks, count * plane);
    for (int o = 0; o < operands; ++o) {
      const chain_operand& operand = args.operand[o];
      if ((p.written >> o & 1u) == 0 || (direct >> o & 1u) != 0) continue;
      for (long b = 0; b < count; ++b)
        spread_back(operand, laid[o] + b * plane * operand.size, rows, row, at_plane(operand, first + b));
    }
  }
}

inline void run(const chain_args& args, char* scratch) {
  prepared p;
  unsigned advancing = 0, periodic = 0, constant = 0, contiguous = 0;
  const long row = args.extent[3];
  char* const blocks = scratch + chain_temporaries * (chain_tile * 8);
  if (row <= 0) return;
  for (int o = 0; o < args.operand_count; ++o) {
    const chain_operand& operand = args.operand[o];
    if (operand.inner > 0) advancing |= 1u << o;
    if (operand.inner < 0) periodic |= 1u << o;
    if (operand.inner == 0 && operand.outer[2] == 0) constant |= 1u << o;
    if (operand.inner != 0 && operand.outer[2] == row * operand.size) contiguous |= 1u << o;
  }
  if (row >= short_row || args.extent[2] < 2 || periodic != 0) {
    prepare(p, advancing, periodic, scratch);
    return long_rows(args, p, blocks);
  }
  if (args.extent[0] * args.extent[1] > 1 && 4 * row * args.extent[2] <= block_elements) {
    for (int o = 0; o < args.operand_count; ++o) {
      const chain_operand& operand = args.operand[o];
      const long plane = args.extent[2] * row * operand.size;
      if (operand.outer[0] != 0 || operand.outer[1] != 0) constant &= ~(1u << o);
      if (operand.outer[1] != plane || (args.extent[0] > 1 && operand.outer[0] != args.extent[1] * plane))
        contiguous &= ~(1u << o);
    }
    prepare(p, ~constant, 0, scratch);
    prepare_steps(p, args);
    return short_planes(args, p, constant | contiguous, blocks);
  }
  prepare(p, ~constant, 0, scratch);
  prepare_steps(p, args);
  short_rows(args, p, constant | contiguous, blocks);
}

/// Runs a chain block by block of its rows, adds up each block of one result while it is in cache, and adds the sums of
/// a row's blocks as a reduction does.
template <class T> void run_and_sum(const chain_sum_args& args, char* scratch) {
  chain_args part = args.chain;
  const long(&extent)[chain_axes] = args.chain.extent;
  char* const held = scratch + chain_scratch_bytes;
  for (int axis = 0; axis + 1 < chain_axes; ++axis) part.extent[axis] = 1;
  for (long i = 0; i < extent[0]; ++i)
    for (long j = 0; j < extent[1]; ++j)
      for (long k = 0; k < extent[2]; ++k) {
        char* const to = static_cast<char*>(args.out) + i * args.outer[0] + j * args.outer[1] + k * args.outer[2];
        *reinterpret_cast<T*>(to) = folds::blocks_of_row<folds::sum, T>(extent[3], [&](long at, long count) {
          part.extent[3] = count;
          for (int o = 0; o < args.chain.operand_count; ++o) {
            const chain_operand& operand = args.chain.operand[o];
            const bool is_held = o == args.operand && args.has_memory == 0;
            part.operand[o].data = is_held ? held : position(operand, i, j, k) + at * operand.inner * operand.size;
          }
          args.chain_run(&part, scratch);
          T sum;
          const reduce_args of{part.operand[args.operand].data, &sum, 1, count, 1};
          args.sum_run(&of, nullptr);
          return sum;
        });
      }
}

}  // namespace chains
}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
