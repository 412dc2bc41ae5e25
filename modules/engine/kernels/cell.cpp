// The recurrent cells of one instruction set.
#include "cell.h"

#include "micro.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
namespace {

// Unit in which rows are processed: registers of float, single doubles.
struct floats {
  using type = vf;
  using element = float;
  static constexpr long lanes = width<float>;
  LAMINA_INLINE static vf get(const void* p, long i, long n) { return load_lanes(static_cast<const float*>(p) + i, n); }
  LAMINA_INLINE static void put(void* p, long i, long n, vf x) { store_lanes(static_cast<float*>(p) + i, x, n); }
  // Gates need no relative accuracy in the tails.
  LAMINA_INLINE static vf sigmoid(vf x) { return kernels::sigmoid<latency::low>(x); }
  LAMINA_INLINE static vf tanh(vf x) { return kernels::tanh<latency::low>(x); }
  LAMINA_INLINE static vf sum(vf x, vf y, vf z) { return fma(x, y, z); }
#if defined(__AVX512F__)
  /// Activates two gates of half a register each together.
  static constexpr bool concat_halves = true;
  LAMINA_INLINE static vf get_halves(const void* p, long first, long second) {
    const auto half = [&](long i)
                          __attribute__((always_inline)) { return _mm256_loadu_ps(static_cast<const float*>(p) + i); };
    return vf(_mm512_insertf32x8(_mm512_castps256_ps512(half(first)), half(second), 1));
  }
  LAMINA_INLINE static vf upper_half(vf x) { return vf(_mm512_castps256_ps512(_mm512_extractf32x8_ps(x.data, 1))); }
  /// tanh of the lower half and the logistic function of the upper half, with the same bits as separate calls.
  LAMINA_INLINE static vf tanh_and_sigmoid(vf x) {
    const vf scale(_mm512_insertf32x8(_mm512_set1_ps(1.f), _mm256_set1_ps(.5f), 1));
    const vf y = tanh(x * scale), z = fma(y, vf(.5f), vf(.5f));
    return vf(_mm512_mask_blend_ps(0xff00, y.data, z.data));
  }
#else
  static constexpr bool concat_halves = false;
#endif
};
struct doubles {
  static constexpr bool concat_halves = false;
  using type = double;
  using element = double;
  static constexpr long lanes = 1;
  LAMINA_INLINE static double get(const void* p, long i, long) { return static_cast<const double*>(p)[i]; }
  LAMINA_INLINE static void put(void* p, long i, long, double x) { static_cast<double*>(p)[i] = x; }
  LAMINA_INLINE static double sigmoid(double x) { return micro::sigmoid::run(x); }
  LAMINA_INLINE static double tanh(double x) { return micro::tanh::run(x); }
  LAMINA_INLINE static double sum(double x, double y, double z) { return x * y + z; }
};

/// Activated gates of an LSTM, or of a GRU with the product that its reset gate scales, for `n` elements from `g` on.
template <class L> struct lstm_activated {
  typename L::type i, f, u, o;
  LAMINA_INLINE lstm_activated(const lstm_args& a, long g, long n) {
    const long h = a.hidden;
    if constexpr (L::concat_halves)
      if (n == L::lanes / 2) {
        i = L::sigmoid(L::get_halves(a.gates, g, g + h));
        f = L::upper_half(i);
        u = L::tanh_and_sigmoid(L::get_halves(a.gates, g + 2 * h, g + 3 * h));
        o = L::upper_half(u);
        return;
      }
    i = L::sigmoid(L::get(a.gates, g, n));
    f = L::sigmoid(L::get(a.gates, g + h, n));
    u = L::tanh(L::get(a.gates, g + 2 * h, n));
    o = L::sigmoid(L::get(a.gates, g + 3 * h, n));
  }
};
template <class L> struct gru_activated {
  typename L::type reset, z, hn, u;
  LAMINA_INLINE gru_activated(const gru_args& a, long g, long n) {
    activate_sums(a, g, n);
    hn = L::get(a.h, g + 2 * a.hidden, n);
    u = L::tanh(L::sum(reset, hn, L::get(a.x, g + 2 * a.hidden, n)));
  }

 private:
  LAMINA_INLINE void activate_sums(const gru_args& a, long g, long n) {
    const long h = a.hidden;
    if constexpr (L::concat_halves)
      if (n == L::lanes / 2) {
        reset = L::sigmoid(L::get_halves(a.x, g, g + h) + L::get_halves(a.h, g, g + h));
        z = L::upper_half(reset);
        return;
      }
    reset = L::sigmoid(L::get(a.x, g, n) + L::get(a.h, g, n));
    z = L::sigmoid(L::get(a.x, g + h, n) + L::get(a.h, g + h, n));
  }
};

/// Compile-time knowledge of the rows of a call: nothing; one row, which avoids the overhead of the general case, as in
/// a stream; one row of whole registers.
enum class known { nothing, one_row, one_row_of_registers };

/// Calls f(row, first, count) for the registers of each row; the compiler knows that all but the last are whole.
template <class L, known Known = known::nothing, class F>
LAMINA_INLINE void each_register(long rows, long hidden, F f) {
  const auto row = [&](long r) __attribute__((always_inline)) {
    long j = 0;
    LAMINA_NO_UNROLL for (; j + L::lanes <= hidden; j += L::lanes) f(r, j, L::lanes);
    if (Known != known::one_row_of_registers && j < hidden) f(r, j, hidden - j);
  };
  if (Known != known::nothing) return row(0);
  LAMINA_NO_UNROLL for (long r = 0; r < rows; ++r) row(r);
}

// Arguments are passed by value, so that stores of results cannot alias them.
template <class L, known Known> LAMINA_INLINE void lstm(const lstm_args a) {
  const long h = a.hidden;
  each_register<L, Known>(a.rows, h, [&](long r, long j, long n) __attribute__((always_inline)) {
    const long at = r * h + j;
    const auto [i, f, u, o] = lstm_activated<L>(a, r * 4 * h + j, n);
    const auto next = f * L::get(a.cell, at, n) + i * u;
    L::put(a.next_out, at, n, next);
    L::put(a.out, at, n, o * L::tanh(next));
  });
}
template <class L> LAMINA_INLINE void lstm_grad(const lstm_args a) {
  using T = typename L::type;
  const long h = a.hidden;
  const T one(typename L::element(1));
  each_register<L>(a.rows, h, [&](long r, long j, long n) __attribute__((always_inline)) {
    const long g = r * 4 * h + j, at = r * h + j;
    const auto [i, f, u, o] = lstm_activated<L>(a, g, n);
    const T t = L::tanh(L::get(a.next, at, n)), dh = L::get(a.out_gradient, at, n), cell = L::get(a.cell, at, n);
    const T dc = L::get(a.next_gradient, at, n) + dh * o * (one - t * t);
    L::put(a.gates_gradient, g, n, dc * u * (i * (one - i)));
    L::put(a.gates_gradient, g + h, n, dc * cell * (f * (one - f)));
    L::put(a.gates_gradient, g + 2 * h, n, dc * i * (one - u * u));
    L::put(a.gates_gradient, g + 3 * h, n, dh * t * (o * (one - o)));
    L::put(a.cell_gradient, at, n, dc * f);
  });
}
template <class L, known Known> LAMINA_INLINE void gru(const gru_args a) {
  using T = typename L::type;
  const long h = a.hidden;
  const T one(typename L::element(1));
  each_register<L, Known>(a.rows, h, [&](long r, long j, long n) __attribute__((always_inline)) {
    const long at = r * h + j;
    const gru_activated<L> gate(a, r * 3 * h + j, n);
    // u + z (state - u), arranged so that little work depends on u, which is computed last
    L::put(a.out, at, n, L::sum(gate.u, one - gate.z, gate.z * L::get(a.state, at, n)));
  });
}
template <class L> LAMINA_INLINE void gru_grad(const gru_args a) {
  using T = typename L::type;
  const long h = a.hidden;
  const T one(typename L::element(1));
  each_register<L>(a.rows, h, [&](long r, long j, long n) __attribute__((always_inline)) {
    const long g = r * 3 * h + j, at = r * h + j;
    const auto [reset, z, hn, u] = gru_activated<L>(a, g, n);
    const T d = L::get(a.out_gradient, at, n);
    const T du = d * (one - z) * (one - u * u), dz = d * (L::get(a.state, at, n) - u) * (z * (one - z));
    const T dr = du * hn * (reset * (one - reset));
    L::put(a.x_gradient, g, n, dr);
    L::put(a.x_gradient, g + h, n, dz);
    L::put(a.x_gradient, g + 2 * h, n, du);
    L::put(a.h_gradient, g, n, dr);
    L::put(a.h_gradient, g + h, n, dz);
    L::put(a.h_gradient, g + 2 * h, n, du * reset);
    L::put(a.state_gradient, at, n, d * z);
  });
}

}  // namespace
}  // namespace LAMINA_KERNEL_SET

