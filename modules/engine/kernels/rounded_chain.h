// Elementwise chains over images in channel blocks, of which a result is stored in bfloat16 as convolutions with AMX read
// it.
#pragma once
#include "bfloat.h"
#include "conv_blocked.h"
#include "elementwise.h"
#if defined(__AVX512BW__)

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
namespace rounded_chains {

inline constexpr long lanes = width<float>, pair_bytes = 4 * lanes;  // of a pixel of a pair of blocks

/// Rounds pixels of a block to those of its half of a pair; with `alone`, zeros are in the other half.
LAMINA_INLINE void round_pixels(const float* from, long pixels, bool alone, char* to) {
  if (alone) {
    LAMINA_NO_UNROLL for (long i = 0; i < pixels; ++i, from += lanes, to += pair_bytes)
        _mm512_storeu_si512(to, bfloat_dots::narrowed(load(from), zero<float>()));
    return;
  }
  LAMINA_NO_UNROLL for (long i = 0; i < pixels; ++i, from += lanes, to += pair_bytes)
      bfloat_dots::put(reinterpret_cast<std::uint16_t*>(to), load(from));
}

LAMINA_COMPACT void run(const chain_rounded_args& args, char* scratch) {
  const chain_args& whole = args.chain;
  const long images = whole.extent[1], blocks = whole.extent[2], row = whole.extent[3], pixels = row / lanes;
  const long image_bytes = (args.blocks + 1) / 2 * pixels * pair_bytes;
  float* const held = reinterpret_cast<float*>(scratch + chain_scratch_bytes);
  chain_args part = whole;
  part.extent[0] = part.extent[1] = part.extent[2] = 1;
  for (long n = 0; n < images; ++n)
    for (long b = 0; b < blocks; ++b) {
      const long block = args.first_block + b;
      char* const pair =
          static_cast<char*>(args.out) + n * image_bytes + b / 2 * pixels * pair_bytes + b % 2 * (pair_bytes / 2);
      for (long at = 0; at < row; at += rounded_piece) {
        part.extent[3] = row - at < rounded_piece ? row - at : rounded_piece;
        for (int o = 0; o < whole.operand_count; ++o) {
          const chain_operand& x = whole.operand[o];
          part.operand[o].data = o == args.operand ? reinterpret_cast<char*>(held)
                                                   : static_cast<char*>(x.data) + n * x.outer[1] + b * x.outer[2] +
                                                         (x.inner > 0 ? at * x.size : 0);
        }
        args.chain_run(&part, scratch);
        round_pixels(held, part.extent[3] / lanes, block % 2 == 0 && block + 1 == args.blocks,
                     pair + at / lanes * pair_bytes);
      }
    }
}

}  // namespace rounded_chains
}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
#endif
