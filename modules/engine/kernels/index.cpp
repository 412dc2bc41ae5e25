// The index family of one instruction set: gather and scatter, running sums, sorting.
#include "index.h"

#include "coordinates.h"
#include "counted.h"
#include "storage.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
// No unnamed namespace: bundles call the kernels below by their link names.
namespace positions {

/// The normalized position of `index`, or -1 if out of range, which is recorded with `number`.
LAMINA_INLINE long place(std::int64_t index, long length, std::int64_t* invalid, long number) {
  const std::int64_t at = index < 0 ? index + length : index;
  if (at >= 0 && at < length) return at;
  count_wrong(invalid, index, number);
  return -1;
}

/// out[i] = in[index[i]] for `count` words of one axis of `length`, zero where out of range; invalid positions are
/// recorded with numbers from `number` on.  Words of four bytes, eight at a time: ascending positions are copied, others
/// checked together.
template <class Word> LAMINA_APART void gather_axis(const Word* in, long length, const std::int64_t* index, long count,
                                                    Word* out, std::int64_t* invalid, long number) {
  constexpr int block = 8;
  const auto size = static_cast<std::uint64_t>(length);
  long i = 0;
  for (; sizeof(Word) == 4 && i + block <= count; i += block) {
    const std::int64_t* at = index + i;
    const auto from = static_cast<std::uint64_t>(at[0]);
    bool ascending = true, inside = true;
    for (int k = 0; k < block; ++k) {
      const auto here = static_cast<std::uint64_t>(at[k]);
      ascending = ascending & (here == from + static_cast<std::uint64_t>(k));
      inside = inside & (here + size < 2 * size);
    }
    if (!inside) break;
    if (ascending && at[0] >= 0) __builtin_memcpy(out + i, in + at[0], block * sizeof(Word));
    else LAMINA_NO_UNROLL for (int k = 0; k < block; ++k) out[i + k] = in[at[k] + (at[k] >> 63 & length)];
  }
  for (; i < count; ++i) {
    const long at = place(index[i], length, invalid, number + i);
    out[i] = at < 0 ? Word(0) : in[at];
  }
}
/// The longest part of a list of indices that are inside and ascend by one.
struct index_run {
  long begin = 0, end = 0;
  LAMINA_INLINE index_run(const std::int64_t* index, long count, long length) {
    for (long i = 0, next; i < count; i = next) {
      const long at = index[i];
      next = i + 1;
      if (at < 0 || at >= length) continue;
      while (next < count && index[next] == at + (next - i) && index[next] < length) ++next;
      if (next - i > end - begin) begin = i, end = next;
    }
  }
};
template <class Word> LAMINA_INLINE void gather_words(const gather_args& a) {
  const Word* in = static_cast<const Word*>(a.in) + a.first / a.count * a.length;
  Word* out = static_cast<Word*>(a.out);
  // Many equal lists, as those of padding by reflection: what they copy is found once.
  const index_run run(a.index, a.rows > 2 * a.count ? a.count : 0, a.length);
  const bool copies = run.end - run.begin >= 16;
  long j = a.first % a.count;
  for (long done = 0; done < a.rows; j = 0, in += a.length) {
    const long n = a.count - j < a.rows - done ? a.count - j : a.rows - done;
    if (copies && n == a.count) {
      gather_axis(in, a.length, a.index, run.begin, out + done, a.invalid, 0);
      __builtin_memcpy(out + done + run.begin, in + a.index[run.begin],
                       static_cast<std::size_t>(run.end - run.begin) * sizeof(Word));
      gather_axis(in, a.length, a.index + run.end, n - run.end, out + done + run.end, a.invalid, run.end);
    } else gather_axis(in, a.length, a.index + j, n, out + done, a.invalid, j);
    done += n;
  }
}
LAMINA_INLINE void gather_rows(const gather_args& a) {
  constexpr long ahead = 8;  // prefetch distance in rows
  const char* in = static_cast<const char*>(a.in);
  char* out = static_cast<char*>(a.out);
  long o = a.first / a.count, j = a.first % a.count;
  for (long r = 0; r < a.rows; ++r, out += a.row) {
    if (j + ahead < a.count) {
      const std::int64_t next = a.index[j + ahead];
      if (next >= 0 && next < a.length) {
        const char* row = in + (o * a.length + next) * a.row;
        __builtin_prefetch(row);
        if (a.row > 64) __builtin_prefetch(row + 64);
      }
    }
    const long at = place(a.index[j], a.length, a.invalid, j);
    if (at < 0) __builtin_memset(out, 0, static_cast<std::size_t>(a.row));
    else __builtin_memcpy(out, in + (o * a.length + at) * a.row, static_cast<std::size_t>(a.row));
    if (++j == a.count) j = 0, ++o;
  }
}

template <class Word> LAMINA_INLINE void take(const take_args& a) {
  const Word* in = static_cast<const Word*>(a.in);
  Word* out = static_cast<Word*>(a.out);
  const std::int64_t* index = a.index;
  if (a.inner == 1) {
    for (long o = 0; o < a.outer; ++o, in += a.length, index += a.count, out += a.count)
      gather_axis(in, a.length, index, a.count, out, a.invalid, index - a.index);
    return;
  }
  for (long o = 0; o < a.outer; ++o, in += a.length * a.inner)
    for (long k = 0; k < a.count; ++k, index += a.inner, out += a.inner)
      for (long i = 0; i < a.inner; ++i) {
        const long at = place(index[i], a.length, a.invalid, index - a.index + i);
        out[i] = at < 0 ? Word(0) : in[at * a.inner + i];
      }
}

template <class T> using unsigned_of = word<static_cast<int>(sizeof(T))>;
/// Integers add as unsigned, so that they wrap.
template <class T> LAMINA_INLINE T sum_of(T a, T b) {
  if constexpr (is_float<T>) return a + b;
  else
    return static_cast<T>(static_cast<unsigned_of<T>>(static_cast<unsigned_of<T>>(a) + static_cast<unsigned_of<T>>(b)));
}
template <class T> void scatter_rows(const void* args, void*) noexcept {
  const auto& a = *static_cast<const scatter_rows_args*>(args);
  const T* in = static_cast<const T*>(a.in);
  T* out = static_cast<T*>(a.out);
  const long inner = a.inner, low = a.low, high = a.high;
  std::int64_t elsewhere[3] = {};
  std::int64_t* const invalid = low == 0 ? a.invalid : elsewhere;
  for (long o = 0; o < a.outer; ++o, out += a.length * inner) {
    __builtin_memset(out + low * inner, 0, static_cast<std::size_t>((high - low) * inner) * sizeof(T));
    for (long k = 0; k < a.count; ++k, in += inner) {
      const long at = place(a.index[k], a.length, invalid, k);
      if (at < low || at >= high) continue;
      T* to = out + at * inner;
      LAMINA_VECTORS for (long i = 0; i < inner; ++i) to[i] = sum_of(to[i], in[i]);
    }
  }
}
template <class T> void scatter_elements(const void* args, void*) noexcept {
  const auto& a = *static_cast<const scatter_elements_args*>(args);
  const T* in = static_cast<const T*>(a.in);
  T* out = static_cast<T*>(a.out);
  const std::int64_t* index = a.index;
  for (long o = 0; o < a.outer; ++o, out += a.length * a.inner)
    for (long k = 0; k < a.count; ++k, in += a.inner, index += a.inner)
      for (long i = 0; i < a.columns; ++i) {
        const long at = place(index[i], a.length, a.invalid, index - a.index + i);
        if (at >= 0) out[at * a.inner + i] = sum_of(out[at * a.inner + i], in[i]);
      }
}

template <class Word> LAMINA_INLINE void one_hot(const one_hot_args& a) {
  Word value;
  __builtin_memcpy(&value, a.value, sizeof value);
  Word* out = static_cast<Word*>(a.out);
  __builtin_memset(out, 0, static_cast<std::size_t>(a.rows * a.depth) * sizeof(Word));
  for (long r = 0; r < a.rows; ++r, out += a.depth)
    if (const long at = place(a.index[r], a.depth, a.invalid, r); at >= 0) out[at] = value;
}

template <class T> void running_sum(const void* args, void*) noexcept {
  using wide = std::conditional_t<is_float<T>, double, std::uint64_t>;
  constexpr long side = sizeof(T) == 8 ? 8 : 16, columns = 256;  // columns at a time: at least, at most
  const auto& a = *static_cast<const running_sum_args*>(args);
  const long step = a.reverse ? -a.inner : a.inner, begin = a.reverse ? (a.length - 1) * a.inner : 0;
  for (long o = 0; o < a.outer; ++o) {
    const T* in = static_cast<const T*>(a.in) + o * a.length * a.inner + begin;
    T* out = static_cast<T*>(a.out) + o * a.length * a.inner + begin;
    long i = 0;
    for (long count; a.inner - i >= side; i += count) {
      count = a.inner - i < columns ? a.inner - i : columns;
      wide sum[static_cast<std::size_t>(columns)];
      for (long c = 0; c < count; ++c) sum[c] = 0;
      const T* from = in + i;
      T* to = out + i;
      const auto sweep = [&](auto exclusive) __attribute__((always_inline)) {
        for (long l = 0; l < a.length; ++l, from += step, to += step) LAMINA_VECTORS for (long c = 0; c < count; ++c) {
            const wide before = sum[c], all = before + static_cast<wide>(from[c]);
            to[c] = static_cast<T>(exclusive ? before : all);
            sum[c] = all;
          }
      };
      if (a.exclusive) sweep(std::true_type());
      else sweep(std::false_type());
    }
    for (; i < a.inner; ++i) {
      wide sum = 0;
      const T* from = in + i;
      T* to = out + i;
      for (long l = 0; l < a.length; ++l, from += step, to += step) {
        const wide before = sum;
        sum += static_cast<wide>(*from);
        *to = static_cast<T>(a.exclusive ? before : sum);
      }
    }
  }
}

template <class T> LAMINA_INLINE void product_of_others(const product_of_others_args& a, void* scratch) {
  // A product and its derivative, of the elements before or after a position.
  struct dual {
    double value, slope;
  };
  const auto times = [](dual x, dual y) { return dual{x.value * y.value, x.value * y.slope + x.slope * y.value}; };
  auto* before = static_cast<dual*>(scratch);
  for (long r = 0; r < a.rows; ++r) {
    const T* in = static_cast<const T*>(a.in) + r * a.length;
    const T* tangent = a.tangent ? static_cast<const T*>(a.tangent) + r * a.length : nullptr;
    T* out = static_cast<T*>(a.out) + r * a.length;
    const auto at = [&](long k) {
      return dual{static_cast<double>(in[k]), tangent ? static_cast<double>(tangent[k]) : 0.0};
    };
    dual all = {1, 0};
    for (long k = 0; k < a.length; ++k) {
      before[k] = all;
      all = times(all, at(k));
    }
    all = {1, 0};
    for (long k = a.length; k-- > 0;) {
      const dual rest = times(before[k], all);
      out[k] = static_cast<T>(tangent ? rest.slope : rest.value);
      all = times(all, at(k));
    }
  }
}

struct entry {
  std::uint64_t key;
  std::int64_t at;
};
/// Unsigned sort key in the order of the elements, with NaN above all and both zeros equal; inverted if `largest`.
template <class T> LAMINA_INLINE std::uint64_t key_of(T x, bool largest) {
  using bits_type = unsigned_of<T>;
  constexpr bits_type sign = static_cast<bits_type>(bits_type(1) << (8 * sizeof(T) - 1));
  bits_type bits;
  if constexpr (is_float<T>) {
    const T y = x + T(0);
    __builtin_memcpy(&bits, &y, sizeof bits);
    bits = x != x ? static_cast<bits_type>(~bits_type(0)) : static_cast<bits_type>(bits & sign ? ~bits : bits | sign);
  } else {
    bits = static_cast<bits_type>(x);
    if constexpr (T(-1) < T(0)) bits = static_cast<bits_type>(bits ^ sign);
  }
  return largest ? static_cast<bits_type>(~bits) : bits;
}
LAMINA_INLINE bool comes_before(const entry& a, const entry& b) {
  return a.key < b.key || (a.key == b.key && a.at < b.at);
}
/// Restores the heap below `root`, whose entry was replaced; the root of a heap is the last in order.
LAMINA_APART void sift(entry* heap, long count, long root) {
  const entry moved = heap[root];
  for (;;) {
    long child = 2 * root + 1;
    if (child >= count) break;
    if (child + 1 < count && comes_before(heap[child], heap[child + 1])) ++child;
    if (!comes_before(moved, heap[child])) break;
    heap[root] = heap[child];
    root = child;
  }
  heap[root] = moved;
}
/// Stable sort by key; `other` is a buffer of the same size. Returns the buffer with the result.
LAMINA_APART entry* sort(entry* all, entry* other, long n, int bytes) {
  if (n <= 48) {
    for (long i = 1; i < n; ++i) {
      const entry x = all[i];
      long j = i;
      for (; j > 0 && x.key < all[j - 1].key; --j) all[j] = all[j - 1];
      all[j] = x;
    }
    return all;
  }
  for (int b = 0; b < bytes; ++b) {
    long place_of[256] = {};
    for (long i = 0; i < n; ++i) ++place_of[all[i].key >> (8 * b) & 255];
    if (place_of[all[0].key >> (8 * b) & 255] == n) continue;
    long next = 0;
    for (long& p : place_of) {
      const long count = p;
      p = next;
      next += count;
    }
    for (long i = 0; i < n; ++i) other[place_of[all[i].key >> (8 * b) & 255]++] = all[i];
    entry* const sorted = other;
    other = all;
    all = sorted;
  }
  return all;
}
/// The first of contiguous elements [l, n), in steps of a register, where one comes before `last` or is a NaN.
template <class T> LAMINA_INLINE long next_candidates(const T* in, long l, long n, T last, bool largest) {
  constexpr int lanes = width<T>;
  const vec<T> bound(last);
  if (largest) LAMINA_NO_UNROLL while (l + lanes <= n && xsimd::all(load(in + l) <= bound)) l += lanes;
  else LAMINA_NO_UNROLL while (l + lanes <= n && xsimd::all(load(in + l) >= bound)) l += lanes;
  return l;
}
template <class T> void order(const void* args, void* scratch) noexcept {
  const auto& a = *static_cast<const order_args*>(args);
  auto* entries = static_cast<entry*>(scratch);
  const long n = a.length, k = a.count;
  for (long o = 0; o < a.outer; ++o)
    for (long i = 0; i < a.inner; ++i) {
      const T* in = static_cast<const T*>(a.in) + o * n * a.inner + i;
      std::int64_t* out = a.out + o * k * a.inner + i;
      const entry* sorted = entries;
      if (4 * k <= n) {
        for (long l = 0; l < k; ++l) entries[l] = {key_of(in[l * a.inner], a.largest), l};
        for (long l = k / 2; l-- > 0;) sift(entries, k, l);
        for (long l = k; l < n && k > 0;) {
          long end = n;
          if constexpr (is_float<T>)
            if (a.inner == 1) {
              l = next_candidates(in, l, n, in[entries[0].at], a.largest);
              end = l + width<T> < n ? l + width<T> : n;
            }
          for (; l < end; ++l) {
            const std::uint64_t key = key_of(in[l * a.inner], a.largest);
            if (key >= entries[0].key) continue;
            entries[0] = {key, l};
            sift(entries, k, 0);
          }
        }
        for (long l = k; l-- > 1;) {
          const entry last = entries[0];
          entries[0] = entries[l];
          entries[l] = last;
          sift(entries, l, 0);
        }
      } else {
        for (long l = 0; l < n; ++l) entries[l] = {key_of(in[l * a.inner], a.largest), l};
        sorted = sort(entries, entries + n, n, static_cast<int>(sizeof(T)));
      }
      for (long l = 0; l < k; ++l) out[l * a.inner] = sorted[l].at;
    }
}

template <class T> void sum_alike(const void* args, void* scratch) noexcept {
  const auto& a = *static_cast<const sum_alike_args*>(args);
  const T* in = static_cast<const T*>(a.in);
  T* out = static_cast<T*>(a.out);
  const long inner = a.inner;
  auto* entries = static_cast<entry*>(scratch);
  long n = 0;
  for (long k = 0; k < a.count; ++k) {
    const long at = place(a.index[k], a.length, a.invalid, k);
    if (at >= 0) entries[n++] = {static_cast<std::uint64_t>(at), k};
    else __builtin_memset(out + k * inner, 0, static_cast<std::size_t>(inner) * sizeof(T));
  }
  if (n == 0) return;
  const entry* sorted = sort(entries, entries + a.count, n, 8);
  for (long first = 0, last; first < n; first = last) {
    T* sum = out + sorted[first].at * inner;
    __builtin_memcpy(sum, in + sorted[first].at * inner, static_cast<std::size_t>(inner) * sizeof(T));
    for (last = first + 1; last < n && sorted[last].key == sorted[first].key; ++last) {
      const T* more = in + sorted[last].at * inner;
      LAMINA_VECTORS for (long i = 0; i < inner; ++i) sum[i] = sum_of(sum[i], more[i]);
    }
    for (long k = first + 1; k < last; ++k)
      __builtin_memcpy(out + sorted[k].at * inner, sum, static_cast<std::size_t>(inner) * sizeof(T));
  }
}

/// The kernels by operation and element type.
struct index_tables {
  typed_functions scatter_nd, put_along_axis, running_sum, running_product, scatter_rows, scatter_elements, sum_alike,
      order;
};
template <element E> constexpr void add_positions(index_tables& tables) {
  using T = storage<E>;
  constexpr int at = static_cast<int>(E);
  tables.scatter_rows.of[at] = scatter_rows<T>;
  tables.scatter_elements.of[at] = scatter_elements<T>;
  tables.sum_alike.of[at] = sum_alike<T>;
  tables.running_sum.of[at] = running_sum<T>;
  tables.order.of[at] = order<T>;
}

constexpr index_tables make_tables() {
  index_tables tables{};
  coordinates::add_all(tables, std::make_integer_sequence<int, element_count>{});
  add_positions<element::f32>(tables);
  add_positions<element::f64>(tables);
  add_positions<element::i8>(tables);
  add_positions<element::i16>(tables);
  add_positions<element::i32>(tables);
  add_positions<element::i64>(tables);
  add_positions<element::u8>(tables);
  return tables;
}
constexpr index_tables tables = make_tables();

}  // namespace positions
using namespace positions;
}  // namespace LAMINA_KERNEL_SET

