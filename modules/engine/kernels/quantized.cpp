// Kernels of quantized tensors for one instruction set.
#include "quantized.h"

#include "block_linear.h"
#include "quantized_amx.h"
#include "quantized_blocked.h"
#include "quantized_blocked_amx.h"
#include "quantized_conv.h"
#include "quantized_depthwise.h"
#include "quantized_depthwise_lanes.h"
#include "quantized_depthwise_words.h"
#include "quantized_images.h"
#include "quantized_table.h"
#include "quantized_winograd.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
namespace {

using namespace quantized;

// ---- float <-> int8 -------------------------------------------------------------------------------------------------

LAMINA_INLINE std::int8_t quantized_number(float x, float scale, float low, float high, std::int32_t zero_point) {
  float v = x / scale;
  v = v == v ? v : 0.f;
  v = v < low ? low : v;
  v = v > high ? high : v;
  return static_cast<std::int8_t>(static_cast<std::int32_t>(rounded(v)) + zero_point);
}

// ---- linear ---------------------------------------------------------------------------------------------------------

/// Rows whose words are packed together, and for how many there is memory, a multiple of the rows that tiles read.
template <class Form> inline constexpr long rows_at_once = 48;
template <class Form> constexpr long rows_held(long count) {
  return count < rows_at_once<Form> ? count : rows_at_once<Form>;
}
#if defined(__AVX512BW__)
template <> inline constexpr long rows_at_once<by_tiles> = 128;
template <> constexpr long rows_held<by_tiles>(long count) {
  return parts_of(count < rows_at_once<by_tiles> ? count : rows_at_once<by_tiles>, amx::tile_rows) * amx::tile_rows;
}
#endif

template <class Form> struct linear_layout {
  panel_layout<Form> panels;
  long row;  // bytes of a row of words
  std::size_t rows, bytes;
  explicit linear_layout(long count, long columns, long depth)
      : panels(parts_of(depth, Form::numbers)),
        row((panels.words * 4 + 63) / 128 * 128 + 64),
        rows(factor_bytes(columns)),
        bytes(rows + static_cast<std::size_t>(rows_held<Form>(count) * row) + 64) {}
};

/// Packs the words [word, words) of a panel, one number at a time; adds to the sums of its columns.
template <class Form> LAMINA_INLINE void pack_words(const quantized_linear_pack_args& a, long first, long word,
                                                    long words, std::int8_t* packed, std::int32_t* sums) {
  for (long k = word * Form::numbers; k < words * Form::numbers; ++k)
    for (long c = 0; c < panel_columns; ++c) {
      const long o = first + c;
      const std::int8_t v =
          o < a.columns && k < a.depth ? a.w[o * a.w_column + k * a.w_depth] : static_cast<std::int8_t>(0);
      packed[(k / Form::numbers * panel_columns + c) * Form::numbers + k % Form::numbers] = v;
      sums[c] += v;
    }
}
template <class Form> LAMINA_INLINE void pack_linear(const quantized_linear_pack_args& args) {
  const quantized_linear_pack_args a = args;
  const linear_layout<Form> to(1, a.columns, a.depth);
  constexpr long numbers = Form::numbers;
  for (long p = 0; p < panels_of(a.columns); ++p) {
    std::int8_t* packed = a.packed + p * to.panels.step;
    std::int32_t sums[panel_columns] = {};
    const long first = p * panel_columns;
    long whole = a.columns - first >= panel_columns ? a.depth / numbers : 0;  // words without padding
    if (a.w_column == 1 && whole) {
      sums16 all{};
      for (long word = 0; word < whole; ++word) {
        const std::int8_t* w = a.w + first + word * numbers * a.w_depth;
        write(packed + word * panel_columns * numbers,
              interleaved<Form>([&](int k) { return read<bytes16>(w + k * a.w_depth); }));
        LAMINA_UNROLL for (long k = 0; k < numbers; ++k) all +=
            __builtin_convertvector(read<bytes16>(w + k * a.w_depth), sums16);
      }
      write(sums, all);
    } else if (a.w_depth == 1 && whole) {
      for (long c = 0; c < panel_columns; ++c) {
        const std::int8_t* w = a.w + (first + c) * a.w_column;
        std::int32_t sum = 0;
        for (long word = 0; word < whole; ++word)
          std::memcpy(packed + (word * panel_columns + c) * numbers, w + word * numbers, numbers);
        for (long k = 0; k < whole * numbers; ++k) sum += w[k];
        sums[c] = sum;
      }
    } else whole = 0;
    pack_words<Form>(a, first, whole, to.panels.words, packed, sums);
    std::memcpy(packed + to.panels.sums(), sums, sizeof sums);
    to.panels.put_order(packed);
  }
}

/// Calls each(row, rows, panel, panels, sums) for the rows of x; packs their words in `memory`.
template <class Form, class Each> LAMINA_INLINE void linear_tiles(const linear_layout<Form>& has, long count,
                                                                  long columns, long depth, const std::int8_t* from_x,
                                                                  long x_row, const std::int8_t* packed,
                                                                  std::int8_t* memory, Each each) {
  constexpr long step = 16 * Form::numbers;
  constexpr long at_once = rows_at_once<Form>;
  for (long first = 0; first < count; first += at_once) {
    const long rows = count - first < at_once ? count - first : at_once;
    const std::int8_t* x[at_once];
    for (long r = 0; r < rows; ++r) {
      const std::int8_t* from = from_x + (first + r) * x_row;
      std::int8_t* to = memory + has.rows + r * has.row;
      x[r] = to;
      long k = 0;
      for (; k + step <= depth; k += step, to += 64) put_words<Form>(to, from + k);
      if (k < depth) {
        std::int8_t last[step] = {};
        copy_bytes(last, from + k, depth - k);
        put_words<Form>(to, last);
      }
    }
    const auto tile = [&](long r, int tall, long panel, int wide, const std::int32_t* sums)
                          __attribute__((always_inline)) { each(first + r, tall, panel, wide, sums); };
#if defined(__AVX512BW__)
    if constexpr (std::is_same_v<Form, by_tiles>)
      amx_tiles(rows, columns, has.panels, memory + has.rows, has.row, packed, tile);
    else
#endif
      filter_tiles<Form, false>(rows, columns, has.panels, nullptr, x, packed, tile);
  }
}
/// The sum of the packed weights of a column.
template <class Form>
LAMINA_INLINE std::int32_t weights_of(const linear_layout<Form>& has, const std::int8_t* packed, long o) {
  return read<std::int32_t>(packed + has.panels.sums_of(o));
}

/// Negated contribution of the zero point of the weights to the sums of each row.
template <class Args> LAMINA_INLINE void less_w_zero_point(const Args& a, std::int32_t x_zero_point,
                                                           std::int32_t w_zero_point, std::int32_t* terms) {
  for (long i = 0; i < a.rows; ++i) {
    const std::int8_t* x = a.x + i * a.x_row;
    std::int32_t sum = 0;
    for (long k = 0; k < a.depth; ++k) sum += x[k];
    terms[i] = less_zero_point(0, w_zero_point, less_zero_point(sum, x_zero_point, static_cast<std::int32_t>(a.depth)));
  }
}
template <class Form> LAMINA_INLINE void linear(const quantized_linear_args& args, void* scratch) {
  const quantized_linear_args a = args;
  const linear_layout<Form> has(a.rows, a.columns, a.depth);
  auto* memory = static_cast<std::int8_t*>(scratch);
  const finish finished(a.to);
  const factors by =
      factors_of<Form, finish>(a.to, a.columns, memory, [&](long o) { return weights_of<Form>(has, a.packed, o); });
  auto* terms = a.has_w_zero_point && *a.w_zero_point ? reinterpret_cast<std::int32_t*>(memory + has.bytes) : nullptr;
  if (terms) less_w_zero_point(a, *a.to.x_zero_point, *a.w_zero_point, terms);
  linear_tiles<Form>(
      has, a.rows, a.columns, a.depth, a.x, a.x_row, a.packed, memory,
      [&](long row, int tall, long panel, int wide, const std::int32_t* sums) __attribute__((always_inline)) {
        for (int j = 0; j < wide; ++j) {
          const long o = (panel + j) * panel_columns;
          for (int i = 0; i < tall; ++i) {
            std::int32_t with_term[panel_columns];
            if (terms) {
              using numbers = std::uint32_t __attribute__((ext_vector_type(16)));
              write(with_term, read<numbers>(by.bias + o) + static_cast<std::uint32_t>(terms[row + i]));
            }
            put(a.y + (row + i) * a.y_row + o,
                finished.operator()<true>(sums + (i * wide + j) * panel_columns, terms ? with_term : by.bias + o,
                                          by.factor + o),
                a.columns - o);
          }
        }
      });
}

template <class Form> LAMINA_INLINE void sums(const integer_linear_args& args, void* scratch) {
  const integer_linear_args a = args;
  const linear_layout<Form> has(a.rows, a.columns, a.depth);
  auto* memory = static_cast<std::int8_t*>(scratch);
  auto* taken = reinterpret_cast<std::int32_t*>(memory);  // negated contribution of the zero point of x to each sum
  const std::int32_t zero_point = *a.x_zero_point + Form::shift;
  for (long o = 0; o < a.columns; ++o) taken[o] = less_zero_point(0, zero_point, weights_of<Form>(has, a.packed, o));
  for (long o = a.columns; o < panels_of(a.columns) * panel_columns; ++o) taken[o] = 0;
  auto* terms = a.has_w_zero_point && *a.w_zero_point ? reinterpret_cast<std::int32_t*>(memory + has.bytes) : nullptr;
  if (terms) less_w_zero_point(a, *a.x_zero_point, *a.w_zero_point, terms);
  linear_tiles<Form>(
      has, a.rows, a.columns, a.depth, a.x, a.x_row, a.packed, memory,
      [&](long row, int tall, long panel, int wide, const std::int32_t* sums) __attribute__((always_inline)) {
        using numbers = std::uint32_t __attribute__((ext_vector_type(16)));
        for (int j = 0; j < wide; ++j) {
          const long o = (panel + j) * panel_columns, left = a.columns - o;
          for (int i = 0; i < tall; ++i) {
            numbers all = read<numbers>(sums + (i * wide + j) * panel_columns) + read<numbers>(taken + o);
            if (terms) all += static_cast<std::uint32_t>(terms[row + i]);
            std::int32_t* to = a.y + (row + i) * a.y_row + o;
            if (left >= panel_columns) write(to, all);
            else {
              std::int32_t part[panel_columns];
              write(part, all);
              for (long c = 0; c < left; ++c) to[c] = part[c];
            }
          }
        }
      });
}

// ---- convolutions ----------------------------------------------------------------------------------------------------

// Ways to compute a convolution: whether one takes a window, the order in which it packs weights (`conv_order`), the
// bytes of its scratch memory and of packed weights, and what it does.

/// What ways have in common that pack filters of depthwise convolutions one after the other, in words or floats.
template <class Layout, int Order> struct packed_filter_by_filter {
  static bool takes(const window& w) { return Layout::fits(w); }
  static int order(const window&) { return Order; }
  static std::size_t scratch(const window& w) { return Layout(w).bytes; }
  static long packed(const window& w) { return w.out_channels * Layout::packed(w) * 4; }
};

#if defined(__AVX512BW__)
struct depthwise_by_words : packed_filter_by_filter<depthwise_words_layout, conv_order_of_depthwise> {
  LAMINA_INLINE static void pack(const quantized_conv_pack_args& a) { pack_depthwise_words(a); }
  template <class Result> LAMINA_INLINE static void run(const quantized_conv_args& a, void* memory) {
    depthwise_words<Result>(a, memory);
  }
};
#endif

struct depthwise_by_floats : packed_filter_by_filter<depthwise_layout, conv_order_of_converted> {
  LAMINA_INLINE static void pack(const quantized_conv_pack_args& a) { pack_depthwise(a); }
  template <class Result> LAMINA_INLINE static void run(const quantized_conv_args& a, void* memory) {
    depthwise<Result>(a, memory);
  }
};

template <class Form> struct depthwise_by_lanes {
  using layout = depthwise_lanes_layout<Form>;
  static bool takes(const window& w) { return layout::fits(w); }
  static int order(const window&) { return conv_order_of_converted + 1; }
  static std::size_t scratch(const window& w) { return layout(w).bytes; }
  static long packed(const window& w) { return panels_of(w.channels) * layout(w).packed(); }
  LAMINA_INLINE static void pack(const quantized_conv_pack_args& a) { pack_depthwise_lanes<Form>(a); }
  template <class Result> LAMINA_INLINE static void run(const quantized_conv_args& a, void* memory) {
    depthwise_lanes<Form, Result>(a, memory);
  }
};

template <class Form> struct by_winograd {
  static bool takes(const window& w) { return winograd_layout::takes(w); }
  static int order(const window&) { return conv_order_of_winograd; }
  static std::size_t scratch(const window& w) { return winograd_layout(w).bytes; }
  static long packed(const window& w) { return winograd_layout(w).packed_bytes(w); }
  LAMINA_INLINE static void pack(const quantized_conv_pack_args& a) { pack_winograd(a); }
  template <class Result> LAMINA_INLINE static void run(const quantized_conv_args& a, void* memory) {
    conv_by_winograd<Form, Result>(a, memory);
  }
};

template <class Form> struct direct {
  static bool takes(const window&) { return true; }
  static int order(const window& w) { return conv_layout<Form>(w).pixels_in_lanes; }
  static std::size_t scratch(const window& w) { return conv_layout<Form>(w).bytes; }
  static long packed(const window& w) { return w.groups * conv_layout<Form>(w).packed_bytes(); }
  LAMINA_INLINE static void pack(const quantized_conv_pack_args& a) { pack_conv<Form>(a); }
  template <class Result> LAMINA_INLINE static void run(const quantized_conv_args& a, void* memory) {
    conv<Form, Result>(a, memory);
  }
};

template <class... Ways> struct way_list {};
template <class Form> struct ways_of {
  using type = way_list<depthwise_by_floats, direct<Form>>;
};
#if defined(__AVX2__)
template <> struct ways_of<by_pairs> {
  using type = way_list<depthwise_by_lanes<by_pairs>, depthwise_by_floats, by_winograd<by_pairs>, direct<by_pairs>>;
};
template <> struct ways_of<by_fours> {
#if defined(__AVX512BW__)
  using type = way_list<depthwise_by_words, depthwise_by_floats, direct<by_fours>>;
#else
  using type = way_list<depthwise_by_lanes<by_fours>, depthwise_by_floats, direct<by_fours>>;
#endif
};
template <> struct ways_of<by_bytes> {
  using type = way_list<depthwise_by_lanes<by_bytes>, depthwise_by_floats, by_winograd<by_pairs>, direct<by_bytes>>;
};
#endif

/// Calls f(way) for the first way that takes the window.
template <class Way, class... More, class F>
LAMINA_INLINE auto first_way(way_list<Way, More...>, const window& w, F f) {
  if constexpr (sizeof...(More) > 0)
    if (!Way::takes(w)) return first_way(way_list<More...>(), w, f);
  return f(Way());
}
template <class Form, class F> LAMINA_INLINE auto with_way(const window& w, F f) {
  return first_way(typename ways_of<Form>::type(), w, f);
}

template <class Form, class Result> LAMINA_INLINE void any_conv(const void* args, void* scratch) {
  const auto& a = *static_cast<const quantized_conv_args*>(args);
  with_way<Form>(a.w,
                 [&](auto way) __attribute__((always_inline)) { decltype(way)::template run<Result>(a, scratch); });
}

// ---- sums and products of two ---------------------------------------------------------------------------------------

template <class F> LAMINA_INLINE void both(const quantized_add_args& a, F f, std::int32_t zero_point) {
  const std::int8_t *x = a.a, *y = a.b;
  std::int8_t* out = a.y;
  const std::int32_t low = a.low, high = a.high;
  for (long r = 0; r < a.rows; ++r, x += a.count, y += a.b_row, out += a.count)
    if (a.b_step)
      LAMINA_IN_PAIRS for (long i = 0; i < a.count; ++i) out[i] = finished_number(f(x[i], y[i]), low, high, zero_point);
    else {
      const std::int32_t one = *y;
      LAMINA_IN_PAIRS for (long i = 0; i < a.count; ++i) out[i] = finished_number(f(x[i], one), low, high, zero_point);
    }
}

}  // namespace
}  // namespace LAMINA_KERNEL_SET

