// The sample family of one instruction set: sums and maxima of elements at tabulated positions of an axis.
#include "sample.h"

#include "storage.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
// No unnamed namespace: bundles call the kernels below by their link names.
namespace sampling {

LAMINA_INLINE bool inside(std::int64_t at, long length) {
  return static_cast<std::uint64_t>(at) < static_cast<std::uint64_t>(length);
}

/// Weighted sums of the taps of each point, for single elements of `Slices` neighboring slices, whose results are
/// `out_step` apart; `Taps` is the number of taps if not 0, else `any_taps`.
template <class T, long Taps, int Slices> LAMINA_INLINE void weigh_elements(const T* in, const std::int64_t* at,
                                                                            const T* weight, T* out, long out_step,
                                                                            long points, long length, long any_taps) {
  const long taps = Taps ? Taps : any_taps;
  for (long p = 0; p < points; ++p, at += taps, weight += taps) {
    T sum[Slices] = {};
    for (long k = 0; k < taps; ++k)
      if (inside(at[k], length)) {
        LAMINA_UNROLL for (int i = 0; i < Slices; ++i) sum[i] += weight[k] * in[i * length + at[k]];
      }
    LAMINA_UNROLL for (int i = 0; i < Slices; ++i) out[i * out_step + p] = sum[i];
  }
}
/// The first tap from k on with a valid position, or `taps`.
LAMINA_INLINE long next_tap(const std::int64_t* at, long k, long taps, long length) {
  while (k < taps && !inside(at[k], length)) ++k;
  return k;
}
/// Weighted sums of rows of `inner` elements; each pass over the result adds two taps.
template <class T> LAMINA_INLINE void weigh_rows(const T* in, const std::int64_t* at, const T* weight, T* out,
                                                 long points, long length, long taps, long inner) {
  for (long p = 0; p < points; ++p, at += taps, weight += taps, out += inner) {
    long a = next_tap(at, 0, taps, length);
    if (a == taps) {
      __builtin_memset(out, 0, static_cast<std::size_t>(inner) * sizeof(T));
      continue;
    }
    for (bool begun = false; a < taps; begun = true) {
      const long b = next_tap(at, a + 1, taps, length);
      const T wa = weight[a], wb = b < taps ? weight[b] : T(0);
      const T* from_a = in + at[a] * inner;
      const T* from_b = b < taps ? in + at[b] * inner : from_a;
      if (b < taps && begun) {
        LAMINA_IN_PAIRS for (long i = 0; i < inner; ++i) out[i] += wa * from_a[i] + wb * from_b[i];
      } else if (b < taps) {
        LAMINA_IN_PAIRS for (long i = 0; i < inner; ++i) out[i] = wa * from_a[i] + wb * from_b[i];
      } else if (begun) {
        LAMINA_IN_PAIRS for (long i = 0; i < inner; ++i) out[i] += wa * from_a[i];
      } else {
        LAMINA_IN_PAIRS for (long i = 0; i < inner; ++i) out[i] = wa * from_a[i];
      }
      a = b < taps ? next_tap(at, b + 1, taps, length) : taps;
    }
  }
}

/// Calls f(slice, first point, points, slices) for the part of the pairs in each slice, or in several whole ones,
/// at most `together`, if `joined(slice)` for their first one is true.
template <class Joined, class F>
LAMINA_INLINE void each_slice(long first, long count, long points, long together, Joined joined, F f) {
  long o = first / points, p = first % points;
  while (count > 0) {
    const long n = count < points - p ? count : points - p;
    const bool several = together > 1 && p == 0 && count >= together * points && joined(o);
    const long slices = several ? together : 1;
    f(o, p, n, slices);
    count -= n * slices;
    p = 0;
    o += slices;
  }
}
template <class F> LAMINA_INLINE void each_slice(long first, long count, long points, F f) {
  each_slice(first, count, points, 1, [](long) { return false; }, [&](long o, long p, long n, long) { f(o, p, n); });
}

template <class T> void resample(const void* args, void*) noexcept {
  const auto& a = *static_cast<const resample_args*>(args);
  constexpr int together = 4;  // slices of one table, if their elements are single
  T* out = static_cast<T*>(a.out);
  const auto same_table = [&](long o) { return a.inner == 1 && o % a.rows + together <= a.rows; };
  each_slice(a.first, a.count, a.points, together, same_table, [&](long o, long p, long n, long slices) {
    const T* in = static_cast<const T*>(a.in) + o * a.length * a.inner;
    const long begin = (o / a.rows * a.points + p) * a.taps;
    const std::int64_t* at = a.at + begin;
    const T* weight = static_cast<const T*>(a.weight) + begin;
    const auto weigh = [&]<long Taps>() __attribute__((always_inline)) {
      if (slices == 1) weigh_elements<T, Taps, 1>(in, at, weight, out, n, n, a.length, a.taps);
      else weigh_elements<T, Taps, together>(in, at, weight, out, n, n, a.length, a.taps);
    };
    if (a.inner > 1) weigh_rows(in, at, weight, out, n, a.length, a.taps, a.inner);
    else if (a.taps == 2) weigh.template operator()<2>();
    else if (a.taps == 3) weigh.template operator()<3>();
    else if (a.taps == 4) weigh.template operator()<4>();
    else weigh.template operator()<0>();
    out += n * slices * a.inner;
  });
}

template <class T> void resample_grad(const void* args, void*) noexcept {
  const auto& a = *static_cast<const resample_grad_args*>(args);
  const long inner = a.inner;
  T* out = static_cast<T*>(a.out);
  for (long o = a.first; o < a.first + a.count; ++o, out += a.length * inner) {
    __builtin_memset(out, 0, static_cast<std::size_t>(a.length * inner) * sizeof(T));
    const T* in = static_cast<const T*>(a.in) + o * a.points * inner;
    const long begin = o / a.rows * a.points * a.taps;
    const std::int64_t* at = a.at + begin;
    const T* weight = static_cast<const T*>(a.weight) + begin;
    for (long p = 0; p < a.points; ++p, in += inner, at += a.taps, weight += a.taps)
      for (long k = 0; k < a.taps; ++k) {
        if (!inside(at[k], a.length)) continue;
        T* to = out + at[k] * inner;
        const T w = weight[k];
        if (inner == 1) *to += w * *in;
        else { LAMINA_IN_PAIRS for (long i = 0; i < inner; ++i) to[i] += w * in[i]; }
      }
  }
}

template <class T> void resample_weight_grad(const void* args, void*) noexcept {
  const auto& a = *static_cast<const resample_weight_grad_args*>(args);
  T* out = static_cast<T*>(a.out);
  for (long q = a.first; q < a.first + a.count; ++q) {
    const long b = q / a.points, p = q % a.points;
    for (long k = 0; k < a.taps; ++k, ++out) {
      const std::int64_t at = a.at[q * a.taps + k];
      double sum = 0;
      if (inside(at, a.length))
        for (long r = 0; r < a.rows; ++r) {
          const long o = b * a.rows + r;
          const T* grad = static_cast<const T*>(a.grad) + (o * a.points + p) * a.inner;
          const T* in = static_cast<const T*>(a.in) + (o * a.length + at) * a.inner;
          for (long i = 0; i < a.inner; ++i) sum += static_cast<double>(grad[i]) * static_cast<double>(in[i]);
        }
      *out = static_cast<T>(sum);
    }
  }
}

/// Whether x replaces the maximum so far.
template <class T> LAMINA_INLINE bool above(T x, T best) {
  if constexpr (is_float<T>) return x > best || (x != x && best == best);
  else return x > best;
}
template <class T, bool Index> LAMINA_INLINE void max_elements(const T* in, const std::int64_t* at, T* out,
                                                               std::int64_t* index, long points, long length,
                                                               long taps) {
  for (long p = 0; p < points; ++p, at += taps) {
    long k = next_tap(at, 0, taps, length);
    T best = k < taps ? in[at[k]] : smallest<T>();
    std::int64_t where = k < taps ? at[k] : 0;
    for (++k; k < taps; ++k) {
      if (!inside(at[k], length) || !above(in[at[k]], best)) continue;
      best = in[at[k]];
      where = at[k];
    }
    out[p] = best;
    if constexpr (Index) index[p] = where;
  }
}
template <class T, bool Index> LAMINA_INLINE void max_rows(const T* in, const std::int64_t* at, T* out,
                                                           std::int64_t* index, long points, long length, long taps,
                                                           long inner) {
  for (long p = 0; p < points; ++p, at += taps, out += inner) {
    long k = next_tap(at, 0, taps, length);
    if (k < taps) __builtin_memcpy(out, in + at[k] * inner, static_cast<std::size_t>(inner) * sizeof(T));
    else
      for (long i = 0; i < inner; ++i) out[i] = smallest<T>();
    if constexpr (Index)
      for (long i = 0; i < inner; ++i) index[i] = k < taps ? at[k] : 0;
    for (k = next_tap(at, k + 1, taps, length); k < taps; k = next_tap(at, k + 1, taps, length)) {
      const T* from = in + at[k] * inner;
      for (long i = 0; i < inner; ++i) {
        const bool taken = above(from[i], out[i]);
        out[i] = taken ? from[i] : out[i];
        if constexpr (Index) index[i] = taken ? at[k] : index[i];
      }
    }
    if constexpr (Index) index += inner;
  }
}
template <class T, bool Index> LAMINA_INLINE void max_windows_of(const max_windows_args& a) {
  T* out = static_cast<T*>(a.out);
  std::int64_t* index = a.index;
  each_slice(a.first, a.count, a.points, [&](long o, long p, long n) {
    const T* in = static_cast<const T*>(a.in) + o * a.length * a.inner;
    const std::int64_t* at = a.at + p * a.taps;
    if (a.inner == 1) max_elements<T, Index>(in, at, out, index, n, a.length, a.taps);
    else max_rows<T, Index>(in, at, out, index, n, a.length, a.taps, a.inner);
    out += n * a.inner;
    if constexpr (Index) index += n * a.inner;
  });
}
template <class T> void max_windows(const void* args, void*) noexcept {
  const auto& a = *static_cast<const max_windows_args*>(args);
  if (a.index) max_windows_of<T, true>(a);
  else max_windows_of<T, false>(a);
}

}  // namespace sampling
using namespace sampling;
}  // namespace LAMINA_KERNEL_SET

extern "C" {

extern constinit const sample_functions LAMINA_KERNEL(sample) = [] {
  sample_functions f{};
  f.resample[0] = resample<float>;
  f.resample[1] = resample<double>;
  f.resample_grad[0] = resample_grad<float>;
  f.resample_grad[1] = resample_grad<double>;
  f.resample_weight_grad[0] = resample_weight_grad<float>;
  f.resample_weight_grad[1] = resample_weight_grad<double>;
  f.max_windows[static_cast<int>(element::f32)] = max_windows<float>;
  f.max_windows[static_cast<int>(element::f64)] = max_windows<double>;
  f.max_windows[static_cast<int>(element::i8)] = max_windows<std::int8_t>;
  f.max_windows[static_cast<int>(element::i16)] = max_windows<std::int16_t>;
  f.max_windows[static_cast<int>(element::i32)] = max_windows<std::int32_t>;
  f.max_windows[static_cast<int>(element::i64)] = max_windows<std::int64_t>;
  f.max_windows[static_cast<int>(element::u8)] = max_windows<std::uint8_t>;
  return f;
}();

}  // extern "C"

}  // namespace lamina::kernels
