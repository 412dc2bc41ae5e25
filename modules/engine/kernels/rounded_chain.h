// Elementwise chains over images in channel blocks, of which a result is stored in bfloat16 as convolutions with AMX read
// it.
#pragma once
#include "bfloat_amx.h"
#include "elementwise.h"
#if defined(__AVX512BW__)

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
namespace rounded_chains {

/// Rounds pixels of a block to those of its half of a pair; with `alone`, zeros are in the other half.
LAMINA_INLINE void round_pixels(const float* from, long pixels, bool alone, char* to) {
  if (alone) return blocked::join_blocks(from, nullptr, pixels, reinterpret_cast<std::uint16_t*>(to));
  LAMINA_NO_UNROLL for (long i = 0; i < pixels; ++i, from += blocked::block, to += blocked::pixel_bytes)
      bfloat_dots::put(reinterpret_cast<std::uint16_t*>(to), load(from));
}

LAMINA_COMPACT void run(const chain_rounded_args& args, char* scratch) {
  const chain_args& whole = args.chain;
  const long images = whole.extent[1], blocks = whole.extent[2], row = whole.extent[3], pixels = row / blocked::block;
  float* const held = reinterpret_cast<float*>(scratch + chain_scratch_bytes);
  chain_args part = whole;
  part.extent[0] = part.extent[1] = part.extent[2] = 1;
  for (long n = 0; n < images; ++n)
    for (long b = 0; b < blocks; ++b) {
      const long block = args.first_block + b;
      char* const to = static_cast<char*>(args.out) +
                       blocked::maps_before(true, n, args.blocks) * pixels * blocked::pixel_bytes +
                       blocked::place_of(true, b, pixels);
      for (long at = 0; at < row; at += rounded_piece) {
        part.extent[3] = row - at < rounded_piece ? row - at : rounded_piece;
        for (int o = 0; o < whole.operand_count; ++o) {
          const chain_operand& x = whole.operand[o];
          part.operand[o].data = o == args.operand ? reinterpret_cast<char*>(held)
                                                   : static_cast<char*>(x.data) + n * x.outer[1] + b * x.outer[2] +
                                                         (x.inner > 0 ? at * x.size : 0);
        }
        args.chain_run(&part, scratch);
        round_pixels(held, part.extent[3] / blocked::block, block % 2 == 0 && block + 1 == args.blocks,
                     to + at / blocked::block * blocked::pixel_bytes);
      }
    }
}

}  // namespace rounded_chains
}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
#endif
