// A convolution in channel blocks fused with a pool or depthwise convolution over its results: each band of rows is
// computed and consumed before the next, so that intermediate results stay in cache. Rows that the windows of the next
// band read again are kept.
#pragma once
#include "conv_blocked.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
namespace blocked {

/// Calls take(window, first row, channel block, offset) for each band and block: the window treats the band as a
/// separate map, and the offset is that of its first result among all.
template <class Take> LAMINA_COMPACT void in_bands(const conv_bands& a, void* scratch, Take take) {
  const window& w = a.maps;
  const long line = w.width * block, blocks = divide_up(w.channels, block), plane = a.rows_held() * line;
  float* const band = static_cast<float*>(scratch);
  void* const rest = static_cast<char*>(scratch) + a.bytes;
  const long first = a.first_band * a.rows, end = smaller(first + a.bands * a.rows, w.height);
  for (long n = a.first; n < a.first + a.count; ++n) {
    long row = first ? a.results_of(first) : 0, made = first - a.rows_before(first), kept = 0;
    while (made < end) {
      const long count = made < first ? first - made : smaller(a.rows, end - made);
      const int which = made < first ? conv_bands::above : count == a.rows ? conv_bands::whole : conv_bands::rest;
      conv_blocked_args conv = a.conv[which];
      conv.in += n * a.in_image;
      if (conv.decision[is_flat] && !conv.decision[winograd_together])
        conv.in += made * w.width * (conv.planar_in ? 1 : block);
      else conv.w.pad_h -= made * conv.w.stride_h;
      conv.w.out_height = a.rows_held();
      conv.out = band + kept * line;
      a.run[which](&conv, rest);
      made += count;
      kept += count;
      const long results = a.results_of(made) - row;
      if (results <= 0) continue;
      // Row 0 of the band is row `made - kept` of the map.
      const long top = row * w.stride_h - w.pad_h;
      window held = w;
      held.channels = held.out_channels = held.groups = block;
      held.height = kept;
      held.out_height = results;
      held.pad_h = made - kept - top;
      held.more_h = w.pad_h + w.more_h - held.pad_h;
      for (long o = 0; o < blocks; ++o)
        take(held, band + o * plane, o, ((n * blocks + o) * w.out_height + row) * w.out_width * block);
      row += results;
      const long again = smaller(larger(made - (row * w.stride_h - w.pad_h), 0), kept);
      if (again > 0 && made < end) {
        for (long o = 0; o < blocks; ++o)
          __builtin_memmove(band + o * plane, band + o * plane + (kept - again) * line,
                            static_cast<std::size_t>(again * line) * sizeof(float));
      }
      kept = again;
    }
  }
}

}  // namespace blocked
}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