extern "C" {

#define LAMINA_CELL(cell, name, lanes, rows)                         \
  void LAMINA_KERNEL(cell##_##name)(const void* p, void*) noexcept { \
    cell<lanes, known::rows>(*static_cast<const cell##_args*>(p));   \
  }
#define LAMINA_CELLS(cell)                                       \
  LAMINA_CELL(cell, f32, floats, nothing)                        \
  LAMINA_CELL(cell, row_f32, floats, one_row)                    \
  LAMINA_CELL(cell, registers_f32, floats, one_row_of_registers) \
  LAMINA_CELL(cell, f64, doubles, nothing)
LAMINA_CELLS(lstm)
LAMINA_CELLS(gru)
void LAMINA_KERNEL(lstm_grad_f32)(const void* p, void*) noexcept {
  lstm_grad<floats>(*static_cast<const lstm_args*>(p));
}
void LAMINA_KERNEL(lstm_grad_f64)(const void* p, void*) noexcept {
  lstm_grad<doubles>(*static_cast<const lstm_args*>(p));
}
void LAMINA_KERNEL(gru_grad_f32)(const void* p, void*) noexcept { gru_grad<floats>(*static_cast<const gru_args*>(p)); }
void LAMINA_KERNEL(gru_grad_f64)(const void* p, void*) noexcept { gru_grad<doubles>(*static_cast<const gru_args*>(p)); }

#define LAMINA_CELLS_OF(cell)                              \
  {{LAMINA_KERNEL(cell##_f32), LAMINA_KERNEL(cell##_f64)}, \
   LAMINA_KERNEL(cell##_row_f32),                          \
   LAMINA_KERNEL(cell##_registers_f32),                    \
   width<float>}
extern constinit const cell_functions LAMINA_KERNEL(cell) = {
    LAMINA_CELLS_OF(lstm),
    LAMINA_CELLS_OF(gru),
    {LAMINA_KERNEL(lstm_grad_f32), LAMINA_KERNEL(lstm_grad_f64)},
    {LAMINA_KERNEL(gru_grad_f32), LAMINA_KERNEL(gru_grad_f64)}};

}  // extern "C"

}  // namespace lamina::kernels