extern "C" {

void LAMINA_KERNEL(quantize_f32)(const void* args, void*) noexcept {
  const auto a = *static_cast<const quantize_args*>(args);  // copied: byte stores may alias any memory
  const auto* in = static_cast<const float*>(a.in);
  auto* out = static_cast<std::int8_t*>(a.out);
  for (long i = 0; i < a.outer; ++i)
    for (long c = 0; c < a.channels; ++c, in += a.inner, out += a.inner) {
      const float scale = a.scale[c];
      const std::int32_t zero_point = a.zero_point[c];
      const auto low = static_cast<float>(-128 - zero_point), high = static_cast<float>(127 - zero_point);
      LAMINA_IN_PAIRS for (long k = 0; k < a.inner; ++k) out[k] = quantized_number(in[k], scale, low, high, zero_point);
    }
}

void LAMINA_KERNEL(dequantize_i8)(const void* args, void*) noexcept {
  const auto a = *static_cast<const quantize_args*>(args);
  const auto* in = static_cast<const std::int8_t*>(a.in);
  auto* out = static_cast<float*>(a.out);
  for (long i = 0; i < a.outer; ++i)
    for (long c = 0; c < a.channels; ++c, in += a.inner, out += a.inner) {
      const float scale = a.scale[c];
      const std::int32_t zero_point = a.zero_point[c];
      LAMINA_IN_PAIRS for (long k = 0; k < a.inner; ++k) out[k] = static_cast<float>(in[k] - zero_point) * scale;
    }
}

/// Defines the kernels of a form with int8 results, with names that end in `suffix`.
#define LAMINA_QUANTIZED_FORM(Form, suffix)                                                                   \
  void LAMINA_KERNEL(quantized_linear##suffix)(const void* args, void* scratch) noexcept {                    \
    linear<Form>(*static_cast<const quantized_linear_args*>(args), scratch);                                  \
  }                                                                                                           \
  void LAMINA_KERNEL(quantized_conv##suffix)(const void* args, void* scratch) noexcept {                      \
    any_conv<Form, finish>(args, scratch);                                                                    \
  }                                                                                                           \
  std::size_t LAMINA_KERNEL(quantized_linear##suffix##_scratch)(const quantized_linear_args* a) noexcept {    \
    const std::size_t terms = a->has_w_zero_point ? whole_lines(a->rows * 4) : 0;                             \
    return linear_layout<Form>(a->rows, a->columns, a->depth).bytes + terms;                                  \
  }                                                                                                           \
  std::size_t LAMINA_KERNEL(quantized_conv##suffix##_scratch)(const quantized_conv_args* a) noexcept {        \
    return with_way<Form>(a->w, [a](auto way) { return way.scratch(a->w); });                                 \
  }                                                                                                           \
  std::size_t LAMINA_KERNEL(quantized_linear##suffix##_packed)(long columns, long depth) noexcept {           \
    return static_cast<std::size_t>(panels_of(columns) * linear_layout<Form>(1, columns, depth).panels.step); \
  }                                                                                                           \
  std::size_t LAMINA_KERNEL(quantized_conv##suffix##_packed)(const window* w) noexcept {                      \
    return static_cast<std::size_t>(with_way<Form>(*w, [w](auto way) { return way.packed(*w); }));            \
  }                                                                                                           \
  int LAMINA_KERNEL(quantized_conv##suffix##_order)(const window* w) noexcept {                               \
    return with_way<Form>(*w, [w](auto way) { return way.order(*w); });                                       \
  }                                                                                                           \
  void LAMINA_KERNEL(quantized_linear##suffix##_pack)(const void* args, void*) noexcept {                     \
    pack_linear<Form>(*static_cast<const quantized_linear_pack_args*>(args));                                 \
  }                                                                                                           \
  void LAMINA_KERNEL(quantized_conv##suffix##_pack)(const void* args, void*) noexcept {                       \
    const auto& a = *static_cast<const quantized_conv_pack_args*>(args);                                      \
    with_way<Form>(a.w, [&](auto way) __attribute__((always_inline)) { way.pack(a); });                       \
  }
/// The same with int32 results.
#define LAMINA_INTEGER_FORM(Form, suffix)                                                \
  void LAMINA_KERNEL(integer_conv##suffix)(const void* args, void* scratch) noexcept {   \
    any_conv<Form, sums_result>(args, scratch);                                          \
  }                                                                                      \
  void LAMINA_KERNEL(integer_linear##suffix)(const void* args, void* scratch) noexcept { \
    sums<Form>(*static_cast<const integer_linear_args*>(args), scratch);                 \
  }
#define LAMINA_QUANTIZED_PRODUCTS(suffix, integer_linear, integer_conv) \
  {&LAMINA_KERNEL(quantized_linear##suffix),                            \
   &LAMINA_KERNEL(quantized_conv##suffix),                              \
   integer_linear,                                                      \
   integer_conv,                                                        \
   &LAMINA_KERNEL(quantized_linear##suffix##_scratch),                  \
   &LAMINA_KERNEL(quantized_conv##suffix##_scratch),                    \
   &LAMINA_KERNEL(quantized_linear##suffix##_packed),                   \
   &LAMINA_KERNEL(quantized_conv##suffix##_packed),                     \
   &LAMINA_KERNEL(quantized_conv##suffix##_order),                      \
   &LAMINA_KERNEL(quantized_linear##suffix##_pack),                     \
   &LAMINA_KERNEL(quantized_conv##suffix##_pack),                       \
   4}

LAMINA_QUANTIZED_FORM(by_pairs, )
LAMINA_INTEGER_FORM(by_pairs, )
#if defined(__AVX2__)
LAMINA_QUANTIZED_FORM(by_fours, _vnni)
LAMINA_INTEGER_FORM(by_fours, _vnni)
LAMINA_QUANTIZED_FORM(by_bytes, _bytes)
int LAMINA_KERNEL(quantized_form_without_amx)() noexcept { return by_fours::there(); }
#if defined(__AVX512BW__)
void LAMINA_KERNEL(quantized_linear_amx)(const void* args, void* scratch) noexcept {
  const auto& a = *static_cast<const quantized_linear_args*>(args);
  if (a.rows < least_rows_of_tiles) return linear<by_fours>(a, scratch);
  const amx::session tiles;
  linear<by_tiles>(a, scratch);
}
void LAMINA_KERNEL(integer_linear_amx)(const void* args, void* scratch) noexcept {
  const auto& a = *static_cast<const integer_linear_args*>(args);
  if (a.rows < least_rows_of_tiles) return sums<by_fours>(a, scratch);
  const amx::session tiles;
  sums<by_tiles>(a, scratch);
}
std::size_t LAMINA_KERNEL(quantized_linear_amx_scratch)(const quantized_linear_args* a) noexcept {
  const std::size_t terms = a->has_w_zero_point ? whole_lines(a->rows * 4) : 0;
  return linear_layout<by_tiles>(a->rows, a->columns, a->depth).bytes + terms;
}
int LAMINA_KERNEL(quantized_form)() noexcept {
  return by_tiles::there() ? quantized_form_of_amx : LAMINA_KERNEL(quantized_form_without_amx)();
}
#else
int LAMINA_KERNEL(quantized_form)() noexcept { return LAMINA_KERNEL(quantized_form_without_amx)(); }
#endif
#elif defined(__aarch64__)
LAMINA_QUANTIZED_FORM(by_fours, _dot)
LAMINA_INTEGER_FORM(by_fours, _dot)
int LAMINA_KERNEL(quantized_form_without_amx)() noexcept { return by_fours::there(); }
int LAMINA_KERNEL(quantized_form)() noexcept { return by_fours::there(); }
#else
int LAMINA_KERNEL(quantized_form_without_amx)() noexcept { return 0; }
int LAMINA_KERNEL(quantized_form)() noexcept { return 0; }
#endif

#if defined(__AVX2__)

/// Defines the kernels of convolutions in channel blocks for a form, with names that end in `suffix`.
#define LAMINA_QUANTIZED_BLOCKS(Form, suffix)                                                                \
  void LAMINA_KERNEL(quantized_blocked_conv##suffix)(const void* args, void* scratch) noexcept {             \
    const auto a = *static_cast<const quantized_blocked_args*>(args);                                        \
    auto* memory = static_cast<std::int8_t*>(scratch);                                                       \
    if (a.b) any_blocked_conv<Form, true>(a, memory);                                                        \
    else any_blocked_conv<Form, false>(a, memory);                                                           \
  }                                                                                                          \
  void LAMINA_KERNEL(quantized_blocked_pack##suffix)(const void* args, void*) noexcept {                     \
    pack_blocked<Form>(*static_cast<const quantized_blocked_pack_args*>(args));                              \
  }                                                                                                          \
  std::size_t LAMINA_KERNEL(quantized_blocked##suffix##_scratch)(const quantized_blocked_args* a) noexcept { \
    return blocked_scratch<Form>(*a);                                                                        \
  }                                                                                                          \
  std::size_t LAMINA_KERNEL(quantized_blocked##suffix##_packed)(const window* w, int plain_in) noexcept {    \
    return blocked_packed<Form>(*w, plain_in != 0);                                                          \
  }                                                                                                          \
  int LAMINA_KERNEL(quantized_blocked##suffix##_supports)(const window* w, int plain_in) noexcept {          \
    return blocked_supports<Form>(*w, plain_in != 0);                                                        \
  }

LAMINA_QUANTIZED_BLOCKS(by_fours, _vnni)
LAMINA_QUANTIZED_BLOCKS(by_bytes, _bytes)
#if defined(__AVX512BW__)
void LAMINA_KERNEL(quantized_blocked_conv_amx)(const void* args, void* scratch) noexcept {
  const auto a = *static_cast<const quantized_blocked_args*>(args);
  auto* memory = static_cast<std::int8_t*>(scratch);
  if (!takes_tiles(a.w, a.plain_in != 0)) LAMINA_KERNEL(quantized_blocked_conv_vnni)(args, scratch);
  else if (a.b) tile_conv<true>(a, memory);
  else tile_conv<false>(a, memory);
}
void LAMINA_KERNEL(quantized_blocked_pack_amx)(const void* args, void* scratch) noexcept {
  const auto& a = *static_cast<const quantized_blocked_pack_args*>(args);
  if (!takes_tiles(a.w, a.plain_in != 0)) LAMINA_KERNEL(quantized_blocked_pack_vnni)(args, scratch);
  else pack_tiles(a);
}
std::size_t LAMINA_KERNEL(quantized_blocked_amx_scratch)(const quantized_blocked_args* a) noexcept {
  return takes_tiles(a->w, a->plain_in != 0) ? tile_layout(a->w, a->rows, a->blocks, a->joined_in != 0).bytes
                                             : blocked_scratch<by_fours>(*a);
}
std::size_t LAMINA_KERNEL(quantized_blocked_amx_packed)(const window* w, int plain_in) noexcept {
  return takes_tiles(*w, plain_in != 0) ? static_cast<std::size_t>(tile_layout(*w, w->out_height, 0).packed())
                                        : blocked_packed<by_fours>(*w, plain_in != 0);
}
int LAMINA_KERNEL(quantized_blocked_amx_supports)(const window* w, int plain_in) noexcept {
  return blocked_supports<by_fours>(*w, plain_in != 0);
}
void LAMINA_KERNEL(quantized_blocked_amx_join)(const void* args, void*) noexcept {
  join_images(*static_cast<const quantized_join_args*>(args));
}
long LAMINA_KERNEL(quantized_blocked_amx_maps)(const window* w, int plain_in) noexcept {
  return takes_tiles(*w, plain_in != 0) ? amx::conv_layout(*w, numbers_of_tiles).maps : 0;
}
std::size_t LAMINA_KERNEL(quantized_blocked_amx_joined)(const window* w, int plain_in) noexcept {
  return takes_tiles(*w, plain_in != 0) ? static_cast<std::size_t>(joined_bytes(*w)) : 0;
}
#endif

void LAMINA_KERNEL(quantized_average_pool_blocked)(const void* args, void*) noexcept {
  average_pool_of_blocks(*static_cast<const quantized_average_args*>(args));
}
void LAMINA_KERNEL(quantized_add_blocked)(const void* args, void*) noexcept {
  add_blocks(*static_cast<const quantized_add_args*>(args));
}
void LAMINA_KERNEL(quantized_table_blocked)(const void* args, void*) noexcept {
  look_up(*static_cast<const quantized_table_args*>(args), true);
}

#define LAMINA_BLOCKED_CONVOLUTIONS(suffix, ...)                                                              \
  {&LAMINA_KERNEL(quantized_blocked##suffix##_supports), &LAMINA_KERNEL(quantized_blocked##suffix##_scratch), \
   &LAMINA_KERNEL(quantized_blocked##suffix##_packed), &LAMINA_KERNEL(quantized_blocked_conv##suffix),        \
   &LAMINA_KERNEL(quantized_blocked_pack##suffix) __VA_OPT__(, ) __VA_ARGS__}
static constinit const quantized_blocked_functions blocked_functions = {
#if defined(__AVX512BW__)
    {{},
     LAMINA_BLOCKED_CONVOLUTIONS(_vnni),
     LAMINA_BLOCKED_CONVOLUTIONS(_bytes),
     LAMINA_BLOCKED_CONVOLUTIONS(_amx, &LAMINA_KERNEL(quantized_blocked_amx_join),
                                 &LAMINA_KERNEL(quantized_blocked_amx_maps),
                                 &LAMINA_KERNEL(quantized_blocked_amx_joined))},
#else
    {{}, LAMINA_BLOCKED_CONVOLUTIONS(_vnni), LAMINA_BLOCKED_CONVOLUTIONS(_bytes), {}},
#endif
    &LAMINA_KERNEL(quantized_average_pool_blocked),
    &LAMINA_KERNEL(quantized_add_blocked),
    &LAMINA_KERNEL(quantized_table_blocked),
};
#endif

void LAMINA_KERNEL(quantized_average_pool)(const void* args, void*) noexcept {
  average_pool(*static_cast<const quantized_average_args*>(args));
}

void LAMINA_KERNEL(quantized_add)(const void* args, void*) noexcept {
  const auto a = *static_cast<const quantized_add_args*>(args);
  const float a_factor = *a.a_scale / *a.y_scale, b_factor = *a.b_scale / *a.y_scale;
  const std::int32_t a_zero_point = *a.a_zero_point, b_zero_point = *a.b_zero_point, zero_point = *a.y_zero_point;
  both(
      a,
      [=](std::int32_t x, std::int32_t y) {
        return static_cast<float>(x - a_zero_point) * a_factor + static_cast<float>(y - b_zero_point) * b_factor;
      },
      zero_point);
}

void LAMINA_KERNEL(quantized_multiply)(const void* args, void*) noexcept {
  const auto a = *static_cast<const quantized_add_args*>(args);
  const float factor = *a.a_scale * *a.b_scale / *a.y_scale;
  const std::int32_t a_zero_point = *a.a_zero_point, b_zero_point = *a.b_zero_point, zero_point = *a.y_zero_point;
  both(
      a,
      [=](std::int32_t x, std::int32_t y) {
        return static_cast<float>((x - a_zero_point) * (y - b_zero_point)) * factor;
      },
      zero_point);
}

/// Defines the kernels of weights in blocks for a form and a number of bits.
#define LAMINA_BLOCK_LINEAR(Form, bits, suffix)                                               \
  void LAMINA_KERNEL(block_rows_##bits##suffix)(const void* args, void*) noexcept {           \
    round_rows<Form, bits>(*static_cast<const block_rows_args*>(args));                       \
  }                                                                                           \
  void LAMINA_KERNEL(block_linear_##bits##suffix)(const void* args, void* scratch) noexcept { \
    block_linear<Form, bits>(*static_cast<const block_linear_args*>(args), scratch);          \
  }
LAMINA_BLOCK_LINEAR(by_pairs, 4, )
LAMINA_BLOCK_LINEAR(by_pairs, 8, )
#if defined(__AVX2__)
LAMINA_BLOCK_LINEAR(by_fours, 8, _vnni)
#endif
std::size_t LAMINA_KERNEL(block_rows_bytes)(const block_rows_args* a) noexcept {
  return rows_in(nullptr, a->rows, a->block, a->blocks).bytes;
}
std::size_t LAMINA_KERNEL(block_linear_scratch)(const block_linear_args* a) noexcept { return block_scratch(*a); }

void LAMINA_KERNEL(quantized_table)(const void* args, void*) noexcept {
  look_up(*static_cast<const quantized_table_args*>(args), false);
}

extern constinit const quantized_functions LAMINA_KERNEL(quantized) = {
    &LAMINA_KERNEL(quantize_f32),
    &LAMINA_KERNEL(dequantize_i8),
#if defined(__AVX2__)
    {LAMINA_QUANTIZED_PRODUCTS(, &LAMINA_KERNEL(integer_linear), &LAMINA_KERNEL(integer_conv)),
     LAMINA_QUANTIZED_PRODUCTS(_vnni, &LAMINA_KERNEL(integer_linear_vnni), &LAMINA_KERNEL(integer_conv_vnni)),
     LAMINA_QUANTIZED_PRODUCTS(_bytes, nullptr, nullptr),
#if defined(__AVX512BW__)
     {&LAMINA_KERNEL(quantized_linear_amx), &LAMINA_KERNEL(quantized_conv_vnni), &LAMINA_KERNEL(integer_linear_amx),
      &LAMINA_KERNEL(integer_conv_vnni), &LAMINA_KERNEL(quantized_linear_amx_scratch),
      &LAMINA_KERNEL(quantized_conv_vnni_scratch), &LAMINA_KERNEL(quantized_linear_vnni_packed),
      &LAMINA_KERNEL(quantized_conv_vnni_packed), &LAMINA_KERNEL(quantized_conv_vnni_order),
      &LAMINA_KERNEL(quantized_linear_vnni_pack), &LAMINA_KERNEL(quantized_conv_vnni_pack), 2 * amx::tile_rows}},
#else
     {}},
#endif
#elif defined(__aarch64__)
    {LAMINA_QUANTIZED_PRODUCTS(, &LAMINA_KERNEL(integer_linear), &LAMINA_KERNEL(integer_conv)),
     LAMINA_QUANTIZED_PRODUCTS(_dot, &LAMINA_KERNEL(integer_linear_dot), &LAMINA_KERNEL(integer_conv_dot)),
     {},
     {}},
#else
    {LAMINA_QUANTIZED_PRODUCTS(, &LAMINA_KERNEL(integer_linear), &LAMINA_KERNEL(integer_conv)), {}, {}, {}},
#endif
    &LAMINA_KERNEL(quantized_form),
    &LAMINA_KERNEL(quantized_form_without_amx),
    &LAMINA_KERNEL(quantized_average_pool),
    &LAMINA_KERNEL(quantized_add),
    &LAMINA_KERNEL(quantized_multiply),
#if defined(__AVX2__)
    {{&LAMINA_KERNEL(block_rows_4), &LAMINA_KERNEL(block_rows_8)},
     {&LAMINA_KERNEL(block_rows_4), &LAMINA_KERNEL(block_rows_8_vnni)}},
    {{&LAMINA_KERNEL(block_linear_4), &LAMINA_KERNEL(block_linear_8)},
     {&LAMINA_KERNEL(block_linear_4), &LAMINA_KERNEL(block_linear_8_vnni)}},
#else
    {{&LAMINA_KERNEL(block_rows_4), &LAMINA_KERNEL(block_rows_8)},
     {&LAMINA_KERNEL(block_rows_4), &LAMINA_KERNEL(block_rows_8)}},
    {{&LAMINA_KERNEL(block_linear_4), &LAMINA_KERNEL(block_linear_8)},
     {&LAMINA_KERNEL(block_linear_4), &LAMINA_KERNEL(block_linear_8)}},
#endif
    &LAMINA_KERNEL(block_rows_bytes),
    &LAMINA_KERNEL(block_linear_scratch),
    &LAMINA_KERNEL(quantized_table),
#if defined(__AVX2__)
    &blocked_functions,
#else
    nullptr,
#endif
};

}  // extern "C"

}  // namespace lamina::kernels