extern "C" {

void LAMINA_KERNEL(gather)(const void* args, void*) noexcept {
  const auto& a = *static_cast<const gather_args*>(args);
  switch (a.row) {
    case 1: return gather_words<std::uint8_t>(a);
    case 2: return gather_words<std::uint16_t>(a);
    case 4: return gather_words<std::uint32_t>(a);
    case 8: return gather_words<std::uint64_t>(a);
    default: return gather_rows(a);
  }
}
void LAMINA_KERNEL(take)(const void* args, void*) noexcept {
  const auto& a = *static_cast<const take_args*>(args);
  switch (a.size) {
    case 1: return take<std::uint8_t>(a);
    case 2: return take<std::uint16_t>(a);
    case 4: return take<std::uint32_t>(a);
    default: return take<std::uint64_t>(a);
  }
}
void LAMINA_KERNEL(one_hot)(const void* args, void*) noexcept {
  const auto& a = *static_cast<const one_hot_args*>(args);
  switch (a.size) {
    case 1: return one_hot<std::uint8_t>(a);
    case 2: return one_hot<std::uint16_t>(a);
    case 4: return one_hot<std::uint32_t>(a);
    default: return one_hot<std::uint64_t>(a);
  }
}
void LAMINA_KERNEL(put_rows)(const void* args, void*) noexcept {
  const auto& a = *static_cast<const put_rows_args*>(args);
  const char* in = static_cast<const char*>(a.in);
  std::int64_t outside[3] = {};
  for (long k = 0; k < a.count; ++k, in += a.row)
    if (const long at = place(a.index[k], a.length, outside, k); at >= 0)
      __builtin_memcpy(static_cast<char*>(a.out) + at * a.row, in, static_cast<std::size_t>(a.row));
}
void LAMINA_KERNEL(gather_nd)(const void* args, void*) noexcept {
  coordinates::gather(*static_cast<const coordinate_args*>(args));
}
void LAMINA_KERNEL(product_of_others_f32)(const void* args, void* scratch) noexcept {
  product_of_others<float>(*static_cast<const product_of_others_args*>(args), scratch);
}
void LAMINA_KERNEL(product_of_others_f64)(const void* args, void* scratch) noexcept {
  product_of_others<double>(*static_cast<const product_of_others_args*>(args), scratch);
}

extern constinit const row_functions LAMINA_KERNEL(rows) = {LAMINA_KERNEL(gather), LAMINA_KERNEL(take),
                                                            LAMINA_KERNEL(one_hot), LAMINA_KERNEL(put_rows),
                                                            LAMINA_KERNEL(gather_nd)};
extern constinit const typed_functions LAMINA_KERNEL(scatter_nd) = tables.scatter_nd;
extern constinit const typed_functions LAMINA_KERNEL(put_along_axis) = tables.put_along_axis;
extern constinit const typed_functions LAMINA_KERNEL(running_sum) = tables.running_sum;
extern constinit const typed_functions LAMINA_KERNEL(running_product) = tables.running_product;
extern constinit const typed_functions LAMINA_KERNEL(scatter_rows) = tables.scatter_rows;
extern constinit const typed_functions LAMINA_KERNEL(scatter_elements) = tables.scatter_elements;
extern constinit const typed_functions LAMINA_KERNEL(sum_alike) = tables.sum_alike;
extern constinit const typed_functions LAMINA_KERNEL(order) = tables.order;
extern constinit const typed_functions LAMINA_KERNEL(product_of_others) = {
    {LAMINA_KERNEL(product_of_others_f32), LAMINA_KERNEL(product_of_others_f64)}};

}  // extern "C"

}  // namespace lamina::kernels
